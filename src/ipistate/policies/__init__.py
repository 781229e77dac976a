"""Policies: whoever plays the agent in a rollout."""

from __future__ import annotations

from ipistate.policies.policy import (
    FILTERED,
    LENGTH,
    Policy,
    PolicyError,
    Reply,
    Usage,
)


__all__ = ["FILTERED", "LENGTH", "Policy", "PolicyError", "Reply", "Usage"]
