"""The controller's calls: every participant, in the protocol's orders."""

from __future__ import annotations

import asyncio
import time

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ipistate.coordination import (
    STATUS_SECONDS,
    Broadcast,
    Failure,
    OperationFailedError,
    ParticipantAnswer,
    Plan,
    PlanOutcome,
    Statuses,
    StatusReply,
    ordered,
    patience,
    plans,
)
from ipistate.protocol import Call


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import PurePath

    from ipistate.clients.control_client import ControlClient
    from ipistate.coordination import (
        Committed,
        Forgotten,
        Participant,
        Prepared,
        Renewed,
        Restored,
        Resumed,
        Retired,
    )
    from ipistate.protocol import EpisodeId

R = TypeVar("R")


class CoordinationWatcher(Protocol):
    """Receives the progress of an operation."""

    def asked(self, operation: str, participants: tuple[Participant, ...]) -> None:
        """A stage begins."""
        ...

    def heard(self, said: ParticipantAnswer[Any] | Failure) -> None:
        """One of its calls has returned."""
        ...


class _NoWatcher:
    def asked(self, operation: str, participants: tuple[Participant, ...]) -> None:
        pass

    def heard(self, said: ParticipantAnswer[Any] | Failure) -> None:
        pass


class Coordinator:
    """Drives the participants of a deployment; keeps no state of its own.

    Every method may be called again with the same id. ``deadline_ts`` is an absolute
    time in seconds since the epoch; a call waits for its reply until 5 seconds later.
    Calls of a stage are made at the same time and have all returned before a failure
    is raised. A method that is cancelled has no effect beyond the calls it has made;
    ``resume`` ends what they have begun.

    Args:
        participants: From ``discover``.
        client: Makes the calls.
        watch: Is told of each stage and each reply.
        clock: Gives the time in seconds since the epoch.

    Raises:
        ValueError: There is no participant.
    """

    def __init__(
        self,
        participants: Iterable[Participant],
        client: ControlClient,
        *,
        watch: CoordinationWatcher | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.participants: Final[tuple[Participant, ...]] = ordered(participants)
        if not self.participants:
            raise ValueError("there is no participant to coordinate")
        self._client = client
        self._watch = watch or _NoWatcher()
        self._clock = clock

    async def status(self) -> Statuses:
        """Ask all for their status.

        Raises:
            OperationFailedError: A participant did not give it.
        """
        done = await self._ask(
            "status",
            self.participants,
            lambda one: self._client.status(one, StatusReply, STATUS_SECONDS),
        )
        if done.failures:
            raise OperationFailedError.of(done.failures)
        return Statuses(done.answers)

    async def prepare(self, checkpoint_id: str, deadline_ts: float) -> Prepared:
        """Freeze all: environments, models, agents, resources.

        It stops at the first stage in which one is not prepared at the deadline;
        ``Prepared.ready`` tells. Then either call it again with a later deadline, or
        ``resume`` and retire the blockers.

        Raises:
            OperationFailedError: A call failed; ``resume`` ends the attempt.
            ValueError: The id or the deadline is not allowed.
        """
        call = Call(checkpoint_id=checkpoint_id, deadline_ts=deadline_ts)
        return await self._carry_out(plans.prepare(self.participants, call))

    async def commit(
        self,
        checkpoint_id: str,
        deadline_ts: float,
        directory: str | PurePath,
        episodes: Iterable[EpisodeId] | None,
        restarts: Iterable[EpisodeId] = (),
    ) -> Committed:
        """Let all write the episodes that the controller continues.

        Args:
            checkpoint_id: As it was prepared.
            deadline_ts: Until when the files have to be written.
            directory: A path that means the same to every participant.
            episodes: Every episode in flight, and every restored one that has not been
                started again. Restored state of others is deleted. None means all
                state and deletes nothing; models refuse it.
            restarts: ``Prepared.restarts``; they are taken out of the episodes.

        Raises:
            OperationFailedError: A call failed; nothing may be published.
            ValueError: The id or the deadline is not allowed.
        """
        call = Call(checkpoint_id=checkpoint_id, deadline_ts=deadline_ts)
        plan = plans.commit(self.participants, call, str(directory), episodes, restarts)
        return await self._carry_out(plan)

    async def renew(self, checkpoint_id: str, deadline_ts: float) -> Renewed:
        """Keep a checkpoint open for longer, while it is being published.

        Raises:
            OperationFailedError: A call failed.
            ValueError: The id or the deadline is not allowed.
        """
        call = Call(checkpoint_id=checkpoint_id, deadline_ts=deadline_ts)
        return await self._carry_out(plans.renew(self.participants, call))

    async def resume(self, checkpoint_id: str, deadline_ts: float) -> Resumed:
        """Reopen all, callees first; also how a checkpoint is given up.

        Every participant is asked, even if others fail.

        Raises:
            OperationFailedError: Calls failed; those participants may be closed still.
            ValueError: The id or the deadline is not allowed.
        """
        call = Call(checkpoint_id=checkpoint_id, deadline_ts=deadline_ts)
        return await self._carry_out(plans.resume(self.participants, call))

    async def restore(
        self,
        checkpoint_id: str,
        deadline_ts: float,
        directory: str | PurePath,
        episodes: Iterable[EpisodeId],
        *,
        allow_missing: bool = False,
    ) -> Restored:
        """Install a checkpoint in fresh processes, everywhere or nowhere.

        Each episode goes on as its next attempt, after ``resume``. If a call fails, the
        next attempts of all the episodes are retired everywhere and all participants
        resumed; the episodes then have to start over as the attempt after that. If all
        participants refuse, nothing was changed, and nothing is undone.

        Args:
            checkpoint_id: A fresh id, not the one in the directory.
            deadline_ts: Until when everything has to be installed.
            directory: A path that means the same to every participant.
            episodes: The attempts that were checkpointed.
            allow_missing: Go on without episodes that no participant has a record of,
                as those that had not seeded a session; ``Restored.missing`` names them.

        Raises:
            MissingEpisodesError: No participant has a record of some episode. Everything
                was freed again, and another restore may follow under another id.
            RestoreFailedError: A call failed. Its ``clean_up`` has what failed in
                undoing the restore.
            ValueError: The id or the deadline is not allowed.
        """
        call = Call(checkpoint_id=checkpoint_id, deadline_ts=deadline_ts)
        plan = plans.restore(
            self.participants,
            call,
            str(directory),
            episodes,
            allow_missing=allow_missing,
        )
        return await self._carry_out(plan)

    async def retire(
        self, checkpoint_id: str, deadline_ts: float, episodes: Iterable[EpisodeId]
    ) -> Retired:
        """Stop attempts and all earlier ones, and free their state, callers first.

        Not while a checkpoint is open. Without episodes nothing is sent.

        Raises:
            OperationFailedError: A call failed; later stages were not asked. Call it
                again: what is refused stays refused.
            ValueError: The id or the deadline is not allowed.
        """
        call = Call(checkpoint_id=checkpoint_id, deadline_ts=deadline_ts)
        return await self._carry_out(plans.retire(self.participants, call, episodes))

    async def forget(
        self, checkpoint_id: str, deadline_ts: float, rollout_ids: Iterable[str]
    ) -> Forgotten:
        """End the refusals that ``retire`` has left, once nothing can still run.

        Without rollouts nothing is sent.

        Raises:
            OperationFailedError: A call failed; later stages were not asked.
            ValueError: The id or the deadline is not allowed.
        """
        call = Call(checkpoint_id=checkpoint_id, deadline_ts=deadline_ts)
        return await self._carry_out(plans.forget(self.participants, call, rollout_ids))

    async def _carry_out(self, plan: Plan[R]) -> R:
        try:
            asked = next(plan)
            while True:
                asked = plan.send(await self._perform(asked))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    async def _perform(self, asked: Broadcast[R]) -> PlanOutcome[R]:
        request = asked.request
        return await self._ask(
            request.operation,
            asked.stage,
            lambda one: self._client.operate(
                one,
                request.operation,
                request.body,
                request.reply,
                patience(request.deadline_ts, self._clock()),
            ),
        )

    async def _ask(
        self,
        operation: str,
        stage: tuple[Participant, ...],
        call: Callable[[Participant], Awaitable[R | Failure]],
    ) -> PlanOutcome[R]:
        self._watch.asked(operation, stage)

        async def heard(participant: Participant) -> ParticipantAnswer[R] | Failure:
            reply = await call(participant)
            said = (
                reply
                if isinstance(reply, Failure)
                else ParticipantAnswer(participant, reply)
            )
            self._watch.heard(said)
            return said

        said = await asyncio.gather(*map(heard, stage))
        return PlanOutcome(
            answers=tuple(one for one in said if isinstance(one, ParticipantAnswer)),
            failures=tuple(one for one in said if isinstance(one, Failure)),
            now=self._clock(),
        )
