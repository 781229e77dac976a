"""The files of a run: its rows, its failures, its attempts, what it is made of."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.errors import IpiStateError
from ipistate.kernel import (
    JsonObject,
    decode,
    decode_as,
    encode,
    is_object,
    structure,
    trusted_object,
)
from ipistate.protocol import EpisodeId
from ipistate.rollouts.budget import Spent
from ipistate.rollouts.configuration import Configuration, Place, differences
from ipistate.rollouts.lines import LineFile, RunFileError, lines_of, write_whole
from ipistate.scoring import metrics_report


if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from ipistate.kernel import Adopt
    from ipistate.rollouts.configuration import Rollout

_ADVICE: Final = "mend the file or start with another output; nothing was changed"
_COUNTED: Final = (
    *("_ng_task_index", "_ng_rollout_index", "mask_sample"),
    *("reward", "reward_safety", "reward_utility", "injection_followed"),
    *("attack_difficulty", "verification_type", "attack_category"),
)


@attrs.define(eq=False)
class RunTally:
    """The rows of a run, counted."""

    rows: list[JsonObject] = attrs.field(factory=list[JsonObject])
    spent: Spent = attrs.Factory(Spent)
    """Of rows and of failures."""
    masked: int = 0
    """Rows that count neither way."""
    followed: int = 0
    rewards: float = 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row."""
        # The rest of a row need not stay in memory.
        slim = trusted_object({name: row[name] for name in _COUNTED if name in row})
        self.rows.append(slim)
        self.spend(row)
        if slim.get("mask_sample"):
            self.masked += 1
            return
        self.followed += slim.get("injection_followed") is True
        reward = slim.get("reward")
        self.rewards += reward if isinstance(reward, int | float) else 0.0

    def spend(self, row: Mapping[str, Any]) -> None:
        """Count what a row or a failure has cost."""
        self.spent = self.spent.with_response(row.get("response"))

    @property
    def tokens(self) -> int:
        """What the endpoint says that all of it has cost."""
        return self.spent.tokens

    @property
    def mean_reward(self) -> float | None:
        """The mean reward of the rows that count; None without any."""
        return self.rewards / self.counted if self.counted else None

    @property
    def counted(self) -> int:
        """How many rows are not masked."""
        return len(self.rows) - self.masked

    def metrics(self) -> JsonObject:
        """Return the reply that ``/aggregate_metrics`` gives for the rows, in order."""
        ordered = sorted(self.rows, key=_place)
        return metrics_report(ordered)


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["_ng_task_index"], row["_ng_rollout_index"]


@attrs.frozen
class RunFiles:
    """Where everything of a run is kept: beside its rows, under names made from theirs."""

    output: Path

    @property
    def failures(self) -> Path:
        """Attempts that are masked, never scored."""
        return self._stem("_failures.jsonl")

    @property
    def metrics(self) -> Path:
        """What ``/aggregate_metrics`` answers for the rows."""
        return self._stem("_aggregate_metrics.json")

    @property
    def configuration(self) -> Path:
        """What the rows depend on."""
        return self._beside(".run.json")

    @property
    def attempts(self) -> Path:
        """Which attempts have begun."""
        return self._beside(".attempts.jsonl")

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints of the run are."""
        return self._beside(".checkpoints.json")

    @property
    def log(self) -> Path:
        """What the embedded server has to say."""
        return self._beside(".server.log")

    def _stem(self, ending: str) -> Path:
        return self.output.with_name(f"{self.output.stem}{ending}")

    def _beside(self, ending: str) -> Path:
        return self.output.with_name(f"{self.output.name}{ending}")


@attrs.define(eq=False, kw_only=True)
class Records:
    """The files while a run is writing to them, and what they had before."""

    files: RunFiles
    configuration: Configuration
    rows: LineFile
    failures: LineFile
    attempts: LineFile
    torn: tuple[Path, ...]
    """Where incomplete last lines have been moved."""
    done: set[Place] = attrs.field(factory=set[Place])
    begun: dict[Place, int] = attrs.field(factory=dict[Place, int])
    """The highest attempt of each place that has begun."""
    tally: RunTally = attrs.field(factory=RunTally)

    def began(self, rollout: Rollout) -> None:
        """Note that an attempt begins."""
        episode = rollout.episode
        line = {"_ng_rollout_id": episode.rollout_id, "attempt": episode.attempt}
        self.attempts.append(encode(JsonObject(line)))
        self.begun[rollout.place] = episode.attempt

    def finished(self, row: JsonObject) -> None:
        """Write a row and count it."""
        self.rows.append(encode(row))
        self._count(row)

    def failed(self, failure: JsonObject) -> None:
        """Write down an attempt that is not scored."""
        self.failures.append(encode(failure))
        self.tally.spend(failure)

    def sync(self) -> None:
        """Wait until all rows and failures are on the disk."""
        self.rows.sync()
        self.failures.sync()

    def write_metrics(self) -> None:
        """Replace the metrics by those of all rows."""
        write_whole(self.files.metrics, encode(self.tally.metrics()) + b"\n")

    def lacks(self, rollout_id: str) -> bool:
        """Tell whether a rollout is one of this run and has no row."""
        place = self.configuration.place(rollout_id)
        return place is not None and place not in self.done

    def stale(self) -> tuple[EpisodeId, ...]:
        """Return the attempts that have begun and have no row."""
        return tuple(
            EpisodeId(self.configuration.rollout_id(place), attempt)
            for place, attempt in self.begun.items()
            if place not in self.done
        )

    def read(self) -> None:
        """Count the rows, failures and attempts that are there.

        Raises:
            RunFileError: ``broken_row``: a line is not a row of this run.
                ``repeated_row``: a rollout has two.
        """
        for number, line in lines_of(self.rows.path):
            self._count(self._row(number, line))
        for number, line in lines_of(self.failures.path):
            self.tally.spend(_decoded(self.failures.path, number, line))
        for number, line in lines_of(self.attempts.path):
            row = _decoded(self.attempts.path, number, line)
            place = self.configuration.place(str(row.get("_ng_rollout_id")))
            attempt = row.get("attempt")
            if place is not None and isinstance(attempt, int):
                self.begun[place] = max(attempt, self.begun.get(place, 0))

    def _count(self, row: JsonObject) -> None:
        task, repeat = row["_ng_task_index"], row["_ng_rollout_index"]
        if isinstance(task, int) and isinstance(repeat, int):
            self.done.add(Place(task, repeat))
        self.tally.add(row)

    def _row(self, number: int, line: bytes) -> JsonObject:
        where = f"{self.rows.path}, line {number}"
        row = _decoded(self.rows.path, number, line)
        named = self.configuration.place(str(row.get("_ng_rollout_id")))
        indices = row.get("_ng_task_index"), row.get("_ng_rollout_index")
        if named is None or named != indices:
            message = f"{where}: this is not a row of this run; {_ADVICE}"
            raise RunFileError("broken_row", message)
        if not self.configuration.has(named):
            message = f"{where}: the run has no such rollout; {_ADVICE}"
            raise RunFileError("broken_row", message)
        if named in self.done:
            message = f"{where}: the rollout has a row already; {_ADVICE}"
            raise RunFileError("repeated_row", message)
        return row


def _decoded(path: Path, number: int, line: bytes) -> JsonObject:
    try:
        row = decode_as(line, _members)
    except IpiStateError as error:
        message = f"{path}, line {number}: {error}; {_ADVICE}"
        raise RunFileError("broken_row", message) from error
    if row is None:
        message = f"{path}, line {number}: a row is an object; {_ADVICE}"
        raise RunFileError("broken_row", message)
    return row


def _members(tree: Any, adopt: Adopt) -> JsonObject | None:
    if not is_object(tree):
        return None
    return JsonObject({name: adopt(part) for name, part in tree.items()})


@contextmanager
def opened(
    files: RunFiles, configuration: Configuration, *, resume: bool
) -> Generator[Records]:
    """Open the files of a run, a new one or one that is to go on.

    Raises:
        RunFileError: ``output_exists``: there is a run, and it is not to go on.
            ``no_run``: there are rows of something else. ``other_configuration``: the
            run is another one. ``write_failed``: the output is no file. And whatever is
            wrong with the files.
    """
    if files.output.exists() and not files.output.is_file():
        message = (
            f"{files.output}: a device or a pipe is no file; choose another output"
        )
        raise RunFileError("write_failed", message)
    goes_on = _goes_on(files, configuration, resume=resume)
    with ExitStack() as stack:
        paths = (files.output, files.failures, files.attempts)
        rows, failures, attempts = (stack.enter_context(LineFile(p)) for p in paths)
        # Not before: it may be the configuration of a run that has only just begun.
        if not goes_on:
            write_whole(files.configuration, configuration.to_json())
        moved = [one.set_torn_aside() for one in (rows, failures, attempts)]
        records = Records(
            files=files,
            configuration=configuration,
            rows=rows,
            failures=failures,
            attempts=attempts,
            torn=tuple(path for path in moved if path is not None),
        )
        records.read()
        yield records


def _goes_on(files: RunFiles, configuration: Configuration, *, resume: bool) -> bool:
    # A run of which nothing has begun may begin anew.
    if not any(map(_has_content, (files.output, files.failures, files.attempts))):
        return False
    if not resume:
        message = (
            f"{files.output} is there already; go on with --resume, or choose another"
        )
        raise RunFileError("output_exists", message)
    if not files.configuration.exists():
        message = (
            f"{files.output} has no {files.configuration.name} beside it, so it cannot be "
            "known which run it belongs to; choose another output"
        )
        raise RunFileError("no_run", message)
    _compare(files.configuration, configuration)
    return True


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _compare(path: Path, configuration: Configuration) -> None:
    try:
        stored = structure(decode(path.read_bytes()), Configuration)
    except (IpiStateError, OSError) as error:
        message = f"{path} cannot be read: {error}; choose another output"
        raise RunFileError("no_run", message) from error
    if told := "; ".join(differences(stored, configuration)):
        message = f"{path}: this is another run: {told}; go on with what it began with"
        raise RunFileError("other_configuration", message)
