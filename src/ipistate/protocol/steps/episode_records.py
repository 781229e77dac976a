"""The records of environments and agents: one line an episode, one line a session.

Each codec has what a checkpoint's directory asks of it: ``kind``, ``lines``, ``reader``
and ``key``. Lines are compact JSON, in the order of the records' members.
"""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import (
    JsonObject,
    JsonValue,
    encode,
    json_line,
    structure,
    trusted_object,
    unstructure,
)
from ipistate.protocol.episode import EpisodeId, is_session_id, rule
from ipistate.protocol.records import read_line
from ipistate.protocol.steps.boundaries import BoundaryCodec, check_version


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ipistate.kernel import Adopt

B = TypeVar("B")

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_check_digest: Final = rule(
    "invalid_digest",
    "a digest has 64 lower-case hex digits",
    lambda digest: bool(_DIGEST.fullmatch(digest)),
)


@attrs.frozen(kw_only=True)
class EnvironmentRecord(Generic[B]):
    """One episode of an environment server in a checkpoint."""

    episode_id: EpisodeId
    task_digest: str = attrs.field(validator=_check_digest)
    boundary: B | None = None
    """None if the episode starts over from its input."""


@attrs.frozen(kw_only=True)
class AgentSessionRecord(Generic[B]):
    """One session of an agent in a checkpoint."""

    episode_id: EpisodeId
    session_key: str
    """``run:`` and the rollout id, or the id of a native session."""
    session: JsonObject
    """The agent's own."""
    boundary: JsonObject | None = None
    """The state of its turn loop, None before the first turn."""
    episode: B | None = None
    """The boundary of its ``/run``, if it has one."""


@attrs.frozen
class EnvironmentRecords(Generic[B]):
    """Lines of an environment server whose protocol has these boundaries."""

    kind: ClassVar[str] = "environment"

    boundaries: BoundaryCodec[B]

    def lines(self, records: Iterable[EnvironmentRecord[B]]) -> Iterator[bytes]:
        """Write one line for each record, newline included."""
        for record in records:
            at = record.boundary
            yield _line(
                episode_id=unstructure(record.episode_id),
                task_digest=record.task_digest,
                boundary=None if at is None else self.boundaries.encode(at),
            )

    def reader(
        self, scope: Collection[EpisodeId] | None
    ) -> Callable[[bytes], EnvironmentRecord[B] | None]:
        """Return what reads a line; it gives None for an episode outside the scope.

        It raises a ``DecodeError`` or a ``SchemaError`` for a line that is no record.
        """

        def build(tree: Any, adopt: Adopt) -> EnvironmentRecord[B]:
            check_version(tree)
            found = structure(tree, _EnvironmentLine)
            return EnvironmentRecord(
                episode_id=found.episode_id,
                task_digest=found.task_digest,
                boundary=_decoded(self.boundaries, "boundary", found.boundary, adopt),
            )

        return lambda line: read_line(line, scope, build, "boundary")

    def key(self, record: EnvironmentRecord[B]) -> str:
        """Return the capture key."""
        return record.episode_id.capture_key


@attrs.frozen
class AgentSessionRecords(Generic[B]):
    """Lines of an agent whose ``/run`` has these boundaries."""

    kind: ClassVar[str] = "agent"

    episodes: BoundaryCodec[B]

    def lines(self, records: Iterable[AgentSessionRecord[B]]) -> Iterator[bytes]:
        """Write one line for each record, newline included."""
        for record in records:
            at = record.episode
            yield _line(
                episode_id=unstructure(record.episode_id),
                session_key=record.session_key,
                session=record.session,
                boundary=record.boundary,
                episode=None if at is None else self.episodes.encode(at),
            )

    def reader(
        self, scope: Collection[EpisodeId] | None
    ) -> Callable[[bytes], AgentSessionRecord[B] | None]:
        """Return what reads a line; it gives None for an episode outside the scope.

        It raises a ``DecodeError`` or a ``SchemaError`` for a line that is no record.
        """

        def build(tree: Any, adopt: Adopt) -> AgentSessionRecord[B]:
            check_version(tree)
            found = structure(tree, _AgentLine)
            _check_key(found)
            return AgentSessionRecord(
                episode_id=found.episode_id,
                session_key=found.session_key,
                session=_object("session", found.session, adopt),
                boundary=_optional("boundary", found.boundary, adopt),
                episode=_decoded(self.episodes, "episode", found.episode, adopt),
            )

        return lambda line: read_line(line, scope, build, "episode")

    def key(self, record: AgentSessionRecord[B]) -> str:
        """Return the key of the session."""
        return record.session_key


def _line(**members: JsonValue) -> bytes:
    # Each member has the full depth to itself, as when it is read.
    return json_line(encode(trusted_object(members))) + b"\n"


@attrs.frozen(kw_only=True)
class _EnvironmentLine:
    episode_id: EpisodeId
    task_digest: str = attrs.field(validator=_check_digest)
    boundary: Any


@attrs.frozen(kw_only=True)
class _AgentLine:
    episode_id: EpisodeId
    session_key: str
    session: Any
    boundary: Any
    episode: Any
    owner: str | None = None
    """Of servers with several workers, as is the next; both mean nothing here."""
    session_id: str | None = None


def _check_key(line: _AgentLine) -> None:
    # A restored run is found by this key, so another rollout's would be continued.
    key, expected = line.session_key, f"run:{line.episode_id.rollout_id}"
    if key == expected or (is_session_id(key) and not key.startswith("run:")):
        return
    message = f"expected {expected}, or the id of a native session"
    raise SchemaError("invalid_session_key", message, "$.session_key", preview(key))


def _object(name: str, tree: Any, adopt: Adopt) -> JsonObject:
    value = adopt(tree)
    if isinstance(value, JsonObject):
        return value
    message, where = "expected an object", f"$.{name}"
    raise SchemaError("wrong_type", message, where, preview(value))


def _optional(name: str, tree: Any, adopt: Adopt) -> JsonObject | None:
    return None if tree is None else _object(name, tree, adopt)


def _decoded(codec: BoundaryCodec[B], name: str, tree: Any, adopt: Adopt) -> B | None:
    try:
        return None if tree is None else codec.decode(tree, adopt)
    except SchemaError as error:
        raise error.below(name) from None
