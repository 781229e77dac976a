"""A pair of checkpoints is complete, or it is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipistate.agents.conversation import AgentState, Conversation
from ipistate.errors import CheckpointError
from ipistate.kernel.environment import Environment
from ipistate.kernel.values import JsonObject
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.rollouts.store import Pair, Store
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


EPISODE = EpisodeId("abc-0-0", 1)
HELD = AgentState(conversation=Conversation(turns=2), cookies=JsonObject({"c": "1"}))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store of a run."""
    return Store(root=tmp_path / "ck", run="abc", server="ipi")


def write_server(store: Store, number: int, name: str | None = None) -> None:
    """Write the server's part of a pair."""
    record = SessionRecord(EPISODE, "s-1", Environment.of({}))
    lines = EncodedStates(EnvironmentCodec()).lines([record])
    name = name or store.checkpoint_id(number)
    CheckpointDirectory(store.path(number), "ipi").write(name, lines, StopFlag())


def write_pair(store: Store, number: int) -> None:
    """Write both parts."""
    store.begin(number)
    write_server(store, number)
    store.write(number, {EPISODE: HELD})


def usable(store: Store) -> list[int]:
    """Return the numbers of the pairs that can be restored, newest first."""
    return [one.number for one in store.newest() if isinstance(one, Pair)]


def test_a_pair_is_read_as_it_was_written(store: Store) -> None:
    """Conversations come back under their episodes."""
    write_pair(store, 1)
    (pair,) = store.newest()

    assert isinstance(pair, Pair)
    assert {EPISODE: HELD} == pair.held
    assert ("abc-000001", store.path(1)) == (pair.checkpoint_id, pair.path)


def test_half_a_pair_is_none(store: Store) -> None:
    """Without the server's part, or without ours, the one before is the newest."""
    write_pair(store, 1)
    store.begin(2)
    write_server(store, 2)
    store.begin(3)
    store.write(3, {EPISODE: HELD})
    store.begin(4)
    told = list(store.newest())

    assert [CheckpointError] * 3 + [Pair] == [type(one) for one in told]
    assert [1] == usable(store)
    assert 4 == store.last_number()


@pytest.mark.parametrize("kind", ["agent", "resources"])
def test_damage_is_noticed(store: Store, kind: str) -> None:
    """A records file that was changed makes the pair unusable."""
    write_pair(store, 1)
    (records,) = store.path(1).glob(f"gym/{kind}/*/records-*.jsonl")
    records.write_bytes(records.read_bytes().replace(b"abc", b"abd"))

    assert [] == usable(store)


def test_parts_of_two_checkpoints_are_no_pair(store: Store) -> None:
    """Both parts have to belong to the same checkpoint."""
    store.begin(1)
    write_server(store, 1, "another-1")
    store.write(1, {EPISODE: HELD})

    assert [] == usable(store)


def test_two_complete_pairs_are_kept(store: Store) -> None:
    """Older pairs are removed, and so is what was never completed before them."""
    for number in (1, 2, 4, 6):
        write_pair(store, number)
    for number in (3, 5, 7):
        store.begin(number)
    store.prune()

    assert [6, 4] == usable(store)
    assert ["abc-000004", "abc-000005", "abc-000006", "abc-000007"] == sorted(
        path.name for path in store.root.iterdir()
    )


def test_nothing_of_others_is_touched(store: Store) -> None:
    """Directories of other runs are neither read nor removed."""
    other = Store(root=store.root, run="def", server="ipi")
    write_pair(other, 1)
    (store.root / "abc-notes").mkdir()
    for number in (1, 2, 3):
        write_pair(store, number)
    store.prune()

    assert [1] == usable(other)
    assert (store.root / "abc-notes").is_dir()


def test_a_number_is_used_once(store: Store) -> None:
    """A checkpoint that has begun keeps its number, and one file in the way is told."""
    store.begin(1)
    with pytest.raises(CheckpointError):
        store.begin(1)

    assert 1 == store.last_number()
    assert 0 == Store(root=store.root / "none", run="abc", server="ipi").last_number()
