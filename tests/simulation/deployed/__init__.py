"""A whole deployment in one process and in virtual time, with its real servers.

Every server is the application that ``ipistate deploy`` runs. Only what is around them is
simulated: the clock, the network, the threads, chance, and death.
"""
