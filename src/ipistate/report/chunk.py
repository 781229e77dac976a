"""Batches of lines become chunks of the page: compressed views, an index, counts.

Everything here runs in worker processes, so what goes in and out is small and plain.
"""

from __future__ import annotations

import base64
import zlib

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ipistate.errors import IpiStateError
from ipistate.kernel import JsonArray, JsonObject, JsonValue, encode, freeze
from ipistate.report.rollout import StoredRollout, read
from ipistate.report.tally import Groups
from ipistate.report.texts import Texts
from ipistate.report.view import view
from ipistate.scoring import read_rollout


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Complete: TypeAlias = Callable[[JsonObject], JsonObject]
    """Gives a row what it lacks, from its task."""

_LONGEST_TITLE = 160


@attrs.frozen
class ReportLine:
    """A line of a file of rollouts."""

    number: int
    text: bytes
    is_failure: bool = False
    """It stands in the run's file of failures."""


@attrs.frozen
class Broken:
    """A line that is not a rollout, and why."""

    line: int
    code: str
    message: str


@attrs.frozen
class IndexEntry:
    """A rollout in the index of the page."""

    line: int
    status: str
    labels: tuple[str, ...]
    """In the order of ``DIMENSIONS``."""
    task: str
    title: str
    """The beginning of what the user asked."""
    goal: str
    target: str
    ident: str
    calls: int
    is_exposed: bool
    is_failure: bool


@attrs.frozen(kw_only=True)
class Chunk:
    """What became of a batch of lines."""

    entries: tuple[IndexEntry, ...]
    broken: tuple[Broken, ...]
    groups: Groups
    data: str
    """The views, as base64 of gzip of JSON."""


def as_it_is(row: JsonObject) -> JsonObject:
    """Give a row nothing that it lacks."""
    return row


def chunk(lines: Iterable[ReportLine], complete: Complete = as_it_is) -> Chunk:
    """Read a batch of lines; those that are not rollouts are told of, not raised for."""
    texts, groups = Texts(), Groups()
    entries: list[IndexEntry] = []
    broken: list[Broken] = []
    views: list[dict[str, Any]] = []
    for line in lines:
        try:
            one = read(line.number, complete(read_rollout(line.text)))
        except IpiStateError as error:
            broken.append(Broken(line.number, error.code, str(error)))
            continue
        groups.add(one)
        entries.append(entry(one, line))
        views.append(view(one, texts))
    data = packed({"texts": texts.kept, "rollouts": views})
    return Chunk(entries=tuple(entries), broken=tuple(broken), groups=groups, data=data)


def packed(document: object) -> str:
    """Write a document as base64 of gzip of JSON, the same bytes for the same document."""
    squeeze = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    data = squeeze.compress(encode(freeze(document))) + squeeze.flush()
    return base64.b64encode(data).decode("ascii")


def entry(one: StoredRollout, line: ReportLine) -> IndexEntry:
    """Describe a rollout for the index."""
    row, injection = one.row, one.injection
    return IndexEntry(
        line=line.number,
        status=one.status,
        labels=tuple(map(str, one.labels.values())),
        task=place_of(row),
        title=_clipped(_asked(row)),
        goal=_clipped(injection.goal) if injection else "",
        target=_clipped(injection.target_tool) if injection else "",
        ident=_clipped(str(row.get("_ng_rollout_id") or one.response.get("id") or "")),
        calls=len(one.calls),
        is_exposed=one.is_exposed,
        is_failure=line.is_failure,
    )


def place_of(row: JsonObject) -> str:
    """Name the task and the repeat of a row, as far as it does."""
    numbers = [row.get(name) for name in ("_ng_task_index", "_ng_rollout_index")]
    return ".".join(str(one) for one in numbers if type(one) is int)


def _asked(row: JsonObject) -> str:
    params = row.get("responses_create_params")
    given = (
        params.get("input") if isinstance(params, JsonObject) else row.get("messages")
    )
    if isinstance(given, str):
        return given
    messages: Sequence[JsonValue] = given if isinstance(given, JsonArray) else ()
    for message in messages:
        if isinstance(message, JsonObject) and message.get("role") == "user":
            return _first_text(message.get("content"))
    return ""


def _first_text(content: JsonValue) -> str:
    first = content[0] if isinstance(content, JsonArray) and content else content
    text = first.get("text") if isinstance(first, JsonObject) else first
    return text if isinstance(text, str) else ""


def _clipped(text: str) -> str:
    line = " ".join(text[: 4 * _LONGEST_TITLE].split())
    return line if len(line) <= _LONGEST_TITLE else line[:_LONGEST_TITLE] + "…"
