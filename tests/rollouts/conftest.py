"""Task files, and runs in this process."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from acting import Told, Watch, rows_of

from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject
from ipistate.policies import ScriptedPolicy, Scripts
from ipistate.rollouts.configuration import Configuration
from ipistate.rollouts.lifecycle import RunOutcome, run
from ipistate.rollouts.records import RunFiles, opened
from ipistate.rollouts.runner import RunOrder
from ipistate.rollouts.tasks import open_tasks
from ipistate.scoring.trajectories import by_row


if TYPE_CHECKING:
    from tests.rollouts.test_run import Stopping


@pytest.fixture(scope="session")
def careful() -> ScriptedPolicy:
    """Return the careful policy for the built-in rows."""
    rows = builtin.rows()
    ways = by_row(builtin.trajectories(), len(rows))
    return ScriptedPolicy("careful", Scripts.of(rows, ways))


@pytest.fixture
def task_file(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the first built-in rows to a task file."""

    def written(count: int = 3) -> Path:
        path = tmp_path / "tasks.jsonl"
        rows = builtin.rows()[:count]
        path.write_bytes(b"".join(task.to_json() + b"\n" for task in rows))
        return path

    return written


@pytest.fixture(scope="session")
def sessions() -> Iterator[str]:
    """Return the URL of a server that tests share; their runs have names of their own."""
    command = [sys.executable, "-m", "ipistate", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr.readline().split()[-1]
        process.kill()


@pytest.fixture
def played(
    tmp_path: Path, task_file: Callable[..., Path], sessions: str
) -> Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]]:
    """Return a function that runs tasks in this process.

    Runs with checkpoints have a server of their own.
    """

    def play(
        *policies: ScriptedPolicy | Stopping | Told,
        count: int = 3,
        repeats: int = 1,
        max_steps: int = 50,
        resume: bool = False,
        stop: asyncio.Event | None = None,
        **order: Any,
    ) -> tuple[RunOutcome, list[dict[str, Any]], Watch]:
        tasks = open_tasks(task_file(count))
        configuration = Configuration(
            tasks_sha256=tasks.sha256,
            tasks=len(tasks),
            num_repeats=repeats,
            max_steps=max_steps,
            policy="told",
            policy_options=JsonObject(),
            seed=0,
            effects=False,
        )
        if "checkpoint_dir" not in order:
            order.setdefault("url", sessions)
        files, watch = RunFiles(tmp_path / "rows.jsonl"), Watch()
        made = RunOrder(tasks=tasks, policies=policies, **order)
        with opened(files, configuration, resume=resume) as records:
            stop = stop or asyncio.Event()
            outcome = asyncio.run(run(made, records, watch, stop))
        tasks.close()
        return outcome, rows_of(files.output), watch

    return play
