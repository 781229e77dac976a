"""Policies: what plays the agent in a rollout.

Scripted ones play reference trajectories, a random one makes arbitrary calls, and
``openai`` asks a model. Only the last one needs the ``run`` extra.
"""

from ipistate.policies.arbitrary import RandomPolicy
from ipistate.policies.endpoint import (
    REASONING_MEMBERS,
    Api,
    Endpoint,
    Patience,
    PolicyOptionError,
    Sampling,
    api_key,
)
from ipistate.policies.parameters import RowParameters
from ipistate.policies.registry import (
    POLICIES,
    PolicyOptions,
    for_episode,
    for_row,
    parameters_of,
    policy_of,
)
from ipistate.policies.scripted import Script, ScriptedPolicy, Scripts, Temper


__all__ = [
    "POLICIES",
    "REASONING_MEMBERS",
    "Api",
    "Endpoint",
    "Patience",
    "PolicyOptionError",
    "PolicyOptions",
    "RandomPolicy",
    "RowParameters",
    "Sampling",
    "Script",
    "ScriptedPolicy",
    "Scripts",
    "Temper",
    "api_key",
    "for_episode",
    "for_row",
    "parameters_of",
    "policy_of",
]
