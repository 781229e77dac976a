"""Policies: whoever plays the agent in a rollout.

Scripted ones play reference trajectories, a random one whatever comes to its mind, and
``openai`` asks a model. Only the last one needs the ``run`` extra.
"""

from __future__ import annotations

from ipistate.policies.arbitrary import RandomPolicy
from ipistate.policies.endpoint import (
    Api,
    Endpoint,
    Patience,
    PolicyOptionError,
    Sampling,
    api_key,
)
from ipistate.agents.items import input_messages
from ipistate.agents.policy import (
    FILTERED,
    LENGTH,
    Policy,
    PolicyError,
    PolicyReply,
    Usage,
)
from ipistate.policies.registry import POLICIES, PolicyOptions, for_row, policy_of
from ipistate.policies.scripted import Script, ScriptedPolicy, Scripts


__all__ = [
    "FILTERED",
    "LENGTH",
    "POLICIES",
    "Api",
    "Endpoint",
    "Patience",
    "Policy",
    "PolicyError",
    "PolicyOptionError",
    "PolicyOptions",
    "PolicyReply",
    "RandomPolicy",
    "Sampling",
    "Script",
    "ScriptedPolicy",
    "Scripts",
    "Usage",
    "api_key",
    "for_row",
    "input_messages",
    "policy_of",
]
