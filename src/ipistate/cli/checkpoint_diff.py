"""``ipistate checkpoint diff``: what changed in each session between two checkpoints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ipistate.cli.checkpoint import participants_in
from ipistate.cli.diff import document, summary
from ipistate.cli.exits import LEGEND, Exit, refusing
from ipistate.cli.options import AS_JSON
from ipistate.cli.terminal import amount, emit, note
from ipistate.cli.texts import one_line
from ipistate.kernel import JsonObject, trusted_array, trusted_object
from ipistate.protocol import KIND
from ipistate.sessions import RecordedCodec
from ipistate.storage import CheckpointDirectory, compare_participants


if TYPE_CHECKING:
    from collections.abc import Iterator

    from ipistate.protocol import Restorable, SessionRecord
    from ipistate.storage import ComparedParticipant, ComparedSession

_SIGNS: Final = {"different": "~", "only in A": "-", "only in B": "+"}


@click.command("diff", epilog=LEGEND)
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@AS_JSON
@click.pass_context
def diff(ctx: click.Context, *, before: Path, after: Path, as_json: bool) -> None:
    """Show what changed in each session from checkpoint A to checkpoint B.

    A and B are checkpoint directories. Sessions are matched by their ids, in every
    episode. Exit code 1: a world differs, or a session is in one checkpoint
    only; 3: one of them is damaged, or none.

    \b
      ipistate checkpoint diff /ckpt/step-120 /ckpt/step-140
    """
    parts = [*_compared(before, after)]
    counts = Counter(one.status for part in parts for one in part.sessions)
    if as_json:
        names = {"before": str(before), "after": str(after)}
        found = trusted_array(map(_part_document, parts))
        counted = JsonObject(counts)
        emit(trusted_object({**names, "counts": counted, "participants": found}))
    else:
        for part in parts:
            for line in _lines(part):
                click.echo(one_line(line))
        listed = ", ".join(f"{count} {status}" for status, count in counts.items())
        click.echo(f"{amount(counts.total(), 'session')}: {listed}")
    if counts.keys() - {"same"}:
        ctx.exit(Exit.FINDINGS)


def _compared(before: Path, after: Path) -> Iterator[ComparedParticipant]:
    olds, news = (
        {(one.kind, one.instance): one for one in participants_in(root)}
        for root in (before, after)
    )
    for kind, instance in dict.fromkeys((*olds, *news)):
        if kind == KIND:
            read = [_read(one.get((kind, instance))) for one in (olds, news)]
            yield compare_participants(kind, instance, *read)
        else:
            note(f"{kind}/{instance}: not compared, only kind {KIND} has worlds")


def _read(directory: CheckpointDirectory | None) -> Restorable[SessionRecord] | None:
    if directory is None:
        return None
    with refusing(str(directory.root)):
        return directory.read(RecordedCodec())


def _lines(part: ComparedParticipant) -> Iterator[str]:
    checkpoints = f"checkpoint {part.before or 'none'} -> {part.after or 'none'}"
    yield f"{part.kind}/{part.instance}: {checkpoints}"
    for one in part.sessions:
        if one.status != "same":
            episodes = dict.fromkeys(name for name in (one.before, one.after) if name)
            said = summary(one.found) if one.found else one.status
            sign = _SIGNS[one.status]
            yield f"  {sign} {one.session_id} ({' -> '.join(episodes)}): {said}"
        for line in one.found.lines() if one.found else ():
            yield f"      {line}"


def _part_document(part: ComparedParticipant) -> JsonObject:
    return trusted_object(
        {
            "kind": part.kind,
            "instance": part.instance,
            "checkpoints": JsonObject({"before": part.before, "after": part.after}),
            "sessions": trusted_array(map(_session_document, part.sessions)),
        }
    )


def _session_document(one: ComparedSession) -> JsonObject:
    return trusted_object(
        {
            "session_id": one.session_id,
            "status": one.status,
            "episodes": JsonObject({"before": one.before, "after": one.after}),
            "diff": None if one.found is None else document(one.found),
        }
    )
