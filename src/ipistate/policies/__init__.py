"""Policies: what plays the agent in a rollout.

Scripted ones play reference trajectories, a random one makes arbitrary calls, and
``openai`` asks a model. Only the last one needs the ``run`` extra.
"""

from ipistate.policies.arbitrary import RandomPolicy
from ipistate.policies.endpoint import (
    Api,
    Endpoint,
    Patience,
    PolicyOptionError,
    Sampling,
    api_key,
)
from ipistate.policies.registry import POLICIES, PolicyOptions, for_row, policy_of
from ipistate.policies.scripted import Script, ScriptedPolicy, Scripts


__all__ = [
    "POLICIES",
    "Api",
    "Endpoint",
    "Patience",
    "PolicyOptionError",
    "PolicyOptions",
    "RandomPolicy",
    "Sampling",
    "Script",
    "ScriptedPolicy",
    "Scripts",
    "api_key",
    "for_row",
    "policy_of",
]
