"""Rollouts: task rows, a policy and a server become scored rows that survive a crash.

``ipistate run`` is its command. Needs the extras ``client`` and ``server``.
"""
