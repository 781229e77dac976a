"""How answers and failures of participants are shown, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from ipistate.cli.terminal import amount, emit, stdout_console, table
from ipistate.cli.texts import plain
from ipistate.coordination import Participant
from ipistate.kernel import unstructure


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ipistate.coordination import (
        Committed,
        Failure,
        ParticipantAnswer,
        Prepared,
        PreparedReport,
    )
    from ipistate.protocol import EpisodeId

LISTED: Final = ("blockers", "restarts", "missing")
"""Members that are shown below the table."""


@attrs.frozen(kw_only=True)
class OperationSummary:
    """What an operation shows: a row for each answer, and members for them all."""

    answers: Sequence[ParticipantAnswer[Any]] = ()
    columns: Mapping[str, Callable[[Any], object]] = MappingProxyType({})
    """A reply's cells, by the column's head."""
    members: Mapping[str, Any] = MappingProxyType({})
    ok: bool = True
    failures: Sequence[Failure] = ()
    clean_up: Sequence[Failure] = ()

    def emit(self, operation: str | None) -> None:
        """Write one JSON document to standard output."""
        emit(
            {
                "operation": operation,
                "ok": self.ok,
                **self.members,
                "participants": [
                    {**_server(one.participant), "reply": unstructure(one.reply)}
                    for one in self.answers
                ],
                "failures": [*map(_failure, self.failures)],
                "clean_up": [*map(_failure, self.clean_up)],
            }
        )

    def print(self) -> None:
        """Write a table to standard output."""
        cells = [
            [
                *(str(one.participant.kind), one.participant.name),
                *(cell(one.reply) for cell in self.columns.values()),
            ]
            for one in self.answers
        ]
        if cells:
            stdout_console().print(table(["kind", "name", *self.columns], cells))
        for name in LISTED:
            if self.members.get(name):
                click.echo(plain(f"{name}: {', '.join(self.members[name])}"))


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        **_server(failure.server),
        "operation": failure.operation,
        "reason": str(failure.reason),
        "status": failure.status,
        "code": failure.code,
        "detail": failure.detail,
    }


def _server(server: Any) -> dict[str, Any]:
    kind = str(server.kind) if isinstance(server, Participant) else None
    return {"kind": kind, "name": server.name, "url": server.url}


def keys(episodes: Iterable[EpisodeId]) -> list[str]:
    """Write episodes by their capture keys."""
    return [one.capture_key for one in episodes]


def counted(report: PreparedReport) -> str:
    """Write the counts of a report in one line."""
    return ", ".join(f"{name} {count}" for name, count in report.counts.items())


def blocked(report: PreparedReport) -> str:
    """Write what an unready participant waits for."""
    if report.ready:
        return "ready"
    listed = ", ".join(report.blockers) or "requests in flight"
    more = report.blocker_count - len(report.blockers)
    return f"waits for {listed}" + (f" and {more} more" if more > 0 else "")


def prepared_summary(prepared: Prepared) -> OperationSummary:
    """Summarise a prepare; it is not ok if a participant is not ready."""
    return OperationSummary(
        answers=prepared.answers,
        columns={
            "phase": lambda reply: reply.phase,
            "counts": lambda reply: counted(reply.report),
            "readiness": lambda reply: blocked(reply.report),
        },
        members={
            "blockers": keys(prepared.blockers),
            "restarts": keys(prepared.restarts),
        },
        ok=prepared.ready,
    )


def committed_summary(done: Committed) -> OperationSummary:
    """Summarise what a commit has written."""
    return OperationSummary(
        answers=done.answers,
        columns={
            "phase": lambda reply: reply.phase,
            "written": lambda reply: amount(reply.manifest.record_count, "record"),
        },
        members={
            "scope": None if done.scope is None else keys(done.scope),
            "episodes": keys(done.episodes),
            "staging_keys": done.staging_keys,
        },
    )
