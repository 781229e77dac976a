"""How a run gets on: bars on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ipistate.cli.terminal import note, stderr_console


if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from rich.console import RenderableType
    from rich.progress import TaskID

    from ipistate.kernel import JsonObject
    from ipistate.rollouts import Rollout, RunTally

LINE_SECONDS: Final = 5.0
_TICKS: Final = 4


class _Bar(Progress):
    """A bar with a line of counts below it, so that neither is cut off."""

    told = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield Text(self.told, style="dim")


@attrs.define(eq=False)
class RunProgress:
    """Counts the events of a run and shows them."""

    total: int
    tally: RunTally
    progress: _Bar
    task: TaskID
    playing: bool = False
    """Whether a rollout has begun."""
    running: int = 0
    failures: int = 0
    _line: float = attrs.field(factory=time.monotonic)
    _began: float = attrs.field(factory=time.monotonic)
    _before: int = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: len(self.tally.rows), takes_self=True),
    )

    def began(self, rollout: Rollout) -> None:
        """One more is under way."""
        del rollout
        self.playing = True
        self.running += 1

    def failed(self, failure: JsonObject) -> None:
        """One has failed; the first one says why."""
        self.running -= 1
        self.failures += 1
        if self.failures == 1:
            kind, reason = failure["failure_kind"], failure["failure_reason"]
            self.note(f"a rollout failed ({kind}) and is masked: {reason}")

    def finished(self, row: JsonObject) -> None:
        """One has a row."""
        del row
        self.running -= 1

    def note(self, text: str) -> None:
        """Write a line without the bar in between."""
        self.progress.stop()
        note(f"run: {text}")
        self.progress.start()

    def tick(self) -> None:
        """Show how far the run is, if it is time to."""
        if not self.progress.disable:
            self.progress.told = self._told()
            self.progress.update(self.task, completed=len(self.tally.rows))
        elif time.monotonic() - self._line >= LINE_SECONDS:
            self._line = time.monotonic()
            done = f"{len(self.tally.rows)} of {self.total} done"
            note(f"run: {done}, {self._told()}{self._eta()}")

    def _told(self) -> str:
        tally, mean = self.tally, self.tally.mean_reward
        rate = tally.followed / tally.counted if tally.counted else 0.0
        parts = [
            f"{self.running} in flight",
            f"{self.failures} failed",
            "reward -" if mean is None else f"reward {mean:.3f}",
            f"injection followed {rate:.1%}",
            f"{tally.tokens:,} tokens",
        ]
        return ", ".join(parts)

    def _eta(self) -> str:
        done = len(self.tally.rows) - self._before
        if not done:
            return ""
        each = (time.monotonic() - self._began) / done
        left = each * (self.total - len(self.tally.rows))
        return f", {left:.0f} s left"


@contextmanager
def run_progress(total: int, tally: RunTally) -> Generator[RunProgress]:
    """Show the progress of a run of so many rollouts."""
    console = stderr_console()
    progress = _Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
        refresh_per_second=_TICKS,
    )
    with progress:
        task = progress.add_task("run", total=total, completed=len(tally.rows))
        yield RunProgress(total, tally, progress, task)
