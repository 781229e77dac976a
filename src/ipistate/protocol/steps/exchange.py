"""What a protocol asks of other servers, and what comes back: as data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import attrs

from ipistate.kernel import EMPTY_OBJECT, JsonObject
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.wire import CAPTURE_SEGMENT, prefixed


class ServerRole(StrEnum):
    """The server that a request goes to; the shell knows its address."""

    RESOURCES = "resources"
    AGENT = "agent"


@attrs.frozen(kw_only=True)
class EffectRequest:
    """An HTTP request with a JSON body that the shell is to make once."""

    server: ServerRole
    path: str
    """With the rollout prefix."""
    body: JsonObject
    cookies: JsonObject = EMPTY_OBJECT
    """Values by name."""
    headers: JsonObject = EMPTY_OBJECT
    method: str = "POST"


_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class EffectReply:
    """A whole HTTP reply."""

    status: int
    body: bytes = b"{}"
    headers: Mapping[str, str] = _NO_HEADERS
    """By lower-case name."""
    cookies: JsonObject = EMPTY_OBJECT
    """What the reply sets: values by name."""


class FaultKind(StrEnum):
    """Why there is no whole reply."""

    CONNECTION = "connection"
    PAYLOAD = "payload"
    """The reply broke off."""
    DEADLINE = "deadline"
    """The episode's time was up first."""


@attrs.frozen
class EffectFault:
    """No reply, or not a whole one."""

    kind: FaultKind
    detail: str = ""


def captured(path: str, episode: EpisodeId, *, captures_tokens: bool) -> str:
    """Put an episode's prefix before a route of a model or an agent."""
    segment = CAPTURE_SEGMENT if captures_tokens else ""
    return prefixed(segment + path, episode)
