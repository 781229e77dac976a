"""``ipistate checkpoint diff``: what changed in each session between two checkpoints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import attrs
import click

from ipistate.cli.checkpoint import participants
from ipistate.cli.diff import document, summary
from ipistate.cli.exits import LEGEND, Exit, refusing
from ipistate.cli.options import AS_JSON
from ipistate.cli.terminal import amount, emit, note, one_line
from ipistate.kernel import Diff, JsonObject, trusted_array, trusted_object
from ipistate.kernel import diff as changes
from ipistate.sessions import RecordedCodec
from ipistate.storage import KIND, CheckpointDirectory


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ipistate.kernel import Environment
    from ipistate.protocol import Restorable, SessionRecord
    from ipistate.sessions import RecordedSession

Status = Literal["same", "different", "only in A", "only in B"]

_SIGNS: Final = {"different": "~", "only in A": "-", "only in B": "+"}


@attrs.frozen(kw_only=True)
class Compared:
    """A session of one checkpoint or of both."""

    session_id: str
    status: Status
    before: str | None
    """The episode that it played in A."""
    after: str | None
    """The episode that it played in B."""
    found: Diff | None
    """What changed in its world, if both checkpoints have it."""

    def to_document(self) -> JsonObject:
        """Return its part of the report."""
        return trusted_object(
            {
                "session_id": self.session_id,
                "status": self.status,
                "episodes": JsonObject({"before": self.before, "after": self.after}),
                "diff": None if self.found is None else document(self.found),
            }
        )

    def lines(self) -> Iterator[str]:
        """Say what became of it, and of its world in the lines below."""
        if self.status == "same":
            return
        episodes = dict.fromkeys(one for one in (self.before, self.after) if one)
        said = summary(self.found) if self.found else self.status
        sign = _SIGNS[self.status]
        yield f"{sign} {self.session_id} ({' -> '.join(episodes)}): {said}"
        for line in self.found.lines() if self.found else ():
            yield f"    {line}"


@attrs.frozen
class ComparedPart:
    """A participant of one checkpoint or of both."""

    kind: str
    instance: str
    before: Restorable | None
    after: Restorable | None

    @property
    def checkpoints(self) -> JsonObject:
        """The ids of its checkpoints in A and in B."""
        return JsonObject({"before": _id(self.before), "after": _id(self.after)})

    def sessions(self) -> Iterator[Compared]:
        """Compare its sessions by their ids, those of A first."""
        olds, news = _records(self.before), _records(self.after)
        for session_id in dict.fromkeys((*olds, *news)):
            yield _compared(session_id, olds.get(session_id), news.get(session_id))


@click.command("diff", epilog=LEGEND)
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@AS_JSON
@click.pass_context
def diff(ctx: click.Context, *, before: Path, after: Path, as_json: bool) -> None:
    """Show what changed in each session from checkpoint A to checkpoint B.

    A and B are checkpoint directories. Sessions are found again by their ids, whatever
    episode they play. Exit code 1: a world differs, or a session is in one checkpoint
    only; 3: one of them is damaged, or none.

    \b
      ipistate checkpoint diff /ckpt/step-120 /ckpt/step-140
    """
    parts = [*_parts(before, after)]
    compared = [(part, tuple(part.sessions())) for part in parts]
    counts = Counter(one.status for _, sessions in compared for one in sessions)
    if as_json:
        found = trusted_array([_reported(*one) for one in compared])
        names = JsonObject({"before": str(before), "after": str(after)})
        counted = JsonObject(counts)
        emit(trusted_object({**names, "counts": counted, "participants": found}))
    else:
        for part, sessions in compared:
            _show(part, sessions)
        listed = ", ".join(f"{count} {status}" for status, count in counts.items())
        click.echo(f"{amount(counts.total(), 'session')}: {listed}")
    if counts.keys() - {"same"}:
        ctx.exit(Exit.FINDINGS)


def _show(part: ComparedPart, sessions: tuple[Compared, ...]) -> None:
    before, after = (name or "none" for name in part.checkpoints.values())
    head = f"{part.kind}/{part.instance}: checkpoint {before} -> {after}"
    click.echo(one_line(head))
    for session in sessions:
        for line in session.lines():
            click.echo(one_line(f"  {line}"))


def _reported(part: ComparedPart, sessions: tuple[Compared, ...]) -> JsonObject:
    return trusted_object(
        {
            "kind": part.kind,
            "instance": part.instance,
            "checkpoints": part.checkpoints,
            "sessions": trusted_array(one.to_document() for one in sessions),
        }
    )


def _parts(before: Path, after: Path) -> Iterator[ComparedPart]:
    olds, news = _directories(before), _directories(after)
    for kind, instance in dict.fromkeys((*olds, *news)):
        name = (kind, instance)
        if kind == KIND:
            yield ComparedPart(
                kind, instance, _read(olds.get(name)), _read(news.get(name))
            )
        else:
            note(f"{kind}/{instance}: not compared, only kind {KIND} has worlds")


def _directories(root: Path) -> Mapping[tuple[str, str], CheckpointDirectory]:
    return {(one.kind, one.instance): one for one in participants(root, None, None)}


def _read(directory: CheckpointDirectory | None) -> Restorable | None:
    if directory is None:
        return None
    with refusing(str(directory.root)):
        return directory.read(RecordedCodec())


def _id(part: Restorable | None) -> str | None:
    return None if part is None else part.manifest.checkpoint_id


def _records(part: Restorable | None) -> Mapping[str, SessionRecord]:
    return {} if part is None else {one.session_id: one for one in part.records}


def _compared(
    session_id: str, before: SessionRecord | None, after: SessionRecord | None
) -> Compared:
    status: Status = "only in B" if before is None else "only in A"
    found: Diff | None = None
    if before is not None and after is not None:
        found = changes(_world(before), _world(after))
        status = "different" if found else "same"
    return Compared(
        session_id=session_id,
        status=status,
        before=_episode(before),
        after=_episode(after),
        found=found,
    )


def _episode(record: SessionRecord | None) -> str | None:
    return None if record is None else record.episode_id.capture_key


def _world(record: SessionRecord) -> Environment:
    return cast("RecordedSession", record.state).environment
