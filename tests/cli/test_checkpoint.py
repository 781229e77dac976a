"""``ipistate checkpoint``."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from documents import at

from ipistate.generate import builtin


if TYPE_CHECKING:
    from click.testing import Result


def test_inspect_shows_sessions_and_worlds(
    run: Callable[..., Result], checkpoint: Path
) -> None:
    """The manifest, each session and the size of its collections are shown."""
    shown = run("checkpoint", "inspect", checkpoint).stdout

    assert "resources/ipi: checkpoint step-1" in shown
    assert "session-1" in shown
    assert (
        f"patients {len(at(at(builtin.rows(), 0).environment.document, 'patients'))}"
        in shown
    )


def test_inspect_in_json(document: Callable[..., Any], checkpoint: Path) -> None:
    """With --json the manifest and the sessions are members of one document."""
    (part,) = document("checkpoint", "inspect", checkpoint, "--json")["participants"]

    assert part["manifest"]["record_count"] == 2
    assert ["r-0", "r-1"] == [session["episode"] for session in part["sessions"]]
    assert len(builtin.rows()[0].environment.to_json()) == part["sessions"][0]["bytes"]


def test_verify_of_a_whole_checkpoint(
    run: Callable[..., Result],
    document: Callable[..., Any],
    checkpoint: Path,
) -> None:
    """A checkpoint that a restore would accept is ok."""
    result = run("checkpoint", "verify", checkpoint)
    (part,) = document("checkpoint", "verify", checkpoint, "--json")["participants"]

    assert (0, "resources/ipi: ok, 2 sessions\n") == (result.exit_code, result.stdout)
    assert part["ok"]


def _records(checkpoint: Path) -> Path:
    (file,) = (checkpoint / "gym/resources/ipi").glob("records*")
    return file


def _tampered(checkpoint: Path) -> None:
    file = _records(checkpoint)
    file.write_bytes(file.read_bytes().replace(b"r-0", b"r-9"))


def _truncated(checkpoint: Path) -> None:
    file = _records(checkpoint)
    file.write_bytes(file.read_bytes()[:-20])


def _foreign(checkpoint: Path) -> None:
    file = checkpoint / "gym/resources/ipi/manifest.json"
    file.write_text(file.read_text().replace('"ipi"', '"other"'))


@pytest.mark.parametrize("damage", [_tampered, _truncated, _foreign])
@pytest.mark.parametrize("verb", ["verify", "inspect"])
def test_damage_is_a_finding(
    run: Callable[..., Result],
    document: Callable[..., Any],
    checkpoint: Path,
    damage: Callable[..., None],
    verb: str,
) -> None:
    """What a restore would refuse is refused here, with exit code 1."""
    damage(checkpoint)
    result = run("checkpoint", verb, checkpoint)
    shown = document("checkpoint", verb, checkpoint, "--json", code=1)

    assert result.exit_code == 1
    assert "resources/ipi: REFUSED" in result.stdout
    assert shown["participants"][0]["fault"]


def test_other_kinds_are_read_as_far_as_known(
    run: Callable[..., Result], checkpoint: Path
) -> None:
    """Of a participant of another kind only the manifest is read, and that is said."""
    source = checkpoint / "gym/resources/ipi/manifest.json"
    manifest = json.loads(source.read_text()) | {"kind": "agent", "instance": "a"}
    other = checkpoint / "gym/agent/a"
    other.mkdir(parents=True)
    (other / "manifest.json").write_text(json.dumps(manifest))

    assert (
        "agent/a: ok, only its manifest"
        in run("checkpoint", "verify", checkpoint).stdout
    )
    assert "only its manifest" in run("checkpoint", "inspect", checkpoint).stdout


@pytest.mark.parametrize("option", [("--kind", "agent"), ("--instance", "other")])
def test_filters_that_match_nothing(
    run: Callable[..., Result], checkpoint: Path, option: tuple[str, str]
) -> None:
    """A kind or a name that is not there is refused with exit code 3."""
    assert run("checkpoint", "verify", checkpoint, *option).exit_code == 3


@pytest.mark.parametrize("option", [("--kind", "resources"), ("--instance", "ipi")])
def test_filters_that_match(
    run: Callable[..., Result], checkpoint: Path, option: tuple[str, str]
) -> None:
    """A kind and a name choose participants."""
    assert run("checkpoint", "verify", checkpoint, *option).exit_code == 0


@pytest.mark.parametrize("verb", ["verify", "inspect"])
@pytest.mark.parametrize("option", ["--kind", "--instance"])
@pytest.mark.parametrize("name", ["../..", "*", "", "a/b", "x\n"])
def test_a_filter_is_a_name(
    run: Callable[..., Result], checkpoint: Path, verb: str, option: str, name: str
) -> None:
    """What cannot name a participant is a usage error, as it could be a path."""
    result = run("checkpoint", verb, checkpoint, option, name)

    assert result.exit_code == 2
    assert f"not {name!a}" in result.stderr


def test_directory_without_checkpoint(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """A directory that holds none is refused, and so is one that does not exist."""
    for directory in (tmp_path, tmp_path / "none"):
        result = run("checkpoint", "verify", directory)

        assert result.exit_code == 3
        assert "no checkpoint here" in result.stderr
