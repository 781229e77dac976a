"""Peak memory of a commit: below one records file, kept texts included."""

from __future__ import annotations

import tracemalloc

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ipistate.kernel.environment import Environment
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import KEPT_ALWAYS, EncodedStates, SessionRecord
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


SESSIONS = 200


class Counting(EnvironmentCodec):
    """A codec that counts what it encodes."""

    calls: list[int]

    def __init__(self) -> None:
        """Start at none."""
        super().__init__()
        object.__setattr__(self, "calls", [])

    def encode(self, state: Environment) -> bytes:
        """Count and encode."""
        self.calls.append(id(state))
        return super().encode(state)


def world(number: int, version: int = 0) -> Environment:
    """Return a world of 50 kB; two versions differ everywhere."""
    notes = [f"{number}-{version}-{line}-{'x' * 80}" for line in range(550)]
    return Environment.of({"notes": notes})


def records_of(worlds: Iterable[Environment]) -> tuple[SessionRecord, ...]:
    """Make a record for each world."""
    return tuple(
        SessionRecord(EpisodeId(f"r{number}"), f"session-{number}", one)
        for number, one in enumerate(worlds)
    )


@pytest.fixture
def commit(tmp_path: Path) -> Callable[..., float]:
    """Return a function that commits and gives the peak as a share of the file."""
    encoded = EncodedStates(EnvironmentCodec())

    def run(name: str, records: tuple[SessionRecord, ...]) -> float:
        directory = CheckpointDirectory(tmp_path / name, "ipi")
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            manifest = directory.write(name, encoded.lines(records), StopFlag())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (peak - before) / directory.records_size(manifest)

    return run


def test_commits_take_less_memory_than_their_file(commit: Callable[..., float]) -> None:
    """The first, one of changed worlds, one of unchanged ones: all below the file."""
    first = records_of(world(n) for n in range(SESSIONS))
    changed = records_of(world(n, version=1) for n in range(SESSIONS))
    shares = {
        "first": commit("c1", first),
        "everything changed": commit("c2", changed),
        "nothing changed": commit("c3", changed),
    }

    assert {} == {name: share for name, share in shares.items() if share >= 1}


def test_what_is_kept_and_what_is_written_together_stay_below_one_file(
    tmp_path: Path,
) -> None:
    """Texts kept from the last commit are let go before new ones are made."""
    encoded = EncodedStates(EnvironmentCodec())
    batches = [
        records_of(world(n, version) for n in range(SESSIONS)) for version in range(2)
    ]
    tracemalloc.start()
    try:
        for name, records in zip(("c1", "c2"), batches, strict=True):
            directory = CheckpointDirectory(tmp_path / name, "ipi")
            manifest = directory.write(name, encoded.lines(records), StopFlag())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < directory.records_size(manifest)


def test_most_unchanged_worlds_are_not_encoded_again() -> None:
    """Of a large file fifteen of sixteen are known at the next commit, and stay known."""
    codec = Counting()
    encoded, records = EncodedStates(codec), records_of(map(world, range(SESSIONS)))
    first = list(encoded.lines(records))
    counts: list[int] = []
    for _ in range(2):
        codec.calls.clear()
        again = list(encoded.lines(records))
        counts.append(len(codec.calls))

        assert first == again
    assert counts[0] == counts[1]
    assert 0 < counts[0] <= SESSIONS // 16 + 2


def test_a_small_checkpoint_is_encoded_once() -> None:
    """Up to a mebibyte every text is kept."""
    codec = Counting()
    fitting = KEPT_ALWAYS // 52_000
    encoded, records = EncodedStates(codec), records_of(map(world, range(fitting)))
    first, again = list(encoded.lines(records)), list(encoded.lines(records))

    assert (first, fitting) == (again, len(codec.calls))


def test_sessions_that_share_a_world_share_its_text() -> None:
    """Rollouts of one row that have changed nothing yet are encoded once."""
    codec = Counting()
    one = world(0)
    lines = list(EncodedStates(codec).lines(records_of([one] * SESSIONS)))

    assert (SESSIONS, 1) == (len(lines), len(codec.calls))
