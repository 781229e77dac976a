"""The main job with real processes: SIGKILL in the middle, and nothing differs."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipistate import Task
from ipistate.agents.conversation import AgentState
from ipistate.coordination import CoordinationError
from ipistate.demo import workplace
from ipistate.demo.plan import DemoRollout
from ipistate.demo.play import Recording, play
from ipistate.demo.retirement import refusal_code
from ipistate.demo.scripts import generated_scripts
from ipistate.demo.story import run
from ipistate.deploy import server_process as process
from ipistate.deploy.server_process import ServerFailedError, ServerProcess, serve
from ipistate.rollouts.checkpoints import freeze
from ipistate.rollouts.connection import Channel, Server


pytestmark = pytest.mark.once


JSON = {"Content-Type": "application/json"}
DEMO: list[str | Path] = [sys.executable, "-m", "ipistate", "demo"]


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[bytes], Path]:
    """Play eight rollouts through a crash; return the result and the directory."""
    kept = tmp_path_factory.mktemp("demo") / "kept"
    result = subprocess.run(
        [
            *[*DEMO, "--rollouts", "8", "--json", "-", "--keep", kept],
            *["--results", str(kept.parent / "results.jsonl")],
        ],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return result, kept


def test_nothing_is_lost_or_different(
    played: tuple[subprocess.CompletedProcess[bytes], Path],
) -> None:
    """Every episode goes on in a fresh process, and each reply is the same."""
    result, _ = played
    report = json.loads(result.stdout)

    assert 0 == result.returncode, result.stderr
    assert report["ok"]
    assert (8, 8, []) == (
        report["total"]["rollouts"],
        report["total"]["identical"],
        report["lost"],
    )


def test_the_server_was_really_killed(
    played: tuple[subprocess.CompletedProcess[bytes], Path],
) -> None:
    """The first server died of SIGKILL, with sessions that another one restored."""
    evidence = json.loads(played[0].stdout)["evidence"]

    assert -signal.SIGKILL == evidence["kill_status"]
    assert evidence["killed_pid"] != evidence["fresh_pid"]
    assert 6 == len(evidence["restored"]) == evidence["manifest"]["record_count"]


def test_kept_files_serve_the_other_verbs(
    played: tuple[subprocess.CompletedProcess[bytes], Path], tmp_path: Path
) -> None:
    """Checkpoint and result rows that were kept pass the offline checks."""
    _, kept = played
    for verb, name in [
        (["checkpoint", "verify"], "checkpoint"),
        (["verify"], "rollouts.jsonl"),
        (["replay"], "rollouts.jsonl"),
    ]:
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "ipistate",
            *verb,
            kept / name,
        ]

        assert 0 == subprocess.run(command, check=False, capture_output=True).returncode
    assert not list(kept.glob("*.token"))


def test_results_replay_and_score_the_same(
    played: tuple[subprocess.CompletedProcess[bytes], Path],
) -> None:
    """The rollouts that the demo writes diverge nowhere, and keep their verdicts."""
    results = played[1].parent / "results.jsonl"
    for verb in ("replay", "verify"):
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "ipistate",
            verb,
            results,
            "--json",
        ]
        done = subprocess.run(command, check=False, capture_output=True)

        assert 0 == done.returncode
        assert {"same": 8} == json.loads(done.stdout)["counts"]
    assert (played[1] / "rollouts.jsonl").read_bytes() == results.read_bytes()


def test_results_carry_task_verdict_and_indices(
    played: tuple[subprocess.CompletedProcess[bytes], Path],
) -> None:
    """A result row is the task row with the response, the verdict and two indices."""
    rows = (played[1].parent / "results.jsonl").read_bytes().splitlines()
    scripts = generated_scripts()
    for row in map(json.loads, rows):
        task = scripts[row["_ng_task_index"]].task
        own = Task.from_document(
            {n: m for n, m in row.items() if n in task.to_document()}
        )

        assert task == own
        assert {"response", "reward", "matched_args", "_ng_rollout_index"} <= set(row)
    assert 8 == len(rows)


def test_rows_of_a_file(data: Path, tmp_path: Path) -> None:
    """Five rows of a file are served, checkpointed, killed and restored, identical."""
    tasks = data / "task_rows.jsonl"
    file = tmp_path / "demo.json"
    result = subprocess.run(
        [*DEMO, "--tasks", tasks, "--rollouts", "10", "--json", file],
        capture_output=True,
        check=False,
        timeout=60,
    )
    total = json.loads(file.read_bytes())["total"]

    assert 0 == result.returncode, result.stderr
    assert (10, 10, 5) == (
        total["rollouts"],
        total["identical"],
        total["injection_followed"],
    )
    assert b"10 of 10 rollouts identical, 0 lost" in result.stdout


def test_b92_progress_bar_and_json_do_not_mix() -> None:
    """On a terminal the bar is on standard error; standard output is one document."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*DEMO, "--rollouts", "2", "--json", "-"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as running:
        os.close(theirs)
        shown = b"".join(iter(lambda: _terminal(ours), b""))
        written, _ = running.communicate(timeout=60)
    os.close(ours)

    assert json.loads(written)["ok"]
    assert b"\x1b[" in shown


def _terminal(descriptor: int) -> bytes:
    # The other end of a terminal that is gone is an error on Linux.
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


@pytest.mark.parametrize(
    "signals",
    [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]],
    ids=["SIGINT", "SIGTERM", "SIGINT twice"],
)
def test_interruption_leaves_no_server_behind(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    """An interruption ends with exit code 4, and the servers are gone."""
    kept = tmp_path / "kept"
    with subprocess.Popen(
        [*DEMO, "--rollouts", "2000", "--keep", kept],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stderr is not None
        first = running.stderr.readline()
        for number in signals:
            running.send_signal(number)
        _, said = running.communicate(timeout=30)

    assert (4, b"demo: play\n") == (running.returncode, first)
    assert said.endswith(b"ipistate: interrupted\n")
    assert b"Traceback" not in said
    assert not _serving(kept)


def _serving(kept: Path) -> list[Any]:
    running = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, check=True, text=True
    )
    return [line for line in running.stdout.splitlines() if str(kept) in line]


def test_directory_in_use(tmp_path: Path) -> None:
    """A directory that is not empty is not written into."""
    (tmp_path / "file").touch()
    result = subprocess.run(
        [*DEMO, "--keep", tmp_path], capture_output=True, check=False
    )

    assert (3, b"") == (result.returncode, result.stdout)
    assert b"the directory is not empty" in result.stderr


async def _fail_to_start(log: Path) -> None:
    await ServerProcess.start(serve("--workers", "2"), log)


def test_server_that_does_not_start(
    run_async: Callable[..., Any], tmp_path: Path
) -> None:
    """A server that ends at once is an error with its last words, and logged."""
    log = tmp_path / "log"
    with pytest.raises(ServerFailedError) as raised:
        run_async(_fail_to_start(log))

    assert "2 workers" in str(raised.value)
    assert b"2 workers" in log.read_bytes()


async def _orphaned(rollout: DemoRollout, log: Path) -> tuple[Recording, Recording]:
    async with (
        await ServerProcess.start(serve(), log) as server,
        Channel(Server(server.url)) as channel,
    ):
        begun = await play(channel, rollout, end=rollout.cut)
        await server.kill()
        return begun, await play(channel, rollout.next_attempt, begun)


def test_episode_without_a_server(
    run_async: Callable[..., Any], rollouts: tuple[DemoRollout, ...], tmp_path: Path
) -> None:
    """An episode whose server is gone keeps what it has and says why it ended."""
    rollout = next(one for one in rollouts if one.cut == 2)
    begun, ended = run_async(_orphaned(rollout, tmp_path / "log"))

    assert (2, 2, None) == (len(begun.replies), begun.calls, begun.fault)
    assert begun.replies == ended.replies
    assert (None, None) == (ended.verdict, ended.row)
    assert "server_unreachable" in ended.fault


async def _strangers(rollout: DemoRollout, log: Path) -> Recording:
    async with (
        await ServerProcess.start(serve(), log) as server,
        Channel(Server(server.url)) as channel,
    ):
        held = Recording(state=AgentState())
        return await play(channel, rollout.next_attempt, held)


def test_episode_that_the_server_does_not_know(
    run_async: Callable[..., Any], rollouts: tuple[DemoRollout, ...], tmp_path: Path
) -> None:
    """A cookie of no session is refused, and the refusal is the episode's fault."""
    ended = run_async(_strangers(rollouts[0], tmp_path / "log"))

    assert "is answered 400" in ended.fault


async def _refusals(log: Path) -> list[str | None]:
    async with (
        await ServerProcess.start(serve(), log) as server,
        Channel(Server(server.url)) as channel,
    ):
        answers = [
            await channel.send("POST", f"/{name}", b"{}", JSON)
            for name in ("list_tools", "verify")
        ]
        return [refusal_code(one.status, one.content) for one in answers]


def test_refusals_have_a_code_or_a_status(
    run_async: Callable[..., Any], tmp_path: Path
) -> None:
    """What is refused outside the protocol is told by its status."""
    assert ["HTTP 400", "HTTP 422"] == run_async(_refusals(tmp_path / "log"))


class Blocked:
    """A coordinator whose participants are never ready."""

    ready = False

    async def prepare(self, *_: float | str) -> Blocked:
        """Return a report that is not ready."""
        return self


def test_checkpoint_that_is_blocked(run_async: Callable[..., Any]) -> None:
    """A server that cannot be frozen in time ends the demo with its reason."""
    blocked: Any = Blocked()
    with pytest.raises(CoordinationError, match="step-1: the server is not prepared"):
        run_async(freeze(blocked, "step-1"))


async def _stubborn(log: Path) -> int:
    server = await ServerProcess.start(serve(), log)
    return await server.stop()


def test_server_that_does_not_stop_is_killed(
    run_async: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes too long to stop is killed."""
    monkeypatch.setattr(process, "STOP_SECONDS", 0)

    assert -signal.SIGKILL == run_async(_stubborn(tmp_path / "log"))


class Silent:
    """Hears of everything and says nothing."""

    def stage(self, name: str) -> None:
        """Do nothing."""

    def advance(self) -> None:
        """Do nothing."""


def test_demo_whose_servers_do_not_start(
    run_async: Callable[..., Any],
    rollouts: tuple[DemoRollout, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first error of either run is raised as it is, after both have cleaned up."""
    monkeypatch.setattr(workplace, "INSTANCE", "not/safe")
    with pytest.raises(ServerFailedError, match="instance_name"):
        run_async(run(rollouts, workplace.Workplace(tmp_path), Silent()))

    assert not list(tmp_path.glob("*.token"))
