"""Batches of lines become chunks of the page: compressed views, an index, counts.

Chunks are made in worker processes, in order and with bounded memory, so what goes in
and out of them is small and plain.
"""

from __future__ import annotations

import base64
import multiprocessing
import signal
import zlib

from collections import deque
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import attrs

from ipistate.errors import IpiStateError
from ipistate.kernel import (
    JsonObject,
    encode,
    freeze,
)
from ipistate.report.index import IndexEntry, entry
from ipistate.report.recorded import RecordedUse
from ipistate.report.rollout import read
from ipistate.report.tally import Groups
from ipistate.report.texts import Texts
from ipistate.report.view import view
from ipistate.scoring import read_rollout
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from ipistate.tools import Tool

    MakeTools: TypeAlias = Callable[[], Mapping[str, Tool]]

    Complete: TypeAlias = Callable[[JsonObject], JsonObject]
    """Gives a row what it lacks, from its task."""

BATCH_LINES: Final = 64
BATCH_BYTES: Final = 4 * 2**20
_AHEAD: Final = 2
"""Batches that wait for each process, so that none is idle."""


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


@attrs.frozen(kw_only=True)
class Chunk:
    """What became of a batch of lines."""

    entries: tuple[IndexEntry, ...]
    broken: tuple[Broken, ...]
    groups: Groups
    recorded: RecordedUse
    data: str
    """The views, as base64 of gzip of JSON."""


def as_it_is(row: JsonObject) -> JsonObject:
    """Give a row nothing that it lacks."""
    return row


def built_in() -> Mapping[str, Tool]:
    """Return the table of tools that rows are executed with if no other is given."""
    return TOOLS


def chunk(
    lines: Iterable[ReportLine],
    complete: Complete = as_it_is,
    tools: Mapping[str, Tool] = TOOLS,
) -> Chunk:
    """Read a batch of lines; those that are not rollouts are listed, nothing is raised."""
    texts, groups, recorded = Texts(), Groups(), RecordedUse()
    entries: list[IndexEntry] = []
    broken: list[Broken] = []
    views: list[dict[str, Any]] = []
    for line in lines:
        try:
            one = read(line.number, complete(read_rollout(line.text)), tools)
        except IpiStateError as error:
            broken.append(Broken(line.number, error.code, str(error)))
            continue
        groups.add(one)
        recorded.add(one)
        entries.append(entry(one, is_failure=line.is_failure))
        views.append(view(one, texts))
    data = packed({"texts": texts.kept, "rollouts": views})
    return Chunk(
        entries=tuple(entries),
        broken=tuple(broken),
        groups=groups,
        recorded=recorded,
        data=data,
    )


def packed(document: object) -> str:
    """Write a document as base64 of gzip of JSON, the same bytes for the same document."""
    squeeze = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    data = squeeze.compress(encode(freeze(document))) + squeeze.flush()
    return base64.b64encode(data).decode("ascii")


def batches(lines: Iterable[ReportLine]) -> Iterator[tuple[ReportLine, ...]]:
    """Cut lines into batches; no batch is large unless one of its lines is."""
    batch: list[ReportLine] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == BATCH_LINES or size + len(line.text) > BATCH_BYTES):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(line)
        size += len(line.text)
    if batch:
        yield tuple(batch)


class Here:
    """Works in this process."""

    def __init__(
        self, make_complete: Callable[[], Complete], make_tools: MakeTools = built_in
    ) -> None:
        """Begin; what makes something is called once."""
        self._complete, self._tools = make_complete(), make_tools()

    def chunks(self, lines: Iterable[ReportLine]) -> Iterator[Chunk]:
        """Make the chunks of a file's lines, in their order."""
        batched = batches(lines)
        return (chunk(batch, self._complete, self._tools) for batch in batched)


class Processes:
    """Works in several processes; a context manager that ends them."""

    def __init__(
        self,
        count: int,
        make_complete: Callable[[], Complete],
        make_tools: MakeTools = built_in,
    ) -> None:
        """Begin; every process calls what makes something once, so it is pickled."""
        self._waiting = _AHEAD * count
        # A fork of a process with threads may hang, and progress bars have one.
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(make_complete, make_tools),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def chunks(self, lines: Iterable[ReportLine]) -> Iterator[Chunk]:
        """Make the chunks of a file's lines, in their order."""
        running: deque[Future[Chunk]] = deque()
        for batch in batches(lines):
            running.append(self._pool.submit(_work, batch))
            if len(running) > self._waiting:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


_made: Final[list[tuple[Complete, Mapping[str, Tool]]]] = []


def _begin(make_complete: Callable[[], Complete], make_tools: MakeTools) -> None:
    # The parent gets the interruption, too, and ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _made[:] = [(make_complete(), make_tools())]


def _work(batch: Sequence[ReportLine]) -> Chunk:
    return chunk(batch, *_made[0])
