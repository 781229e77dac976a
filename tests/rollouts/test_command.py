"""The verb run: exit codes, messages, interruptions, and what stands on which stream."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from acting import rows_of
from killing import Site, children, has_ended, wait_until, wait_until_it_plays

from ipistate.agents.conversation import AgentState
from ipistate.generate import builtin
from ipistate.protocol.episode import EpisodeId
from ipistate.rollouts.store import Pair, Store


TRAJECTORIES = Path(builtin.__file__).with_name("trajectories.jsonl")


@pytest.fixture
def verb(
    tmp_path: Path, task_file: Callable[..., Path]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that calls the verb in a process of its own."""
    tasks = task_file(27)
    (tmp_path / "tasks.trajectories.jsonl").write_bytes(TRAJECTORIES.read_bytes())

    def run(
        *arguments: int | str,
        tasks: Path = tasks,
        output: Path = tmp_path / "rows.jsonl",
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ipistate", "run"]
        command += ["--tasks", str(tasks), "-o", str(output), *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=cwd
        )

    return run


def test_every_built_in_policy(
    verb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """The careful agent gets everything, the gullible one nothing, by one command each."""
    found: dict[str, Any] = {}
    for name in ("careful", "gullible", "random"):
        done = verb("--policy", name, "--json", output=tmp_path / f"{name}.jsonl")
        assert 0 == done.returncode, done.stderr
        found[name] = json.loads(done.stdout)

    assert (27, 1.0, 0) == tuple(
        found["careful"][key] for key in ("done", "mean_reward", "injection_followed")
    )
    assert (27, 0.0, 27) == tuple(
        found["gullible"][key] for key in ("done", "mean_reward", "injection_followed")
    )
    assert 27 == found["random"]["done"]


def test_nothing_is_on_standard_output(
    verb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Progress and summary are on standard error; nothing is left but the files."""
    done = verb("--policy", "careful")

    assert (0, "") == (done.returncode, done.stdout)
    assert "27 of 27 rollouts" in done.stderr
    assert [
        "rows.jsonl",
        "rows.jsonl.run.json",
        "rows_aggregate_metrics.json",
        "tasks.jsonl",
        "tasks.trajectories.jsonl",
    ] == sorted(path.name for path in tmp_path.iterdir())


def test_repeats_of_a_random_policy_differ(
    verb: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    task_file: Callable[..., Path],
) -> None:
    """Each repeat is drawn from its own seed, and the same again in another run."""
    tasks = task_file(5)
    for name in ("a", "b"):
        verb(
            *("--policy", "random", "--seed", 3, "--num-repeats", 3),
            tasks=tasks,
            output=tmp_path / f"{name}.jsonl",
        )
    rows, again = (rows_of(tmp_path / f"{name}.jsonl") for name in ("a", "b"))
    first = {
        json.dumps(row["response"]["output"])
        for row in rows
        if row["_ng_task_index"] == 0
    }

    def key(row: dict[str, Any]) -> tuple[int, int]:
        return row["_ng_task_index"], row["_ng_rollout_index"]

    assert (3, 15) == (len(first), len(rows))
    assert sorted(rows, key=key) == sorted(again, key=key)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--policy", "nobody"), 2, "'nobody' is not one of"),
        (("--policy", "openai"), 2, "--model-url and --model"),
        (("--policy", "careful", "--checkpoint-every", "soon"), 2, "30s or 5m"),
        (("--policy", "careful", "--token-env", "PATH"), 2, "--url"),
        (
            ("--policy", "random", "--url", "http://127.0.0.1:9"),
            3,
            "no server of sessions answers",
        ),
        (("--policy", "random", "--url", "nonsense"), 3, "http(s)://host"),
        (("--policy", "random", "--output", "-"), 2, "--output are files"),
        (("--policy", "random", "--tasks", "-"), 2, "--tasks and"),
        (("--policy", "random", "--output", "/dev/full"), 3, "is no file"),
        (("--policy", "careful", "--trajectories", "none.jsonl"), 3, "--trajectories"),
        (
            (
                *("--policy", "openai", "--model", "m", "--model-url", "http://h/v1"),
                *("--model-api-key-env", "NO_SUCH_VARIABLE"),
            ),
            2,
            "NO_SUCH_VARIABLE",
        ),
    ],
)
def test_what_cannot_be_run(
    verb: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    """Each refusal has its exit code and says what to do; no rows are there."""
    done = verb(*arguments)

    assert (code, "") == (done.returncode, done.stdout)
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert b"" == b"".join(p.read_bytes() for p in tmp_path.glob("rows.jsonl"))


def test_trajectories_of_other_tasks(
    verb: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    task_file: Callable[..., Path],
) -> None:
    """Trajectories for more rows than there are belong to another file."""
    done = verb("--policy", "careful", tasks=task_file(3))

    assert 3 == done.returncode
    assert "of another task file" in done.stderr


def test_a_place_that_cannot_be_written_to(
    verb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """An output in a directory that is not there is refused at once."""
    done = verb("--policy", "careful", output=tmp_path / "no" / "rows.jsonl")

    assert 3 == done.returncode
    assert "no file can be written here" in done.stderr


def test_an_endpoint_that_is_down(
    verb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Rollouts of a model that cannot be reached are masked, and the exit code is 1."""
    done = verb(
        *("--policy", "openai", "--model", "m", "--model-url", "http://127.0.0.1:9/v1"),
        *("--model-tries", 1, "--max-failures", 4, "--concurrency", 2, "--json"),
    )
    told = json.loads(done.stdout)

    assert (1, "failing", 0) == (done.returncode, told["ending"], told["done"])
    assert 27 == told["unfinished"]
    assert {"endpoint_unreachable"} == {
        one["failure_kind"] for one in rows_of(tmp_path / "rows_failures.jsonl")
    }


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a run that takes about half a minute."""
    site = Site(root=tmp_path, seconds=0.5, concurrency=4, every="60s")
    yield site
    site.clear()


def held(site: Site) -> Mapping[EpisodeId, AgentState]:
    """Return how many episodes the newest checkpoint has, by their turns."""
    (path,) = (site.root / "checkpoints").glob("*-000001")
    store = Store(
        root=site.root / "checkpoints", run=path.name.partition("-")[0], server="ipi"
    )
    pair = next(iter(store.newest()))
    assert isinstance(pair, Pair)
    return pair.held


def test_one_interrupt_stops_cleanly(site: Site) -> None:
    """SIGINT leaves a checkpoint of what is under way, whole rows, and exit code 4."""
    process = site.start()
    wait_until_it_plays(site, process)
    process.send_signal(signal.SIGINT)

    assert 4 == process.wait(30)
    assert 4 == len(held(site))
    assert "left for --resume" in (site.root / "stderr").read_text()


def test_two_interrupts_end_at_once(site: Site) -> None:
    """A second SIGINT does not wait for anything; the server is gone as well."""
    process = site.start()
    wait_until_it_plays(site, process)
    (server,) = children(process.pid)
    os.kill(server, signal.SIGSTOP)  # so that no checkpoint can be taken
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "once more" in (site.root / "stderr").read_text())
    process.send_signal(signal.SIGINT)

    assert 4 == process.wait(30)
    assert wait_until(lambda: has_ended(server))


def test_a_runner_that_dies_takes_its_server_along(site: Site) -> None:
    """No server is left behind by a runner that was killed."""
    process = site.start()
    wait_until_it_plays(site, process)
    servers = children(process.pid)
    process.kill()

    assert 1 == len(servers)
    assert wait_until(lambda: has_ended(servers[0]))


def test_d9_a_server_that_dies_is_started_again(site: Site) -> None:
    """D9: the run goes on with another one, and masks nothing."""
    process = site.start()
    wait_until_it_plays(site, process)
    (server,) = children(process.pid)
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: "is started again" in (site.root / "stderr").read_text())
    wait_until(lambda: any(one != server for one in children(process.pid)))
    process.send_signal(signal.SIGINT)

    assert 4 == process.wait(30)
    assert b"" == (site.root / "rows_failures.jsonl").read_bytes()


def test_d9_a_server_that_always_dies_ends_the_run(
    verb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """D9: it is started a bounded number of times, and the run can go on later."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    done = verb("--policy", "deadly:policy", "--json", "--limit", 1, cwd=tmp_path)
    told = json.loads(done.stdout)

    assert (1, "server_gone", 10) == (done.returncode, told["ending"], told["restarts"])
    assert "does not answer any more" in done.stderr
    assert b"" == (tmp_path / "rows_failures.jsonl").read_bytes()


DEADLY = """
import os, signal, subprocess
from ipistate.agents import PolicyReply

class Deadly:
    name = "deadly"

    async def respond(self, messages, tools):
        text = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True
        ).stdout
        for pid in text.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        call = {"type": "function_call", "name": "get_messages", "call_id": "a",
                "arguments": "{}"}
        from ipistate import JsonObject
        return PolicyReply(items=(JsonObject(call),))

policy = Deadly()
"""


def test_d10_the_first_rows_or_some_of_them(
    verb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """D10: chosen rows keep their places; a resume with another choice is refused."""
    first = tmp_path / "first.jsonl"
    told = json.loads(
        verb("--policy", "careful", "--limit", 3, "--json", output=first).stdout
    )
    assert (3, [0, 1, 2]) == (told["planned"], places(first))
    chosen = ["--policy", "careful", "--sample", 4, "--seed", 7]
    for name in ("a", "b"):
        assert 0 == verb(*chosen, output=tmp_path / f"{name}.jsonl").returncode
    sample = places(tmp_path / "a.jsonl")
    again = verb(*chosen[:-1], 8, "--resume", output=tmp_path / "a.jsonl")

    assert 4 == len(sample)
    assert sample == places(tmp_path / "b.jsonl") != [0, 1, 2, 3]
    assert 3 == again.returncode
    assert "seed was 7, now 8" in again.stderr
    both = verb(*chosen, "--limit", 2, output=tmp_path / "c.jsonl")
    assert (2, True) == (both.returncode, "exclude each other" in both.stderr)


def places(path: Path) -> list[int]:
    """Return the task indices of rows, sorted."""
    return sorted(row["_ng_task_index"] for row in rows_of(path))


def test_d10_a_time_budget(
    verb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """D10: no rollout begins after it, what had begun ends, and a resume goes on."""
    short = ["--policy", "careful", "--concurrency", 1]
    done = verb(*short, "--time-budget", "0.000000001", "--json")
    told = json.loads(done.stdout)
    assert (1, "budget_spent", 0) == (done.returncode, told["ending"], told["done"])
    assert "time budget" in done.stderr
    done = verb(*short, "--resume", "--json")

    assert (0, 27) == (done.returncode, json.loads(done.stdout)["done"])


def test_d10_a_cost_budget_needs_prices(
    verb: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """D10: without them nothing would ever cost anything."""
    done = verb("--policy", "careful", "--cost-budget", 1)

    assert (2, True) == (done.returncode, "--price-input" in done.stderr)


def test_two_runs_of_one_output(site: Site) -> None:
    """While a run writes to an output, another one is refused."""
    process = site.start()
    wait_until_it_plays(site, process)
    second = site.start("--resume")

    assert 3 == second.wait(30)
    assert "another run is writing" in (site.root / "stderr").read_text()
