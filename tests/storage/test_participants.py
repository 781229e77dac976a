"""The participants of checkpoint directories: found, checked, compared, migrated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipistate import Environment, Session
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.sessions.codec import RecordedCodec, SessionCodec, WorldCodec
from ipistate.storage import (
    CheckpointDirectory,
    MigratingParticipant,
    NewCheckpoint,
    StopFlag,
    check_participant,
    compare_participants,
    participants,
)


WORLD = Environment.of({"messages": {"M-1": {"text": "hello"}}})
OTHER = Environment.of({"messages": {"M-1": {"text": "bye"}}})


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., CheckpointDirectory]:
    """Return a function that writes a checkpoint with a session for each world."""

    def write(
        name: str, worlds: dict[str, Environment], checkpoint_id: str = "step-1"
    ) -> CheckpointDirectory:
        records = [
            SessionRecord(EpisodeId(f"r-{key}"), key, Session(world).step("nope"))
            for key, world in worlds.items()
        ]
        lines = EncodedStates(SessionCodec()).lines(records)
        directory = CheckpointDirectory(tmp_path / name, "ipi")
        directory.write(checkpoint_id, lines, StopFlag())
        return directory

    return write


def test_participants_are_found_by_kind_and_name(
    written: Callable[..., CheckpointDirectory], tmp_path: Path
) -> None:
    """They are sorted; a kind or a name leaves only those that have it."""
    root = written("a", {"s": WORLD}).root
    CheckpointDirectory(root, "actor", "agents").write("step-1", [], StopFlag())
    found = participants(root)

    assert [("agents", "actor"), ("resources", "ipi")] == [
        (one.kind, one.instance) for one in found
    ]
    assert found[:1] == participants(root, kind="agents")
    assert found[1:] == participants(root, instance="ipi")
    assert [] == participants(root, "agents", "ipi") == participants(tmp_path / "none")


def test_a_participant_is_checked_as_a_restore_checks_it(
    written: Callable[..., CheckpointDirectory],
) -> None:
    """A whole one has its records and calls, a damaged one its fault."""
    directory = written("a", {"s": WORLD, "t": OTHER})
    good = check_participant(directory, SessionCodec())
    (records,) = (directory.root / "gym/resources/ipi").glob("records*")
    records.write_bytes(records.read_bytes()[:-2])
    bad = check_participant(directory, SessionCodec())

    assert (2, 2, None) == (len(good.records), good.calls, good.fault)
    assert (None, ()) == (bad.manifest, bad.records)
    assert "SHA-256" in str(bad.fault)


def test_of_other_kinds_only_the_manifest_is_read(tmp_path: Path) -> None:
    """Their records may be anything."""
    directory = CheckpointDirectory(tmp_path, "actor", "agents")
    directory.write("step-1", [b"anything\n"], StopFlag())
    found = check_participant(directory, SessionCodec())

    assert found.manifest is not None
    assert ("step-1", ()) == (found.manifest.checkpoint_id, found.records)
    assert "only its manifest was read" in str(found.note)


def test_sessions_are_compared_by_their_ids(
    written: Callable[..., CheckpointDirectory],
) -> None:
    """Each is the same, different, or in one checkpoint only; those of A come first."""
    before = written("a", {"same": WORLD, "changed": WORLD, "gone": WORLD})
    after = written("b", {"new": WORLD, "same": WORLD, "changed": OTHER}, "step-2")
    read = [one.read(RecordedCodec()) for one in (before, after)]
    found = compare_participants("resources", "ipi", *read)

    assert ("step-1", "step-2") == (found.before, found.after)
    assert [
        ("same", "same"),
        ("changed", "different"),
        ("gone", "only in A"),
        ("new", "only in B"),
    ] == [(one.session_id, one.status) for one in found.sessions]
    assert [False, True] == [bool(one.found) for one in found.sessions[:2]]
    assert ("r-gone", None) == (found.sessions[2].before, found.sessions[2].after)


def test_a_participant_of_one_checkpoint_only(
    written: Callable[..., CheckpointDirectory],
) -> None:
    """What the other one does not have has no checkpoint there."""
    read = written("a", {"s": WORLD}).read(RecordedCodec())
    found = compare_participants("resources", "ipi", None, read)

    assert (None, "step-1") == (found.before, found.after)
    assert ["only in B"] == [one.status for one in found.sessions]


def test_a_new_checkpoint_appears_when_it_is_published(
    written: Callable[..., CheckpointDirectory], tmp_path: Path
) -> None:
    """Before that nothing below it is a participant, and discarding leaves nothing."""
    part = MigratingParticipant.of(written("a", {"s": WORLD}), WorldCodec())
    new = NewCheckpoint(tmp_path / "out")
    new.begin()
    new.add(part, WorldCodec())
    before = participants(new.out)
    new.publish()

    assert ([1], [], 1) == (part.logs, before, len(participants(new.out)))
    assert ["gym"] == [one.name for one in new.out.iterdir()]
    with pytest.raises(FileExistsError):
        new.begin()
    new.discard()
    assert not new.out.exists()
