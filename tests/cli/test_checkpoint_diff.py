"""``ipistate checkpoint diff``."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate import Environment, Session
from ipistate.generate import builtin
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.sessions.codec import SessionCodec
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


if TYPE_CHECKING:
    from click.testing import Result


WORLD = builtin.rows()[0].environment
CHANGED = Environment.of({**WORLD.document, "patients": {}, "new": {"a": 1, "b": 2}})


def write(
    root: Path,
    sessions: list[tuple[str, str, Environment | Session]],
    instance: str = "ipi",
    codec: SessionCodec | None = None,
) -> Path:
    """Write a checkpoint of sessions: episode, id and state."""
    records = [
        SessionRecord(EpisodeId.from_capture_key(e), i, s) for e, i, s in sessions
    ]
    lines = EncodedStates(codec or EnvironmentCodec()).lines(records)
    CheckpointDirectory(root, instance).write(root.name, lines, StopFlag())
    return root


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Write two checkpoints: a session changed, one is the same, one left, one came."""
    before = write(
        tmp_path / "step-1",
        [("r-0", "s-0", WORLD), ("r-1", "s-1", WORLD), ("r-2", "s-2", WORLD)],
    )
    after = write(
        tmp_path / "step-2",
        [("r-0-a1", "s-0", CHANGED), ("r-1", "s-1", WORLD), ("r-3", "s-3", WORLD)],
    )
    return before, after


def test_sessions_are_compared(
    run: Callable[..., Result], two: tuple[Path, Path]
) -> None:
    """Changed worlds are shown in lines, sessions of one checkpoint are named."""
    result = run("checkpoint", "diff", *two)
    shown = result.stdout.splitlines()

    assert (1, "") == (result.exit_code, result.stderr)
    assert "resources/ipi: checkpoint step-1 -> step-2" == shown[0]
    assert shown[1].startswith("  ~ s-0 (r-0 -> r-0-a1): ")
    assert shown[1].endswith("; new 2 added")
    assert '      + $.new: {"a":1,"b":2}' in shown
    assert ["  - s-2 (r-2): only in A", "  + s-3 (r-3): only in B"] == shown[-3:-1]
    assert "4 sessions: 1 different, 1 same, 1 only in A, 1 only in B" == shown[-1]
    assert not any("s-1" in line for line in shown)


def test_report_in_json(
    document: Callable[..., Any],
    two: tuple[Path, Path],
) -> None:
    """With --json every session has its status, its episodes and its diff."""
    shown = document("checkpoint", "diff", *two, "--json", code=1)
    (part,) = shown["participants"]
    changed, same, gone, new = part["sessions"]

    assert {"different": 1, "same": 1, "only in A": 1, "only in B": 1} == shown[
        "counts"
    ]
    assert {"before": "step-1", "after": "step-2"} == part["checkpoints"]
    assert {"before": "r-0", "after": "r-0-a1"} == changed["episodes"]
    assert {"added": 2, "removed": 0, "changed": 0} == changed["diff"]["counts"]["new"]
    assert ("same", True) == (same["status"], same["diff"]["same"])
    assert ("only in A", None) == (gone["status"], gone["diff"])
    assert {"before": None, "after": "r-3"} == new["episodes"]


def test_equal_checkpoints(run: Callable[..., Result], two: tuple[Path, Path]) -> None:
    """A checkpoint differs from itself in nothing; episodes alone are no difference."""
    result = run("checkpoint", "diff", two[0], two[0])

    assert (0, "3 sessions: 3 same") == (
        result.exit_code,
        result.stdout.splitlines()[-1],
    )


def test_both_versions_of_the_state(run: Callable[..., Result], tmp_path: Path) -> None:
    """A session that was written with its log is compared by its world now."""
    session = Session(WORLD).step(
        "send_message", {"to": "a", "subject": "b", "body": "c"}
    )
    before = write(tmp_path / "one", [("r", "s", WORLD)])
    after = write(tmp_path / "two", [("r", "s", session)], codec=SessionCodec())
    result = run("checkpoint", "diff", before, after)

    assert result.exit_code == 1
    assert "1 operation; messages 1 added" in result.stdout


def test_participants_of_one_checkpoint(
    run: Callable[..., Result], two: tuple[Path, Path]
) -> None:
    """The sessions of a participant that is in one checkpoint only are only there."""
    write(two[1], [("r-9", "s-9", WORLD)], instance="other")
    result = run("checkpoint", "diff", *two)

    assert "resources/other: checkpoint none -> step-2" in result.stdout
    assert "  + s-9 (r-9): only in B" in result.stdout


def test_other_kinds_are_left_out(
    run: Callable[..., Result], two: tuple[Path, Path]
) -> None:
    """Participants of other kinds have no worlds, and that is said."""
    source = two[0] / "gym/resources/ipi/manifest.json"
    manifest = json.loads(source.read_text()) | {"kind": "agent", "instance": "a"}
    (two[0] / "gym/agent/a").mkdir(parents=True)
    (two[0] / "gym/agent/a/manifest.json").write_text(json.dumps(manifest))
    result = run("checkpoint", "diff", *two)

    assert result.exit_code == 1
    assert "agent/a: not compared, only kind resources has worlds\n" == result.stderr


def test_damage_is_refused(
    run: Callable[..., Result], two: tuple[Path, Path], tmp_path: Path
) -> None:
    """A damaged checkpoint, or none, is refused with exit code 3 and named."""
    (file,) = (two[1] / "gym/resources/ipi").glob("records*")
    file.write_bytes(file.read_bytes()[:-20])
    damaged = run("checkpoint", "diff", *two)
    missing = run("checkpoint", "diff", two[0], tmp_path / "none")

    assert (3, 3) == (damaged.exit_code, missing.exit_code)
    assert str(two[1]) in damaged.stderr
    assert "no checkpoint here" in missing.stderr
