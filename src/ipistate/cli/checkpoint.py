"""``ipistate checkpoint``: look into a checkpoint directory, or drive checkpoints."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from ipistate.cli.exits import LEGEND, Exit, RefusedInputError, refusing
from ipistate.cli.groups import VerbGroup
from ipistate.cli.options import AS_JSON, DIRECTORY, STRICT_LOGS, Tools
from ipistate.cli.terminal import amount, emit, stdout_console, table
from ipistate.cli.texts import plain, shown
from ipistate.protocol import SAFE_NAME
from ipistate.sessions import RecordedCodec, SessionCodec
from ipistate.storage import GYM, CheckedParticipant, check_participant, participants


if TYPE_CHECKING:
    from ipistate.protocol import SessionRecord
    from ipistate.sessions import RecordedSession
    from ipistate.storage import CheckpointDirectory

_STEPS: Final = "ipistate.cli.checkpoint_steps"
_COORDINATE: Final = "ipistate.cli.coordinate"
ELSEWHERE: Final = {
    "diff": "ipistate.cli.checkpoint_diff",
    "migrate": "ipistate.cli.migrate",
    "take": _STEPS,
    "status": _COORDINATE,
    "prepare": _COORDINATE,
    "commit": _STEPS,
    "renew": _COORDINATE,
    "resume": _COORDINATE,
    "restore": _STEPS,
    "retire": _COORDINATE,
    "forget": _COORDINATE,
}
"""Modules of the verbs that are not here."""


def _named(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    # A kind and a name are directories, and not paths to other ones.
    if value is not None and SAFE_NAME.fullmatch(value) is None:
        raise click.BadParameter(f"a name matches ^{SAFE_NAME.pattern}$, not {value!a}")
    return value


_KIND_OPTION: Final = click.option(
    "--kind",
    callback=_named,
    help="Look only at participants of this kind, as resources.",
)
_INSTANCE_OPTION: Final = click.option(
    "--instance", callback=_named, help="Look only at the participant of this name."
)


class _Group(VerbGroup):
    """Imports the verbs that need an HTTP client only when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs for files, then those for servers."""
        return [*super().list_commands(ctx), *ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb."""
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        verb: click.Command = getattr(import_module(ELSEWHERE[cmd_name]), cmd_name)
        return verb


@click.group("checkpoint", cls=_Group, epilog=LEGEND)
def command() -> None:
    """Look into a checkpoint directory and check it; drive checkpoints of servers.

    A checkpoint directory holds a file of session records and a manifest for each
    participant. inspect, verify, diff and migrate read such files and need no server;
    the others call the control plane of running servers, with its bearer token.

    \b
      ipistate checkpoint verify /ckpt/step-120
      ipistate checkpoint status --url http://localhost:8000 --token-file token.txt
    """


@command.command(epilog=LEGEND)
@DIRECTORY
@_KIND_OPTION
@_INSTANCE_OPTION
@AS_JSON
def inspect(
    *,
    directory: Path,
    kind: str | None,
    instance: str | None,
    as_json: bool,
) -> None:
    """Show the manifests in DIRECTORY, their sessions and what each world holds.

    \b
      ipistate checkpoint inspect /ckpt/step-120
    """
    found = participants_in(directory, kind, instance)
    parts = [check_participant(one, RecordedCodec()) for one in found]
    if as_json:
        emit({"directory": str(directory), "participants": [*map(_document, parts)]})
    else:
        for part in parts:
            _show(part)
    if any(part.fault for part in parts):
        click.get_current_context().exit(Exit.FINDINGS)


@command.command(epilog=LEGEND)
@DIRECTORY
@_KIND_OPTION
@_INSTANCE_OPTION
@STRICT_LOGS
@AS_JSON
def verify(
    *,
    directory: Path,
    kind: str | None,
    instance: str | None,
    tools: Tools,
    as_json: bool,
) -> None:
    """Check what a restore of DIRECTORY would check, record by record.

    Manifest, digest, number of records, each record and each world; a log of calls is
    executed again. Exit code 1: a check failed; 3: there is no checkpoint here.

    \b
      ipistate checkpoint verify /ckpt/step-120
    """
    found = participants_in(directory, kind, instance)
    parts = [check_participant(one, SessionCodec(tools)) for one in found]
    if as_json:
        emit({"directory": str(directory), "participants": [*map(_outcome, parts)]})
    else:
        for part in parts:
            click.echo(plain(f"{_name(part)}: {_said(part)}"))
    if any(part.fault for part in parts):
        click.get_current_context().exit(Exit.FINDINGS)


def participants_in(
    root: Path, kind: str | None = None, instance: str | None = None
) -> list[CheckpointDirectory]:
    """Find the participants below a checkpoint directory, sorted.

    Raises:
        RefusedInputError: There is none, or the directory cannot be read.
    """
    with refusing(str(root)):
        found = participants(root, kind, instance)
    if not found:
        wanted = f"{root / GYM}/{kind or '*'}/{instance or '*'}"
        message = f"no participant at {shown(wanted)}: no checkpoint here"
        raise RefusedInputError(message)
    return found


def _name(part: CheckedParticipant) -> str:
    return f"{part.directory.kind}/{part.directory.instance}"


def _said(part: CheckedParticipant) -> str:
    if part.fault:
        return f"REFUSED {part.fault}"
    sessions = part.note or amount(len(part.records), "session")
    calls = amount(part.calls, "logged call") if part.calls else ""
    return ", ".join(filter(None, [f"ok, {sessions}", calls]))


def _outcome(part: CheckedParticipant) -> dict[str, Any]:
    return {
        "kind": part.directory.kind,
        "instance": part.directory.instance,
        "ok": part.fault is None,
        "fault": part.fault,
        "note": part.note,
        "sessions": len(part.records),
        "calls": part.calls,
    }


def _document(part: CheckedParticipant) -> dict[str, Any]:
    manifest = None if part.manifest is None else part.manifest.to_document()
    sessions = [*map(_session, part.records)]
    return {**_outcome(part), "manifest": manifest, "sessions": sessions}


def _session(record: SessionRecord) -> dict[str, Any]:
    state = cast("RecordedSession", record.state)
    world = state.environment
    sizes = {
        name: len(rows) if isinstance(rows, dict | list) else None
        for name, rows in world.document.items()
    }
    return {
        "episode": record.episode_id.capture_key,
        "session_id": record.session_id,
        "bytes": len(world.to_json()),
        "calls": len(state.log),
        "collections": sizes,
    }


def _show(part: CheckedParticipant) -> None:
    console = stdout_console()
    if part.manifest is None:
        click.echo(plain(f"{_name(part)}: REFUSED {part.fault}"))
        return
    manifest = part.manifest
    click.echo(plain(f"{_name(part)}: checkpoint {manifest.checkpoint_id}"))
    counted = amount(manifest.record_count, "record")
    click.echo(f"  {manifest.records_file}, {counted}")
    if part.note is not None:
        click.echo(plain(f"  {part.note}"))
    rows = [
        [
            *(one["episode"], one["session_id"], one["bytes"], one["calls"]),
            _sizes(one["collections"]),
        ]
        for one in map(_session, part.records)
    ]
    if rows:
        heads = ["episode", "session", "bytes", "calls", "collections"]
        console.print(table(heads, rows, numbers=[2, 3]))


def _sizes(collections: dict[str, int | None]) -> str:
    return ", ".join(
        name if size is None else f"{name} {size}" for name, size in collections.items()
    )
