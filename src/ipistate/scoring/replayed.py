"""Stored rollouts, executed again and compared with what was recorded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import attrs

from ipistate.errors import IpiStateError
from ipistate.kernel import (
    Environment,
    JsonObject,
    diff,
    freeze,
    trusted_array,
    trusted_object,
)
from ipistate.scoring.renaming import Renaming
from ipistate.scoring.retrace import Executed, Refusal, Retrace, retrace
from ipistate.scoring.stored_rollouts import read_rollout
from ipistate.scoring.stored_traces import trace_of
from ipistate.tools import TOOLS, Tool


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ipistate.kernel import Diff
    from ipistate.scoring.divergence import Divergence
    from ipistate.scoring.stored_rollouts import TaskIndex

ReplayStatus = Literal["same", "different", "no world", "refused"]

_NO_TRACE: Final = (
    "it has no trace: none of response.output, messages and response.choices is a list"
)
_NOTHING: Final = Retrace(steps=(), diverged=False, renaming=Renaming())


class RefusedCall(NamedTuple):
    """A call that is not executed: its arguments are no object, or it was cut off."""

    call: int
    tool: str
    code: str
    reason: str


class CallChanges(NamedTuple):
    """What one call did to the world."""

    call: int
    tool: str
    diff: Diff

    def to_document(self) -> JsonObject:
        """Write the changes as JSON Patch, and counted by collection."""
        counts = {
            str(name): attrs.asdict(one) for name, one in self.diff.counts().items()
        }
        # A patch may nest as deep as a world, so it is not frozen again.
        return trusted_object(
            {
                "call": self.call,
                "tool": self.tool,
                "patch": self.diff.to_patch(),
                "counts": freeze(counts),
            }
        )


@attrs.frozen(kw_only=True)
class Replayed:
    """The result of one line."""

    line: int
    status: ReplayStatus
    reason: str | None = None
    """Why nothing was executed, if so."""
    again: Retrace = _NOTHING

    @property
    def calls(self) -> int:
        """Calls before the first one whose reply differs."""
        return len(self.again.steps) - self.again.diverged

    @property
    def equal(self) -> int:
        """Calls among them whose reply was recorded, and is the same."""
        executed = [one for one in self.again.steps if isinstance(one, Executed)]
        recorded = sum(one.traced.reply is not None for one in executed)
        return recorded - self.again.diverged

    @property
    def renamed(self) -> int:
        """Ids that the recording minted otherwise."""
        return len(self.again.renaming.differing)

    @property
    def tool(self) -> str:
        """The tool of the last call that was executed."""
        return self.again.steps[-1].traced.name

    @property
    def divergence(self) -> Divergence | None:
        """The first difference."""
        return self.again.divergence

    def refused(self) -> Iterator[RefusedCall]:
        """Visit the calls that were not executed."""
        for number, step in enumerate(self.again.steps):
            if isinstance(step, Refusal):
                name, error = step.traced.name, step.error
                yield RefusedCall(
                    call=number, tool=name, code=error.code, reason=str(error)
                )

    def changes(self) -> Iterator[CallChanges]:
        """Compare the worlds around each call that was executed."""
        for number, step in enumerate(self.again.steps):
            if isinstance(step, Executed):
                found = diff(step.before, step.transition.environment)
                yield CallChanges(call=number, tool=step.traced.name, diff=found)

    def to_document(self) -> JsonObject:
        """Write the result as JSON."""
        found = self.divergence
        differs = found and {"call": self.calls, "tool": self.tool} | attrs.asdict(
            found
        )
        document = {
            "line": self.line,
            "status": self.status,
            "calls": self.calls,
            "equal": self.equal,
            "renamed": self.renamed,
            "refused": [one._asdict() for one in self.refused()],
            "reason": self.reason,
            "divergence": differs,
        }
        return JsonObject(document)

    def to_document_with_changes(self) -> JsonObject:
        """Write the result as JSON, with what every call changed."""
        changes = trusted_array([one.to_document() for one in self.changes()])
        return trusted_object({**self.to_document(), "changes": changes})


class ReplayTotals:
    """Counts over all lines of a file."""

    def __init__(self) -> None:
        """Begin with none."""
        self.statuses: Counter[str] = Counter()
        self.equal: int = 0
        self.renamed: int = 0
        self.refused: int = 0

    def counting(self, rows: Iterable[Replayed]) -> Iterator[Replayed]:
        """Count each line on its way."""
        for one in rows:
            self.statuses[one.status] += 1
            self.equal += one.equal
            self.renamed += one.renamed
            self.refused += sum(1 for _ in one.refused())
            yield one


def replay_rollout(
    line: int, text: bytes, tasks: TaskIndex, *, tools: Mapping[str, Tool] = TOOLS
) -> Replayed:
    """Execute one line's calls again, as far as its world is known."""
    try:
        row = read_rollout(text)
    except IpiStateError as error:
        return Replayed(line=line, status="refused", reason=str(error))
    trace = trace_of(row, tools=tools)
    if trace is None or trace.loss is not None:
        reason = _NO_TRACE if trace is None else str(trace.loss)
        return Replayed(line=line, status="refused", reason=reason)
    world = _world(row, tasks)
    if isinstance(world, str):
        return Replayed(line=line, status="no world", reason=world)
    again = retrace(world, trace.calls, tools=tools)
    status: ReplayStatus = "different" if again.diverged else "same"
    return Replayed(line=line, status=status, again=again)


def _world(row: JsonObject, tasks: TaskIndex) -> Environment | str:
    own = row.get("environment")
    if isinstance(own, JsonObject):
        return Environment(own)
    task = tasks.find(row)
    if isinstance(task, str):
        return f"it carries no environment, and {task}"
    return task.environment
