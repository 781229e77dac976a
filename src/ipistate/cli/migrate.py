"""``ipistate checkpoint migrate``: the same checkpoint in another version of its states."""

from __future__ import annotations

import shutil

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import click

from ipistate.cli.checkpoint import GYM, participants
from ipistate.cli.exits import LEGEND, RefusedInputError, refusing
from ipistate.cli.options import AS_JSON, DIRECTORY
from ipistate.cli.strictness import STRICT_LOGS, Tools
from ipistate.cli.terminal import amount, emit, note, plain
from ipistate.protocol import EncodedStates
from ipistate.sessions import IPICheckpointState, RecordedSession, SessionCodec
from ipistate.storage import KIND, CheckpointDirectory, StopFlag


if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from ipistate.kernel import Adopt
    from ipistate.protocol import Restorable
    from ipistate.sessions import Session, StateCodec
    from ipistate.tools import Tool


@attrs.frozen
class WorldCodec:
    """Reads sessions of either version and writes version 1: only their worlds."""

    def encode(self, state: RecordedSession) -> bytes:
        """Write the world now."""
        return IPICheckpointState(state.environment).to_json()

    def decode(self, tree: Any, adopt: Adopt) -> RecordedSession:
        """Read a session without executing its log, which is dropped anyway.

        Raises:
            SchemaError: The tree is not a valid session.
        """
        return RecordedSession.from_tree(tree, adopt)


VERSIONS: Final = ("1", "2")


def codec_of(version: str, tools: Mapping[str, Tool]) -> StateCodec[Any]:
    """Return what reads states of either version and writes this one.

    Args:
        version: One of ``VERSIONS``.
        tools: What executes logs again, if this version has them.
    """
    return WorldCodec() if version == "1" else SessionCodec(tools)


@attrs.frozen
class MigratingPart:
    """A participant's part of a checkpoint, read in whole before anything is written."""

    directory: CheckpointDirectory
    read: Restorable | None
    """None if it is of another kind, and only its manifest was looked at."""

    @property
    def logs(self) -> list[int]:
        """How many calls the log of each session has."""
        records = () if self.read is None else self.read.records
        return [len(cast("RecordedSession | Session", r.state).log) for r in records]


@click.command(epilog=LEGEND)
@DIRECTORY
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--to", "version", type=click.Choice(VERSIONS), required=True, help="The version."
)
@STRICT_LOGS
@AS_JSON
def migrate(
    *,
    directory: Path,
    out: Path,
    version: str,
    tools: Tools,
    as_json: bool,
) -> None:
    """Write the checkpoint in DIRECTORY to OUT, its states in another version.

    Version 2 has each session's log of calls, version 1 only its world: going there
    drops the logs. DIRECTORY stays as it is, and OUT must not exist. Participants of
    other kinds are copied.

    \b
      ipistate checkpoint migrate /ckpt/step-120 /ckpt/step-120-v2 --to 2
    """
    if directory.resolve() in out.resolve().parents:
        raise RefusedInputError(f"{out}: is inside {directory}, which stays as it is")
    codec = codec_of(version, tools)
    parts = [_read(one, codec) for one in participants(directory, None, None)]
    with _made(out) as hidden:
        for part in parts:
            with refusing(str(out)):
                _write(part, hidden, codec)
        # Output that cannot be written is a failure, too, after which OUT is not there.
        _tell(out, parts, as_json=as_json)
        if version == "1":
            _warn([length for part in parts for length in part.logs])


def _read(directory: CheckpointDirectory, codec: StateCodec[Any]) -> MigratingPart:
    with refusing(f"{directory.kind}/{directory.instance}"):
        if directory.kind == KIND:
            return MigratingPart(directory, directory.read(codec))
        directory.read_manifest()
        return MigratingPart(directory, None)


@contextmanager
def _made(out: Path) -> Generator[Path]:
    # It appears at once, so whoever kills this leaves nothing that looks whole.
    hidden = out / ".incomplete"
    with refusing(str(out)):
        out.mkdir()
    try:
        with refusing(str(out)):
            hidden.mkdir()
        yield hidden
        with refusing(str(out)):
            (hidden / GYM).rename(out / GYM)
            hidden.rmdir()
    except BaseException:
        # No half of a checkpoint stays behind.
        shutil.rmtree(out, ignore_errors=True)
        raise


def _write(part: MigratingPart, out: Path, codec: StateCodec[Any]) -> None:
    source = part.directory
    if part.read is None:
        below = Path(GYM, source.kind, source.instance)
        hidden = shutil.ignore_patterns(".*")
        shutil.copytree(source.root / below, out / below, ignore=hidden)
        return
    lines = EncodedStates(codec).lines(part.read.records)
    target = CheckpointDirectory(out, source.instance, source.kind)
    target.write(part.read.manifest.checkpoint_id, lines, StopFlag())


def _tell(out: Path, parts: list[MigratingPart], *, as_json: bool) -> None:
    if as_json:
        emit({"directory": str(out), "participants": [_document(one) for one in parts]})
    else:
        for part in parts:
            click.echo(plain(_line(part)))


def _document(part: MigratingPart) -> dict[str, object]:
    return {
        "kind": part.directory.kind,
        "instance": part.directory.instance,
        "migrated": part.read is not None,
        "sessions": len(part.logs),
        "calls": sum(part.logs),
    }


def _line(part: MigratingPart) -> str:
    said = "copied" if part.read is None else amount(len(part.logs), "session")
    return f"{part.directory.kind}/{part.directory.instance}: {said}"


def _warn(dropped: list[int]) -> None:
    if any(dropped):
        sessions = amount(sum(map(bool, dropped)), "session")
        note(f"dropped the logs of {sessions}: {amount(sum(dropped), 'call')}")
