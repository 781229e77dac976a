"""Runs that are killed at random moments, and what is left of them.

``python tests/kit/killing.py --rounds 50`` does so for longer than the tests do.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs

from ipistate.agents.items import input_messages
from ipistate.generate import builtin
from ipistate.kernel import decode, structure
from ipistate.kernel.codec import encode
from ipistate.rollouts.configuration import Configuration
from ipistate.rollouts.store import Pair, Store


PLAYER = Path(__file__).with_name("player.py")
VICTIMS = ("server", "runner", "both")
MOST_SECONDS = 120.0


@attrs.frozen(kw_only=True)
class Killed:
    """One kill, and how the process that came next began."""

    victim: str
    moment: float
    rows: int
    restored: int
    """Rollouts that a checkpoint had, and that had no row."""
    repeated: int
    """Turns before their boundary that were asked for again."""


@attrs.define(kw_only=True)
class Site:
    """A directory with tasks, and the run in it."""

    root: Path
    repeats: int = 5
    seconds: float = 0.04
    concurrency: int = 8
    every: str = "0.15s"
    policy: tuple[str, ...] = ("--policy", "random", "--seed", "11")
    processes: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        """Write the task rows."""
        rows = b"".join(task.to_json() + b"\n" for task in builtin.rows())
        (self.root / "tasks.jsonl").write_bytes(rows)

    @property
    def output(self) -> Path:
        """The rows' file."""
        return self.root / "rows.jsonl"

    def start(self, *more: str | Path) -> subprocess.Popen[bytes]:
        """Start the runner in a process group of its own."""
        command: list[str | Path] = [
            sys.executable,
            PLAYER,
            self.root / "calls",
            str(self.seconds),
        ]
        command += ["run", "--tasks", self.root / "tasks.jsonl", "-o", self.output]
        command += [*self.policy, "--num-repeats", str(self.repeats)]
        command += ["--concurrency", str(self.concurrency)]
        command += ["--checkpoint-dir", self.root / "checkpoints"]
        command += ["--checkpoint-every", self.every, *more]
        with (self.root / "stderr").open("ab") as log:
            process = subprocess.Popen(
                command, stderr=log, stdout=log, start_new_session=True
            )
        self.processes.append(process)
        return process

    def clear(self) -> None:
        """Kill whatever still runs."""
        for process in self.processes:
            process.kill()
            process.wait()

    def finish(self, *more: str | Path) -> None:
        """Run to the end."""
        code = self.start(*more).wait(MOST_SECONDS)
        assert code == 0, (self.root / "stderr").read_text()

    def rows(self) -> dict[tuple[int, int], str]:
        """Return the rows by their place, without what an interruption may change."""
        found: dict[tuple[int, int], str] = {}
        for line in self.output.read_bytes().splitlines():
            row = json.loads(line)
            place = row["_ng_task_index"], row["_ng_rollout_index"]
            assert place not in found
            del row["attempt"]
            found[place] = json.dumps(row)
        return found

    def attempts(self) -> Counter[int]:
        """Count the rows by the attempt that they come from."""
        lines = self.output.read_bytes().splitlines()
        return Counter(json.loads(line)["attempt"] for line in lines)

    def turns_held(self) -> dict[str, int]:
        """Return how many turns the newest checkpoint has of each rollout without row."""
        configuration = self.root / "rows.jsonl.run.json"
        if not configuration.exists():
            return {}
        run = structure(decode(configuration.read_bytes()), Configuration).name
        store = Store(root=self.root / "checkpoints", run=run, server="ipi")
        pair = next((one for one in store.newest() if isinstance(one, Pair)), None)
        lines = self.output.read_bytes() if self.output.exists() else b""
        whole = lines[: lines.rfind(b"\n") + 1].splitlines()
        done = {json.loads(line)["_ng_rollout_id"] for line in whole}
        held = {} if pair is None else pair.held
        return {
            episode.rollout_id: state.conversation.turns
            for episode, state in held.items()
            if episode.rollout_id not in done
        }

    def calls(self) -> list[list[str]]:
        """Return every turn that was asked for: process, repeat's seed, row, number."""
        path = self.root / "calls"
        text = path.read_text() if path.exists() else ""
        return [line.split() for line in text.splitlines()]


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def kill(process: subprocess.Popen[bytes], victim: str) -> list[int]:
    """Kill with SIGKILL: the server, the runner, or both at once."""
    servers = children(process.pid)
    targets = {"server": servers or [process.pid], "runner": [process.pid]}
    for pid in targets.get(victim, [*servers, process.pid]):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return servers


def has_ended(pid: int) -> bool:
    """Tell whether a process is gone, or only waits for its parent to notice."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        )
    except OSError:
        return True


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a process to end; True if it has."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def wait_until(holds: Callable[..., bool]) -> bool:
    """Wait until something holds; False if it does not come to it."""
    end = time.monotonic() + 30
    while not holds():
        if time.monotonic() > end:
            return False
        select.select([], [], [], 0.01)
    return True


def wait_until_it_plays(
    site: Site, process: subprocess.Popen[bytes], asked: int = 0
) -> None:
    """Wait until a process has ended, or has asked for a turn beyond so many."""
    name = str(process.pid)
    wait_until(
        lambda: (
            process.poll() is not None
            or any(call[0] == name for call in site.calls()[asked:])
        )
    )


def prompts() -> dict[str, int]:
    """Return the row of each prompt, as the player writes it down."""
    found: dict[str, int] = {}
    for row, task in enumerate(builtin.rows()):
        messages = input_messages(task.responses_create_params)
        found[sha256(b"".join(map(encode, messages))).hexdigest()[:12]] = row
    return found


def repeated(
    calls: list[list[str]], pid: int, held: dict[str, int], seed: int = 11
) -> int:
    """Count turns that a process asked for although its checkpoint had their replies."""
    rows = prompts()
    count = 0
    for process, policy_seed, first, turn, _ in calls:
        if int(process) == pid:
            place = f"-{rows[first]}-{int(policy_seed) - seed}"
            turns = [t for name, t in held.items() if name.endswith(place)]
            count += bool(turns) and int(turn) < turns[0]
    return count


@attrs.frozen
class Life:
    """What a process does with one server of its own, until one of them dies."""

    process: subprocess.Popen[bytes]
    asked: int
    """How many turns had been asked for before it."""
    held: dict[str, int]
    """The turns of each rollout that its checkpoint has."""

    def killed(self, site: Site, victim: str, moment: float) -> Killed:
        """Tell how it has been, when something of it has been killed."""
        calls = site.calls()[self.asked :]
        return Killed(
            victim=victim,
            moment=moment,
            rows=site.output.read_bytes().count(b"\n") if site.output.exists() else 0,
            restored=len(self.held),
            repeated=repeated(calls, self.process.pid, self.held),
        )

    def after(self, site: Site, victim: str) -> Life:
        """Return what comes next: another process, or the same with another server."""
        asked, held, process = len(site.calls()), site.turns_held(), self.process
        if victim == "server":
            wait_until_it_plays(site, process, asked)
            # One that lost its server before it played may give up, and says so.
            assert process.returncode in {None, 0, 1, 3}, process.returncode
        else:
            assert wait_for(process, 30)
            assert process.returncode in {-signal.SIGKILL, 0}  # it may just have ended
        if process.returncode is not None:
            process = site.start("--resume")
        return Life(process, asked, held)


def run_round(site: Site, rng: random.Random, kills: int) -> list[Killed]:
    """Start a run, kill of it so often, and let it end; return each kill."""
    told: list[Killed] = []
    life = Life(site.start(), 0, {})
    for _ in range(kills):
        moment, victim = rng.uniform(0.0, 1.5), rng.choice(VICTIMS)
        if rng.random() < 0.8:  # the others may die before they have begun
            wait_until_it_plays(site, life.process, life.asked)
        if wait_for(life.process, moment):
            break
        servers = kill(life.process, victim)
        assert all(wait_until(partial(has_ended, pid)) for pid in servers)
        told.append(life.killed(site, victim, moment))
        life = life.after(site, victim if servers else "runner")
    if life.process.wait(MOST_SECONDS) != 0:
        life = life.after(site, "server")
    assert life.process.wait(MOST_SECONDS) == 0, (site.root / "stderr").read_text()
    told.append(life.killed(site, "nobody", 0.0))
    return told


def rounds(
    root: Path, count: int, seed: int, kills: int = 3
) -> Iterator[tuple[list[Killed], list[Any], Site, int]]:
    """Compare so many killed runs with one that was left alone."""
    (root / "whole").mkdir()
    whole = Site(root=root / "whole", seconds=0.0)
    whole.finish()
    expected, rng = whole.rows(), random.Random(seed)
    for number in range(count):
        (root / f"round-{number}").mkdir()
        site = Site(root=root / f"round-{number}")
        told = run_round(site, rng, kills)
        found = site.rows()
        different = [p for p in expected if expected[p] != found.get(p)]
        yield told, different, site, len(expected)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Print what each round has found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        found = rounds(Path(name), options.rounds, options.seed, options.kills)
        for number, (told, different, site, count) in enumerate(found):
            victims = " ".join(f"{one.victim}@{one.moment:.2f}" for one in told)
            restored = sum(one.restored for one in told)
            again = sum(one.repeated for one in told)
            totals.update(
                kills=sum(one.victim != "nobody" for one in told),
                rows=count,
                different=len(different),
                restored=restored,
                repeated=again,
            )
            totals.update(one.victim for one in told if one.victim != "nobody")
            _say(
                f"round {number}: {victims}; rows {count}, different {len(different)}, "
                f"restored {restored}, turns repeated {again}, "
                f"attempts {dict(sorted(site.attempts().items()))}"
            )
    _say(str(dict(totals)))
    sys.exit(bool(totals["different"] or totals["repeated"]))


if __name__ == "__main__":
    main()
