"""The boundaries of the protocol ``single_agent_turn``, which are its whole state."""

from __future__ import annotations

import re

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from ipistate.kernel import EMPTY_OBJECT, JsonObject, JsonValue
from ipistate.protocol.episode import Validator, rule
from ipistate.protocol.steps.boundaries import (
    BoundaryCodec,
    check_cookies,
    check_verify_mode,
)
from ipistate.protocol.steps.events import StepMode


def _named(prefix: str) -> Validator:
    form = re.compile(rf"{prefix}-[0-9a-f]{{32}}")
    message = f"expected {prefix}- and 32 lower-case hex digits"
    return rule("invalid_session_id", message, lambda name: bool(form.fullmatch(name)))


@attrs.frozen(kw_only=True)
class SessionHandles:
    """The two sessions of an episode, and the cookies that find them.

    Both are named before the first request, so a seed that runs again names the same.
    """

    resources_session_id: str = attrs.field(validator=_named("resources-session"))
    resources_cookies: JsonObject = attrs.field(validator=check_cookies)
    agent_session_id: str = attrs.field(validator=_named("agent-session"))
    agent_cookies: JsonObject = attrs.field(validator=check_cookies)
    resources_verify: str = attrs.field(validator=check_verify_mode)
    """``wait`` or ``replay``, as the seed's reply said."""

    @classmethod
    def of(cls, resources_token: str, agent_token: str) -> SessionHandles:
        """Name two new sessions by random tokens of 32 hex digits."""
        return cls(
            resources_session_id=f"resources-session-{resources_token}",
            resources_cookies=EMPTY_OBJECT,
            agent_session_id=f"agent-session-{agent_token}",
            agent_cookies=EMPTY_OBJECT,
            resources_verify=StepMode.WAIT.value,
        )


@attrs.frozen(kw_only=True)
class TurnSeed:
    """Next, both sessions are seeded."""

    handles: SessionHandles


@attrs.frozen(kw_only=True)
class TurnInvoke:
    """Next, the agent plays its turns."""

    handles: SessionHandles


@attrs.frozen(kw_only=True)
class TurnClose:
    """Next, the agent's session is closed.

    An episode that a checkpoint counts as before the agent's turns must not be found in
    a step that is waited for, so this is a boundary of its own.
    """

    handles: SessionHandles
    response: JsonObject


@attrs.frozen(kw_only=True)
class TurnVerify:
    """Next, the response is scored."""

    handles: SessionHandles
    response: JsonObject
    observations: JsonValue


@attrs.frozen(kw_only=True)
class TurnReturn:
    """Next, the caller is answered."""

    handles: SessionHandles
    result: JsonObject
    observations: JsonValue


TurnBoundary: TypeAlias = TurnSeed | TurnInvoke | TurnClose | TurnVerify | TurnReturn

_KINDS: Final[Mapping[str, type[Any]]] = {
    "seed": TurnSeed,
    "invoke_agent": TurnInvoke,
    "close_agent": TurnClose,
    "verify": TurnVerify,
    "return": TurnReturn,
}

TURN_BOUNDARIES: Final[BoundaryCodec[TurnBoundary]] = BoundaryCodec(_KINDS)
