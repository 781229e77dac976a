"""The steps of live episodes, for environments and for agents that take ``/run``."""
