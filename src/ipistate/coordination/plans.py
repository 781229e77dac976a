"""Which servers are asked what, and in which order, without any I/O.

A plan is a generator: it yields rounds, is sent their outcomes, and returns a result or
raises the error of the operation (docs/reference/control-plane.md, sections 5.1, 5.3 and 5.5).
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import attrs

from ipistate.coordination import requests
from ipistate.coordination.failures import (
    Failure,
    MissingEpisodesError,
    OperationFailedError,
    RestoreFailedError,
    changed_nothing,
)
from ipistate.coordination.participants import (
    AT_ONCE,
    PREPARE,
    RESUME,
    RETIRE,
    StageOrder,
    stages,
)
from ipistate.coordination.requests import ControlRequest
from ipistate.coordination.results import (
    Committed,
    Forgotten,
    ParticipantAnswer,
    Prepared,
    Renewed,
    Restored,
    Resumed,
    Retired,
)
from ipistate.protocol import Call


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.coordination.participants import Participant, Stage
    from ipistate.coordination.replies import PrepareReply
    from ipistate.protocol import EpisodeId

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

GRACE_SECONDS: Final = 5.0
"""How long after its deadline a call's reply is waited for.

A participant works until the deadline and then says what it has not done.
"""

STATUS_SECONDS: Final = 60.0
"""How long a status is waited for; it has no deadline."""

CLEAN_UP_SECONDS: Final = 30.0
"""What the clean-up after a failed restore has at least."""


@attrs.frozen
class Broadcast(Generic[R_co]):
    """The same request to all participants of a stage, at the same time."""

    stage: Stage
    request: ControlRequest[R_co]


@attrs.frozen(kw_only=True)
class PlanOutcome(Generic[R_co]):
    """A round after all of its calls have returned."""

    answers: tuple[ParticipantAnswer[R_co], ...] = ()
    failures: tuple[Failure, ...] = ()
    now: float


Plan: TypeAlias = Generator[Broadcast[Any], PlanOutcome[Any], R]


def patience(deadline_ts: float, now: float) -> float:
    """Return the seconds that a call may take, connection tries included."""
    return max(deadline_ts - now, 0.0) + GRACE_SECONDS


def clean_up_deadline(deadline_ts: float, now: float) -> float:
    """Return the deadline for undoing a failed restore."""
    return max(deadline_ts, now + CLEAN_UP_SECONDS)


def continued(
    episodes: Iterable[EpisodeId] | None, restarts: Iterable[EpisodeId]
) -> tuple[EpisodeId, ...] | None:
    """Take the restarts out of what the controller continues; None names everything."""
    if episodes is None:
        return None
    left_out = frozenset(restarts)
    return tuple(one for one in dict.fromkeys(episodes) if one not in left_out)


def next_attempts(episodes: Iterable[EpisodeId]) -> tuple[EpisodeId, ...]:
    """Return the attempts under which a restore installs episodes."""
    return tuple(one.next_attempt for one in dict.fromkeys(episodes))


def _ask(stage: Stage, request: ControlRequest[R]) -> Plan[PlanOutcome[R]]:
    outcome: PlanOutcome[R] = yield Broadcast(stage, request)
    return outcome


def _ask_all(
    stage: Stage, request: ControlRequest[R]
) -> Plan[tuple[ParticipantAnswer[R], ...]]:
    outcome = yield from _ask(stage, request)
    if outcome.failures:
        raise OperationFailedError.of(outcome.failures)
    return outcome.answers


def _through(
    order: StageOrder, participants: Iterable[Participant], request: ControlRequest[R]
) -> Plan[tuple[ParticipantAnswer[R], ...]]:
    """Ask stage after stage, and stop at the first one that fails."""
    answers: tuple[ParticipantAnswer[R], ...] = ()
    for stage in stages(order, participants):
        answers += yield from _ask_all(stage, request)
    return answers


def _throughout(
    order: StageOrder, participants: Iterable[Participant], request: ControlRequest[R]
) -> Plan[PlanOutcome[R]]:
    """Ask every stage, and collect what fails on the way."""
    outcomes: list[PlanOutcome[R]] = []
    for stage in stages(order, participants):
        outcome = yield from _ask(stage, request)
        outcomes += (outcome,)
    return PlanOutcome(
        answers=tuple(chain.from_iterable(one.answers for one in outcomes)),
        failures=tuple(chain.from_iterable(one.failures for one in outcomes)),
        now=outcomes[-1].now,
    )


def prepare(participants: Iterable[Participant], call: Call) -> Plan[Prepared]:
    """Freeze all, and stop at the first stage that is not ready."""
    # What an unready server waits for may need the servers of the stages after it: they
    # stay open, so that another prepare of the same id can find it drained.
    request = requests.prepare(call)
    answers: tuple[ParticipantAnswer[PrepareReply], ...] = ()
    for stage in stages(PREPARE, participants):
        answers += yield from _ask_all(stage, request)
        if not Prepared(answers).ready:
            break
    return Prepared(answers)


def commit(
    participants: Iterable[Participant],
    call: Call,
    directory: str,
    episodes: Iterable[EpisodeId] | None,
    restarts: Iterable[EpisodeId],
) -> Plan[Committed]:
    """Let all write the continued episodes without the restarts."""
    scope = continued(episodes, restarts)
    request = requests.commit(call, directory, scope)
    return Committed((yield from _through(AT_ONCE, participants, request)), scope)


def renew(participants: Iterable[Participant], call: Call) -> Plan[Renewed]:
    """Let all keep the checkpoint open for longer."""
    return Renewed((yield from _through(AT_ONCE, participants, requests.renew(call))))


def resume(participants: Iterable[Participant], call: Call) -> Plan[Resumed]:
    """Reopen all that can be reached; failures are raised at the end."""
    # One that is gone must not keep the others closed.
    request = requests.resume(call)
    whole = yield from _throughout(RESUME, participants, request)
    if whole.failures:
        raise OperationFailedError.of(whole.failures)
    return Resumed(whole.answers)


def retire(
    participants: Iterable[Participant], call: Call, episodes: Iterable[EpisodeId]
) -> Plan[Retired]:
    """Stop and free attempts, callers first; nothing is sent for none."""
    named = tuple(dict.fromkeys(episodes))
    if not named:
        return Retired(())
    request = requests.retire(call, named)
    return Retired((yield from _through(RETIRE, participants, request)))


def forget(
    participants: Iterable[Participant], call: Call, rollout_ids: Iterable[str]
) -> Plan[Forgotten]:
    """End refusals; nothing is sent for none."""
    named = frozenset(rollout_ids)
    if not named:
        return Forgotten(())
    request = requests.forget(call, named)
    return Forgotten((yield from _through(RETIRE, participants, request)))


def restore(
    participants: Iterable[Participant],
    call: Call,
    directory: str,
    episodes: Iterable[EpisodeId],
    *,
    allow_missing: bool,
) -> Plan[Restored]:
    """Install the episodes everywhere; if one participant fails, nowhere."""
    members, scope = tuple(participants), tuple(dict.fromkeys(episodes))
    request = requests.restore(call, directory, scope)
    outcome = yield from _throughout(AT_ONCE, members, request)
    installed, restored = next_attempts(scope), Restored(outcome.answers)
    if outcome.failures:
        # An undo would retire what an earlier restore of the same id has installed.
        undone: tuple[Failure, ...] = ()
        if outcome.answers or not all(map(changed_nothing, outcome.failures)):
            undone = yield from _undo(members, call, installed, outcome.now)
        raise RestoreFailedError.after(outcome.failures, undone)
    missing = restored.missing(scope)
    if missing and not allow_missing:
        undone = yield from _take_back(members, call, installed, outcome.now)
        raise MissingEpisodesError.of_episodes(missing, undone)
    return restored


def _take_back(
    participants: tuple[Participant, ...],
    call: Call,
    installed: tuple[EpisodeId, ...],
    now: float,
) -> Plan[tuple[Failure, ...]]:
    # Everybody has answered and admission has been closed all the time, so that nothing
    # of these attempts can come late: they need not stay refused.
    freeing = requests.retire(_later(call, now), installed)
    retired = yield from _throughout(RETIRE, participants, freeing)
    rollouts = {one.rollout_id for one in installed}
    forgetting = requests.forget(_later(call, retired.now), rollouts)
    forgotten = yield from _throughout(RETIRE, participants, forgetting)
    reopening = requests.resume(_later(call, forgotten.now))
    resumed = yield from _throughout(RESUME, participants, reopening)
    return retired.failures + forgotten.failures + resumed.failures


def _undo(
    participants: tuple[Participant, ...],
    call: Call,
    installed: tuple[EpisodeId, ...],
    now: float,
) -> Plan[tuple[Failure, ...]]:
    # A participant that is gone must not keep the others from freeing what they have
    # installed, so every stage is asked, of the retire as well. The retire comes first:
    # its refusals hold before admission opens, so that no request of a half-installed
    # attempt is let in. Each has a deadline of its own, since the restore may have failed
    # by passing the first one.
    failures: tuple[Failure, ...] = ()
    if installed:
        freeing = requests.retire(_later(call, now), installed)
        retired = yield from _throughout(RETIRE, participants, freeing)
        failures, now = retired.failures, retired.now
    reopening = requests.resume(_later(call, now))
    resumed = yield from _throughout(RESUME, participants, reopening)
    return failures + resumed.failures


def _later(call: Call, now: float) -> Call:
    return attrs.evolve(call, deadline_ts=clean_up_deadline(call.deadline_ts, now))
