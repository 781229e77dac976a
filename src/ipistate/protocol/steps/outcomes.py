"""What a protocol's reducer answers, and what it reads from the reply to a seed."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.steps.events import StepMode
from ipistate.protocol.steps.exchange import EffectReply
from ipistate.protocol.wire import RESTART_HEADER, VERIFY_MODE_HEADER


S_co = TypeVar("S_co", covariant=True)


@attrs.frozen
class Advanced(Generic[S_co]):
    """The state after a reply."""

    state: S_co
    is_restart: bool = False
    """The reply says that the episode cannot be captured."""


def merged(cookies: JsonObject, reply: EffectReply) -> JsonObject:
    """Return the cookies with those that a reply sets."""
    return cookies | reply.cookies if reply.cookies else cookies


def verify_mode(reply: EffectReply) -> str:
    """Return how a checkpoint treats this server's verify requests; wait if unsaid."""
    said = reply.headers.get(VERIFY_MODE_HEADER)
    replays = said == StepMode.REPLAY.value
    return (StepMode.REPLAY if replays else StepMode.WAIT).value


def marks_restart(reply: EffectReply) -> bool:
    """Tell whether the server that was seeded can only start over."""
    return reply.headers.get(RESTART_HEADER) == "1"
