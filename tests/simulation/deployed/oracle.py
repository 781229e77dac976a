"""What must hold, whatever happens: the history of each line of the world, and its rules.

A restore begins the world anew from a checkpoint; what happened after that checkpoint has
never been. So what was asked and done is kept with each checkpoint, and comes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ipistate.capture import CommittedRow


if TYPE_CHECKING:
    from ipistate.capture import LedgerRow
    from ipistate.protocol import EpisodeId


class DeploymentViolation(AssertionError):
    """A rule was broken."""


def require(holds: object, rule: str) -> None:
    """Complain if something does not hold."""
    if not holds:
        raise DeploymentViolation(rule)


@attrs.frozen
class Outcome:
    """What a rollout comes to."""

    reward: float
    output: tuple[Any, ...]


@attrs.define
class Line:
    """What has happened since the beginning, along one line of the world."""

    held: dict[str, int] = attrs.field(factory=dict)
    """Turns of each rollout whose replies the newest checkpoint has."""
    asked: Counter[tuple[str, int]] = attrs.field(factory=Counter)
    """Turns that were asked for since then."""
    verified: set[str] = attrs.field(factory=set)
    attempts: Counter[str] = attrs.field(factory=Counter)
    """The lowest attempt of each rollout that is not retired."""
    leftovers: set[str] = attrs.field(factory=set)
    """Rollouts that begin again, and whose ledger has calls of what had ended."""
    calls: set[str] = attrs.field(factory=set)
    """The ids of calls whose rows may be in a ledger."""

    def fork(self, held: Mapping[str, int], calls: Iterable[str]) -> Line:
        """Begin anew from a checkpoint that is taken now.

        Args:
            held: Turns of each rollout whose replies it has.
            calls: Those whose rows it has.
        """
        return Line(held=dict(held), verified={*self.verified}, calls={*calls})

    def copy(self) -> Line:
        """Begin anew from that checkpoint."""
        return self.fork(self.held, self.calls)


class Oracle:
    """Keeps account, and complains."""

    def __init__(self, expected: Sequence[Outcome | None]) -> None:
        self._expected = expected
        self.line = Line()
        self.results: dict[str, Outcome] = {}
        self.delivered: set[str] = set()
        """Ids of the responses that agents were sent."""
        self.calls: dict[str, tuple[str, int]] = {}
        """Rollout and turn of each captured call."""
        self.tally: Counter[str] = Counter()

    def asked(self, episode: EpisodeId, turn: int, call: str) -> None:
        """The model is asked for a turn of an episode, and captures it as this call."""
        line, rollout = self.line, episode.rollout_id
        self.tally["calls of the model"] += 1
        self.calls[call] = rollout, turn
        if episode.attempt < line.attempts[rollout]:
            # It was on its way when its attempt was retired.
            self.tally["calls of retired attempts"] += 1
            return
        line.calls.add(call)
        require(
            turn >= line.held.get(rollout, 0),
            f"{rollout}: turn {turn} is asked for, and a checkpoint has its reply",
        )
        line.asked[rollout, turn] += 1
        require(
            line.asked[rollout, turn] == 1,
            f"{rollout}: turn {turn} is asked for twice",
        )
        require(rollout not in line.verified, f"{rollout}: asked after its verdict")

    def verifying(self, rollout: str) -> None:
        """A rollout is to be scored."""
        require(rollout not in self.line.verified, f"{rollout}: scored twice")

    def verified(self, rollout: str) -> None:
        """A rollout has been scored."""
        self.tally["verdicts"] += 1
        self.line.verified.add(rollout)

    def starts_over(self, episode: EpisodeId) -> None:
        """A rollout begins again, as this attempt."""
        rollout = episode.rollout_id
        self.line.attempts[rollout] = episode.attempt
        self.line.held.pop(rollout, None)
        self.line.verified.discard(rollout)
        for name, turn in [*self.line.asked]:
            if name == rollout:
                del self.line.asked[name, turn]

    def finished(self, rollout: str, row: int, found: Outcome) -> None:
        """A rollout has its result."""
        self.tally["results"] += 1
        require(rollout not in self.results, f"{rollout}: two results")
        expected = self._expected[row % len(self._expected)]
        require(
            expected is None or found == expected, f"{rollout}: another result: {found}"
        )
        self.results[rollout] = found

    def lineage(
        self, rollout: str, rows: Sequence[LedgerRow], staged: Mapping[str, object]
    ) -> None:
        """The ledger of a finished rollout's attempt: its turns, one after another."""
        committed = [row for row in rows if isinstance(row, CommittedRow)]
        require(len(committed) == len(rows), f"{rollout}: a call was not captured")
        for row in committed:
            call = row.model_call_id
            require(call in self.line.calls, f"{rollout}: a dead run's call {call}")
            require(self.calls[call][0] == rollout, f"{rollout}: another's call")
        turns = Counter(self.calls[row.model_call_id][1] for row in committed)
        again = [row for row in committed if row.capture_key is None]
        require(
            len({self.calls[row.model_call_id][1] for row in again}) == len(again)
            and turns.keys() == {*range(len(turns))},
            f"{rollout}: its ledger has turns {turns}",
        )
        self._check_chain(rollout, committed)
        require(
            all(key in staged for row in committed for key in row.staging_chain or ()),
            f"{rollout}: a row names tokens that nobody has staged",
        )
        self.tally["lineages"] += 1

    def _check_chain(self, rollout: str, rows: Sequence[CommittedRow]) -> None:
        known = {row.model_call_id: row for row in rows}
        row: CommittedRow | None = rows[-1]
        turns: list[int] = []
        while row is not None:
            turns.append(self.calls[row.model_call_id][1])
            parent = row.parent_call_id
            row = None if parent is None else known[parent]
        require(
            turns == [*range(len(turns))][::-1], f"{rollout}: its calls are no chain"
        )
