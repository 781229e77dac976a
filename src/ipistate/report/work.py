"""Batches of lines through worker processes, in order and with bounded memory."""

from __future__ import annotations

import multiprocessing
import signal

from collections import deque
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Final, Self

from ipistate.report.chunk import Chunk, ReportLine, chunk


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from ipistate.report.chunk import Complete

BATCH_LINES: Final = 64
BATCH_BYTES: Final = 4 * 2**20
_AHEAD: Final = 2
"""Batches that wait for each process, so that none is idle."""


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

    def __init__(self, make_complete: Callable[[], Complete]) -> None:
        """Begin; ``make_complete`` is called once."""
        self._complete = make_complete()

    def chunks(self, lines: Iterable[ReportLine]) -> Iterator[Chunk]:
        """Make the chunks of a file's lines, in their order."""
        return (chunk(batch, self._complete) for batch in batches(lines))


class Processes:
    """Works in several processes; a context manager that ends them."""

    def __init__(self, count: int, make_complete: Callable[[], Complete]) -> None:
        """Begin; every process calls ``make_complete`` once, so it has to be pickled."""
        self._waiting = _AHEAD * count
        # A fork of a process with threads may hang, and progress bars have one.
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(make_complete,),
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


_completes: Final[list[Complete]] = []


def _begin(make_complete: Callable[[], Complete]) -> None:
    # The parent is told of an interruption, and ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _completes[:] = [make_complete()]


def _work(batch: Sequence[ReportLine]) -> Chunk:
    return chunk(batch, _completes[0])
