"""``ipistate checkpoint migrate``: the same checkpoint in another version of its states."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ipistate.cli.checkpoint import participants_in
from ipistate.cli.exits import LEGEND, RefusedInputError, refusing
from ipistate.cli.options import AS_JSON, DIRECTORY, STRICT_LOGS, Tools
from ipistate.cli.terminal import amount, emit, note
from ipistate.cli.texts import plain
from ipistate.sessions import SessionCodec, WorldCodec
from ipistate.storage import MigratingParticipant, NewCheckpoint


if TYPE_CHECKING:
    from collections.abc import Generator

    from ipistate.sessions import StateCodec
    from ipistate.storage import CheckpointDirectory


@click.command(epilog=LEGEND)
@DIRECTORY
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "version",
    type=click.Choice(["1", "2"]),
    required=True,
    help="The version to write: 1 has the world of each session, 2 its log of calls.",
)
@STRICT_LOGS
@AS_JSON
def migrate(
    *, directory: Path, out: Path, version: str, tools: Tools, as_json: bool
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
    codec: StateCodec[Any] = WorldCodec() if version == "1" else SessionCodec(tools)
    parts = [_read(one, codec) for one in participants_in(directory)]
    with _published(out) as new:
        with refusing(str(out)):
            for part in parts:
                new.add(part, codec)
        # Output that cannot be written is a failure, too, after which OUT is not there.
        _tell(out, parts, as_json=as_json)
        if version == "1":
            _warn([length for part in parts for length in part.logs])


def _read(
    directory: CheckpointDirectory, codec: StateCodec[Any]
) -> MigratingParticipant:
    with refusing(f"{directory.kind}/{directory.instance}"):
        return MigratingParticipant.of(directory, codec)


@contextmanager
def _published(out: Path) -> Generator[NewCheckpoint]:
    new = NewCheckpoint(out)
    with refusing(str(out)):
        new.begin()
    try:
        yield new
        with refusing(str(out)):
            new.publish()
    except BaseException:
        new.discard()
        raise


def _tell(out: Path, parts: list[MigratingParticipant], *, as_json: bool) -> None:
    if as_json:
        emit({"directory": str(out), "participants": [_document(one) for one in parts]})
    else:
        for part in parts:
            sessions = amount(len(part.logs), "session")
            said = "copied" if part.read is None else sessions
            click.echo(
                plain(f"{part.directory.kind}/{part.directory.instance}: {said}")
            )


def _document(part: MigratingParticipant) -> dict[str, object]:
    return {
        "kind": part.directory.kind,
        "instance": part.directory.instance,
        "migrated": part.read is not None,
        "sessions": len(part.logs),
        "calls": sum(part.logs),
    }


def _warn(dropped: list[int]) -> None:
    if any(dropped):
        sessions = amount(sum(map(bool, dropped)), "session")
        note(f"dropped the logs of {sessions}: {amount(sum(dropped), 'call')}")
