"""``ipistate checkpoint migrate``: up, down, and never in place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ipistate import Session, encode
from ipistate.cli.exits import Exit
from ipistate.generate import builtin
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.sessions.codec import SessionCodec
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage import MigratingParticipant, NewCheckpoint
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag
from ipistate.tools import TOOLS
from ipistate.tools.strict import strict


if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """Write a checkpoint of version 2: a session with two calls, one without any."""
    began = [Session(task.environment) for task in builtin.rows()[:2]]
    sessions = [began[0].step("nope").once("k", "nope")[0], began[1]]
    records = [
        SessionRecord(EpisodeId(f"r-{number}"), f"session-{number}", session)
        for number, session in enumerate(sessions)
    ]
    lines = EncodedStates(SessionCodec()).lines(records)
    CheckpointDirectory(tmp_path / "v2", "ipi").write("step-1", lines, StopFlag())
    return tmp_path / "v2"


def files(root: Path) -> dict[Path, bytes]:
    """Return every file below a directory with its bytes."""
    found = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root): path.read_bytes() for path in found}


def states(root: Path, codec: EnvironmentCodec | SessionCodec) -> list[Any]:
    """Return the states of a checkpoint."""
    return [one.state for one in CheckpointDirectory(root, "ipi").read(codec).records]


def test_up_and_down_again(
    run: Callable[..., Result], checkpoint: Path, tmp_path: Path
) -> None:
    """Version 1 becomes version 2 and, again, the very same files."""
    before = files(checkpoint)

    up = run("checkpoint", "migrate", checkpoint, tmp_path / "up", "--to", "2")
    down = run("checkpoint", "migrate", tmp_path / "up", tmp_path / "down", "--to", "1")

    assert (0, "resources/ipi: 2 sessions\n", "") == (
        up.exit_code,
        up.stdout,
        up.stderr,
    )
    assert (0, up.stdout, "") == (down.exit_code, down.stdout, down.stderr)
    assert before == files(checkpoint) == files(tmp_path / "down")
    assert states(checkpoint, EnvironmentCodec()) == [
        session.environment for session in states(tmp_path / "up", SessionCodec())
    ]


def test_down_drops_logs_and_says_so(
    run: Callable[..., Result], logged: Path, tmp_path: Path
) -> None:
    """What is lost stands on standard error, and the original still has it."""
    before = files(logged)

    result = run("checkpoint", "migrate", logged, tmp_path / "v1", "--to", "1")

    assert (0, "resources/ipi: 2 sessions\n") == (result.exit_code, result.stdout)
    assert "dropped the logs of 1 session: 2 calls\n" == result.stderr
    assert before == files(logged)
    assert [builtin.rows()[n].environment for n in range(2)] == states(
        tmp_path / "v1", EnvironmentCodec()
    )
    manifest = CheckpointDirectory(tmp_path / "v1", "ipi").read_manifest()
    assert ("step-1", 2) == (manifest.checkpoint_id, manifest.record_count)


def test_to_its_own_version(
    run: Callable[..., Result], logged: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """A checkpoint of the version that is asked for is written as it was."""
    run("checkpoint", "migrate", logged, tmp_path / "again", "--to", "2")
    run("checkpoint", "migrate", checkpoint, tmp_path / "same", "--to", "1")

    assert files(logged) == files(tmp_path / "again")
    assert files(checkpoint) == files(tmp_path / "same")


def test_json(
    document: Callable[..., Any],
    checkpoint: Path,
    tmp_path: Path,
) -> None:
    """With --json the participants are members of one document."""
    out = tmp_path / "out"

    told = document("checkpoint", "migrate", checkpoint, out, "--to", "2", "--json")

    part = {"kind": "resources", "instance": "ipi", "migrated": True}
    assert told == {
        "directory": str(out),
        "participants": [{**part, "sessions": 2, "calls": 0}],
    }


def test_an_existing_directory_is_refused(
    run: Callable[..., Result], checkpoint: Path, tmp_path: Path
) -> None:
    """Nothing is written over, not even the original."""
    (tmp_path / "out").mkdir()
    inside = checkpoint / "gym" / "out"
    for out in (checkpoint, tmp_path / "out", tmp_path / "no" / "parent", inside):
        before = files(tmp_path)
        result = run("checkpoint", "migrate", checkpoint, out, "--to", "2")

        assert (3, "") == (result.exit_code, result.stdout)
        assert str(out) in result.stderr
        assert before == files(tmp_path)


def _rewritten(root: Path, old: bytes, new: bytes) -> None:
    # The digest is that of the changed records, so that only the state is at fault.
    records, manifest = sorted((root / "gym/resources/ipi").iterdir(), reverse=True)
    lines = records.read_bytes().replace(old, new).splitlines(keepends=True)
    records.unlink()
    manifest.unlink()
    CheckpointDirectory(root, "ipi").write("step-1", lines, StopFlag())


def test_a_log_that_is_not_true_is_refused_on_the_way_up_only(
    run: Callable[..., Result], logged: Path, tmp_path: Path
) -> None:
    """Tools of one's own cannot be executed here, but their logs can be dropped."""
    _rewritten(logged, b"Unknown tool", b"Known tool")

    up = run("checkpoint", "migrate", logged, tmp_path / "up", "--to", "2")
    down = run("checkpoint", "migrate", logged, tmp_path / "down", "--to", "1")

    assert (3, 0) == (up.exit_code, down.exit_code)
    assert "line 1: " in up.stderr
    assert "$.state.log[0].output" in up.stderr
    assert not (tmp_path / "up").exists()


def test_participants_of_other_kinds_are_copied(
    run: Callable[..., Result], checkpoint: Path, tmp_path: Path
) -> None:
    """What this package cannot read goes along, byte for byte."""
    directory = CheckpointDirectory(checkpoint, "actor", "agents")
    directory.write("step-1", [b"anything\n"], StopFlag())
    (checkpoint / "gym/agents/actor/.temporary").write_bytes(b"")

    result = run("checkpoint", "migrate", checkpoint, tmp_path / "out", "--to", "2")

    assert "agents/actor: copied\nresources/ipi: 2 sessions\n" == result.stdout
    copied = files(checkpoint / "gym/agents")
    assert files(tmp_path / "out/gym/agents") == {
        path: data for path, data in copied.items() if path.name != ".temporary"
    }


def test_nothing_stays_behind_if_writing_fails(
    run: Callable[..., Result],
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A checkpoint is migrated completely or not at all."""

    def full(*_: MigratingParticipant | NewCheckpoint | SessionCodec) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(NewCheckpoint, "add", full)
    result = run("checkpoint", "migrate", checkpoint, tmp_path / "out", "--to", "2")

    assert (3, False) == (result.exit_code, (tmp_path / "out").exists())
    assert "No space left on device" in result.stderr


@pytest.mark.parametrize("option", ["", "--json"])
@pytest.mark.parametrize("target", ["/dev/full", "&-"])
def test_output_that_cannot_be_written(
    logged: Path, tmp_path: Path, option: str, target: str
) -> None:
    """Whoever is told of a failure finds no OUT, and can give the command again."""
    words = f'"$0" -m ipistate checkpoint migrate "$1" "$2" --to 1 {option} >{target}'
    result = subprocess.run(
        ["sh", "-c", words, sys.executable, logged, tmp_path / "out"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )

    assert (3, False) == (result.returncode, (tmp_path / "out").exists())
    assert result.stderr.startswith(b"Error: cannot write the output: ")


def test_it_appears_at_once(
    run: Callable[..., Result],
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the last participant is written, nobody takes OUT for a checkpoint."""
    directory = CheckpointDirectory(checkpoint, "other")
    directory.write("step-1", [], StopFlag())
    looks, add = [], NewCheckpoint.add

    def watched(
        *arguments: Any,
    ) -> None:
        add(*arguments)
        looks.append(run("checkpoint", "verify", tmp_path / "out").exit_code)

    monkeypatch.setattr(NewCheckpoint, "add", watched)
    run("checkpoint", "migrate", checkpoint, tmp_path / "out", "--to", "2")

    assert [3, 3] == looks
    assert 0 == run("checkpoint", "verify", tmp_path / "out").exit_code
    assert ["gym"] == [path.name for path in (tmp_path / "out").iterdir()]


def test_a_damaged_checkpoint_is_refused(
    run: Callable[..., Result], checkpoint: Path, tmp_path: Path
) -> None:
    """Every check of a restore is made before anything is written."""
    (records,) = (checkpoint / "gym/resources/ipi").glob("records*")
    records.write_bytes(records.read_bytes().replace(b"r-0", b"r-9"))

    result = run("checkpoint", "migrate", checkpoint, tmp_path / "out", "--to", "2")

    assert 3 == result.exit_code
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("version", ["0", "3", "true"])
def test_other_versions(
    run: Callable[..., Result], checkpoint: Path, tmp_path: Path, version: str
) -> None:
    """Versions that nobody knows are a wrong use."""
    arguments = ("checkpoint", "migrate", checkpoint, tmp_path / "out", "--to", version)

    assert 2 == run(*arguments).exit_code


def test_inspect_and_verify_read_both_versions(
    run: Callable[..., Result],
    document: Callable[..., Any],
    logged: Path,
) -> None:
    """Looking into a checkpoint needs no version; a log is counted and proven."""
    (shown,) = document("checkpoint", "inspect", logged, "--json")["participants"]
    result = run("checkpoint", "verify", logged)

    assert [2, 0] == [session["calls"] for session in shown["sessions"]]
    assert "resources/ipi: ok, 2 sessions, 2 logged calls\n" == result.stdout
    assert "calls" in run("checkpoint", "inspect", logged).stdout


def test_verify_executes_logs(
    run: Callable[..., Result],
    document: Callable[..., Any],
    logged: Path,
) -> None:
    """A log that execution does not give is a finding; inspect shows it all the same."""
    _rewritten(logged, b"Unknown tool", b"Known tool")

    result = run("checkpoint", "verify", logged)
    (shown,) = document("checkpoint", "inspect", logged, "--json")["participants"]

    assert 1 == result.exit_code
    assert "log_not_reproducible" in result.stdout
    assert shown["ok"]


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the checkpoint of a server with these tools.

    Its one session made a call that strict arguments refuse.
    """

    def write(tools: Mapping[str, Any]) -> Path:
        began = Session(builtin.rows()[0].environment)
        session = began.step("get_patient_record", {"patient_id": 7}, tools=tools)
        record = SessionRecord(EpisodeId("r-0"), "session-0", session)
        lines = EncodedStates(SessionCodec(tools)).lines([record])
        CheckpointDirectory(tmp_path / "c", "ipi").write("step-1", lines, StopFlag())
        return tmp_path / "c"

    return write


@pytest.mark.parametrize("options", [[], ["--strict"]])
def test_logs_are_executed_as_their_server_did(
    run: Callable[..., Result],
    written: Callable[..., Path],
    tmp_path: Path,
    options: list[str],
) -> None:
    """With --strict those of strict arguments, without it all others; never both."""
    codes: list[int | Exit] = []
    for tools in (TOOLS, strict()):
        directory, out = written(tools), tmp_path / "out"
        migrating = ("migrate", directory, out, "--to", "2")
        verbs = (("verify", directory), migrating)
        codes += [run("checkpoint", *verb, *options).exit_code for verb in verbs]
        assert out.exists() is not bool(codes[-1])
        if out.exists():
            assert files(directory) == files(out)
        for path in (directory, out):
            shutil.rmtree(path, ignore_errors=True)

    assert codes == ([1, 3, 0, 0] if options else [0, 0, 1, 3])


def test_going_down_executes_nothing_strictly(
    run: Callable[..., Result], written: Callable[..., Path], tmp_path: Path
) -> None:
    """A log that is dropped may be of any tools, whatever is asked."""
    for name, options in (("loose", []), ("strict", ["--strict"])):
        verb = ("migrate", written(strict()), tmp_path / name, "--to", "1")
        assert 0 == run("checkpoint", *verb, *options).exit_code
        shutil.rmtree(tmp_path / "c")


@pytest.mark.parametrize("verb", ["verify", "migrate"])
def test_strict_needs_its_extra(
    run: Callable[..., Result],
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
) -> None:
    """Without jsonschema the option says what to install; nothing is written."""
    monkeypatch.delitem(sys.modules, "ipistate.tools.strict", raising=False)
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    more = [tmp_path / "out", "--to", "2"] if verb == "migrate" else []
    result = run("checkpoint", verb, checkpoint, *more, "--strict")

    assert (2, False) == (result.exit_code, (tmp_path / "out").exists())
    assert f"checkpoint {verb} --strict" in result.stderr
    assert "pip install 'ipistate[strict]'" in result.stderr


def test_bytes_are_those_of_the_codec(
    run: Callable[..., Result], checkpoint: Path, tmp_path: Path
) -> None:
    """A migrated record has the state that the codec writes."""
    run("checkpoint", "migrate", checkpoint, tmp_path / "up", "--to", "2")
    (records,) = (tmp_path / "up/gym/resources/ipi").glob("records*")
    line = json.loads(records.read_bytes().splitlines()[0])
    world = builtin.rows()[0].environment

    assert encode(line["state"]) == SessionCodec().encode(Session(world))
