"""Session records and the manifest: the exact text of a checkpoint's two files.

A record line is compact JSON with the encoded state spliced in as it is, so that a state
is encoded once however often it is written (docs/reference/control-plane.md, sections 4.2 and 4.3).
"""

from __future__ import annotations

import json
import re

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

import attrs

from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel import (
    JsonObject,
    decode_as,
    encode,
    is_object,
    json_line,
    repeated_members,
    structure,
)
from ipistate.protocol.episode import EpisodeId, check_session_id
from ipistate.sessions import SharingCodec


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ipistate.kernel import Adopt
    from ipistate.sessions import StateCodec

T = TypeVar("T")

KIND: Final = "resources"
STORE_VERSION: Final = 1
RECORDS_FILE: Final = re.compile(r"records(-[0-9a-f]{64})?\.jsonl")

KEPT_ALWAYS: Final = 2**20
"""Bytes of encoded states that are kept for the next commit, however few there are."""

# Everything before the state, in either spacing; ids without escapes only.
_ENVELOPE: Final = re.compile(
    rb'\{"episode_id": ?\{"rollout_id": ?"([A-Za-z0-9._-]+)", ?"attempt": ?(0|[1-9][0-9]{0,8})\}'
    rb', ?"session_id": ?"([!#-\[\]-~]{1,96})", ?"state": ?'
)


class CheckpointRecord(Protocol):
    """One line of a checkpoint's records, of any kind."""

    @property
    def episode_id(self) -> EpisodeId:
        """The episode that it continues."""
        ...


R = TypeVar("R", bound=CheckpointRecord)
R_co = TypeVar("R_co", bound=CheckpointRecord, covariant=True)


class RecordCodec(Protocol[R]):
    """How a kind's records become lines, and are read again."""

    kind: ClassVar[str]

    def lines(self, records: Iterable[R]) -> Iterator[bytes]:
        """Write one line for each record, newline included."""
        ...

    def reader(
        self, scope: Collection[EpisodeId] | None
    ) -> Callable[[bytes], R | None]:
        """Return what reads the lines of one checkpoint, each once.

        It gives None for a line whose episode is valid but not in the scope, and raises
        a ``DecodeError`` or a ``SchemaError`` for one that is no record.
        """
        ...

    def key(self, record: R) -> str:
        """Return what no two records of a checkpoint have in common."""
        ...


@attrs.frozen
class SessionRecord:
    """One session in a checkpoint. The state is opaque; a ``StateCodec`` knows it."""

    episode_id: EpisodeId
    session_id: str
    state: object


@attrs.frozen(kw_only=True)
class Manifest:
    """What a published checkpoint directory holds."""

    schema_version: int = STORE_VERSION
    kind: str
    instance: str
    checkpoint_id: str
    records_file: str
    records_sha256: str
    record_count: int

    def to_document(self) -> JsonObject:
        """Return the manifest as the commit reply shows it."""
        return JsonObject(attrs.asdict(self))

    def to_json(self) -> bytes:
        """Write the manifest as its file stores it: sorted, indented by one space."""
        return json.dumps(attrs.asdict(self), sort_keys=True, indent=1).encode()


@attrs.frozen
class Restorable(Generic[R_co]):
    """What reading a checkpoint directory gives."""

    manifest: Manifest
    records: tuple[R_co, ...]


class EncodedStates:
    """Remembers the texts of the states that were written last, within a bound.

    States are immutable, so the same object has the same text, whichever session it is
    the state of. What is kept is less than what a commit writes: a small part
    always, beyond it fifteen parts of sixteen, so that its peak stays below one file.
    """

    def __init__(self, codec: StateCodec[Any]) -> None:
        self._codec = codec
        self._texts: dict[int, tuple[object, bytes]] = {}

    def lines(self, records: Iterable[SessionRecord]) -> Iterator[bytes]:
        """Write one line for each record, encoding only what is not known.

        Texts of states that are not among the records are let go before anything is
        encoded.

        Raises:
            EncodeError: A state cannot be written.
        """
        asked = tuple(records)
        named = {id(record.state) for record in asked}
        # A dict of its own: a write that was stopped may be using the one before.
        kept = {key: known for key, known in self._texts.items() if key in named}
        self._texts = kept
        size, written = sum(len(text) for _, text in kept.values()), 0
        for record in asked:
            known = kept.get(id(record.state))
            text = (
                json_line(self._codec.encode(record.state))
                if known is None
                else known[1]
            )
            line = record_line(record, text)
            written += len(line)
            # One file must not stay in memory whole: a line of it is in the making, too.
            room = max(KEPT_ALWAYS, written - written // 16)
            if known is None and size + len(text) <= room:
                kept[id(record.state)] = record.state, text
                size += len(text)
            yield line


class SessionRecords:
    """The records of a resources server, whose states a ``StateCodec`` knows."""

    kind: ClassVar[str] = KIND

    def __init__(self, codec: StateCodec[Any]) -> None:
        self._codec = codec
        self._encoded = EncodedStates(codec)

    def lines(self, records: Iterable[SessionRecord]) -> Iterator[bytes]:
        """Write one line for each record, as ``EncodedStates`` does.

        Raises:
            EncodeError: A state cannot be written.
        """
        return self._encoded.lines(records)

    def reader(
        self, scope: Collection[EpisodeId] | None
    ) -> Callable[[bytes], SessionRecord | None]:
        """Return what reads lines; equal worlds in them become one."""
        codec = SharingCodec(self._codec)
        return lambda line: read_record(line, codec, scope)

    def key(self, record: SessionRecord) -> str:
        """Return the id of the session."""
        return record.session_id


def record_line(record: SessionRecord, state: bytes) -> bytes:
    """Write a record's line around its encoded state, newline included."""
    return (
        b'{"episode_id":{"rollout_id":"%b","attempt":%d},"session_id":%b,"state":%b}\n'
        % (
            record.episode_id.rollout_id.encode(),
            record.episode_id.attempt,
            encode(record.session_id),
            state,
        )
    )


def read_record(
    line: bytes, codec: StateCodec[Any], scope: Collection[EpisodeId] | None
) -> SessionRecord | None:
    """Read one line; None if its episode is valid but not in the scope.

    Raises:
        DecodeError: The line is not acceptable JSON.
        SchemaError: It is not a record, or it has a member twice.
    """
    # The usual form is taken apart here, because a restore reads thousands of lines;
    # everything else goes through the parser, which says what is wrong.
    start = _ENVELOPE.match(line)
    text = line.rstrip(b" \t\r\n")
    if start is not None and text.endswith(b"}"):
        try:
            return _read_usual(start, text, codec, scope)
        except ValueError:
            pass  # the other way says what is wrong, or that nothing is
    return _read_any(line, codec, scope)


def _read_usual(
    start: re.Match[bytes],
    text: bytes,
    codec: StateCodec[Any],
    scope: Collection[EpisodeId] | None,
) -> SessionRecord | None:
    # What lies between the envelope's two ends is read as one JSON value, so no member
    # can hide behind the state, and none can be repeated.
    episode = EpisodeId(start[1].decode(), int(start[2]))
    state = memoryview(text)[start.end() : -1]
    if scope is not None and episode not in scope:
        return decode_as(state, lambda _tree, _adopt: None)
    return SessionRecord(episode, start[3].decode(), decode_as(state, codec.decode))


@attrs.frozen
class _Named:
    episode_id: EpisodeId


@attrs.frozen
class _Envelope:
    episode_id: EpisodeId
    session_id: str = attrs.field(validator=check_session_id)
    state: Any
    owner: str | None = None
    """Of servers with several workers; means nothing here."""


def _read_any(
    line: bytes, codec: StateCodec[Any], scope: Collection[EpisodeId] | None
) -> SessionRecord | None:
    def build(tree: Any, adopt: Adopt) -> SessionRecord:
        envelope = structure(tree, _Envelope)
        try:
            state = codec.decode(envelope.state, adopt)
        except SchemaError as error:
            raise error.below("state") from None
        return SessionRecord(envelope.episode_id, envelope.session_id, state)

    return read_line(line, scope, build)


def read_line(
    line: bytes,
    scope: Collection[EpisodeId] | None,
    build: Callable[[Any, Adopt], T],
    *inner: str,
) -> T | None:
    """Read a line of any kind; None if its episode is valid but not in the scope.

    Args:
        line: One JSON object with the member ``episode_id``.
        scope: The episodes to read, None for all.
        build: Makes the record of the parsed tree.
        inner: Members that may not have a member twice either.

    Raises:
        DecodeError: The line is not acceptable JSON.
        SchemaError: It names no episode, has a member twice, or is refused by ``build``.
    """

    def read(tree: Any, adopt: Adopt) -> T | None:
        named = {n: m for n, m in _object(tree).items() if n == "episode_id"}
        episode = structure(named, _Named).episode_id
        return build(tree, adopt) if scope is None or episode in scope else None

    _refuse_repeated(line, "episode_id", *inner)
    return decode_as(line, read)


def _object(tree: Any) -> dict[str, Any]:
    if is_object(tree):
        return tree
    raise SchemaError("wrong_type", "expected an object", preview=preview(tree))


def _refuse_repeated(text: bytes, *inner: str) -> None:
    # An envelope with two episodes or two states could be another one for each reader.
    # Inside a state the last member counts, as in all JSON that is read here.
    paths = repeated_members(text)
    try:
        path = next(
            (p for p in paths if not p[1:] or (p[0] in inner and not p[2:])), ()
        )
    except (ValueError, RecursionError):
        return  # decode_as says what is wrong
    if path:
        message = f"member {path[-1]!a} stands there more than once"
        raise SchemaError("duplicate_member", message, json_path(path))


def read_manifest(data: bytes, kind: str, instance: str) -> Manifest:
    """Read a manifest that a participant of this kind and name may restore.

    The checks are 3 to 7 of docs/reference/control-plane.md, section 4.6, in that order. Members that
    this version does not know are ignored.

    Raises:
        DecodeError: It is not acceptable JSON.
        SchemaError: It is not a manifest, or it is another participant's.
    """
    _refuse_repeated(data)
    return decode_as(data, lambda tree, _: _manifest(_object(tree), kind, instance))


def _manifest(tree: dict[str, Any], kind: str, instance: str) -> Manifest:
    known = {"schema_version": STORE_VERSION, "kind": kind, "instance": instance}
    for name, expected in known.items():
        found = tree.get(name)
        if type(found) is not type(expected) or found != expected:
            message = f"expected {expected!r}"
            raise SchemaError("wrong_value", message, f"$.{name}", preview(found))
    names = {field.name for field in attrs.fields(Manifest)}
    manifest = structure({n: m for n, m in tree.items() if n in names}, Manifest)
    if RECORDS_FILE.fullmatch(manifest.records_file) is None:
        message = f"expected a name like {RECORDS_FILE.pattern}"
        shown = preview(manifest.records_file)
        raise SchemaError("wrong_value", message, "$.records_file", shown)
    return manifest
