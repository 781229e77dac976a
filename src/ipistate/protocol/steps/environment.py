"""The episodes of an environment server: who may start, and what a checkpoint records.

See docs/reference/control-plane.md, section 6. The steps of live episodes are the
engine's; here are the restored records that nothing has used yet, and their tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast

import attrs

from ipistate.protocol.actions import STATUS_OF
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.steps.actions import EpisodeAction, RefuseEpisode
from ipistate.protocol.steps.engine import EpisodeSteps, handle
from ipistate.protocol.steps.episode_records import EnvironmentRecord
from ipistate.protocol.steps.events import (
    EpisodeArrived,
    EpisodeEvent,
    EpisodeRetired,
    StepsClosed,
    StepsOpened,
)


B = TypeVar("B")

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class EpisodeOrigin:
    """What an episode was asked for with."""

    episode_id: EpisodeId
    task_digest: str


@attrs.frozen(kw_only=True)
class EnvironmentEpisodes(Generic[B]):
    """The live episodes, and the restored ones that have not started."""

    steps: EpisodeSteps = attrs.Factory(EpisodeSteps)
    restored: Mapping[str, EnvironmentRecord[B]] = _NONE
    """By capture key, each under the attempt that continues it."""
    is_resumed: bool = True
    """Since the last restore, if there was one."""

    def arrive(
        self,
        origin: EpisodeOrigin,
        now: float,
        *,
        is_retired: bool = False,
        is_restart: bool = False,
        budget: float | None = None,
    ) -> tuple[EnvironmentEpisodes[B], tuple[EpisodeAction, ...]]:
        """Start an episode, from its restored record if it has one, or refuse it.

        Args:
            origin: The episode and its task.
            now: Seconds since the epoch.
            is_retired: The attempt has been retired.
            is_restart: Its protocol records no boundaries.
            budget: Its time in seconds, None for no limit.
        """
        key = origin.episode_id.capture_key
        problem = self._objection(origin, is_retired=is_retired)
        if problem is not None:
            code, detail = problem
            return self, (RefuseEpisode(key, STATUS_OF[code], code, detail),)
        record = self.restored.get(key)
        after = self if record is None else self.removed((key,))
        arrived = EpisodeArrived(
            key=key,
            boundary=None if record is None else record.boundary,
            is_restart=is_restart,
            budget=budget,
            origin=origin,
        )
        return after.take(arrived, now)

    def _objection(
        self, origin: EpisodeOrigin, *, is_retired: bool
    ) -> tuple[str, str] | None:
        # The order counts: a caller tells from the code whether to send it again.
        key = origin.episode_id.capture_key
        record = self.restored.get(key)
        if is_retired:
            return "stale_attempt", "this attempt has been retired"
        if not self.steps.is_open and (record is None or not self.is_resumed):
            return "admission_closed", "a checkpoint is open; send it again after it"
        if record is not None and record.task_digest != origin.task_digest:
            return "checkpoint_error", f"{key} was begun with another task"
        if key in self.steps.live:
            return "checkpoint_error", f"{key} is running already"
        return None

    def take(
        self, event: EpisodeEvent, now: float
    ) -> tuple[EnvironmentEpisodes[B], tuple[EpisodeAction, ...]]:
        """Hand an event to the steps engine."""
        steps, actions = handle(self.steps, event, now)
        return attrs.evolve(self, steps=steps), actions

    def close(
        self, now: float
    ) -> tuple[EnvironmentEpisodes[B], tuple[EpisodeAction, ...]]:
        """Let episodes park at their boundaries, and admit no new ones."""
        return self.take(StepsClosed(), now)

    def open(
        self, now: float
    ) -> tuple[EnvironmentEpisodes[B], tuple[EpisodeAction, ...]]:
        """Let everything go on; restored episodes may start."""
        return attrs.evolve(self, is_resumed=True).take(StepsOpened(), now)

    # Checkpoints

    def records(
        self, scope: Collection[str] | None
    ) -> tuple[EnvironmentRecord[B], ...]:
        """Return what a checkpoint of these capture keys records; None for all.

        The scope only leaves out restored episodes that nothing has used.
        """
        exported = [
            self._record(key, boundary)
            for key, boundary in self.steps.exported().items()
        ]
        unwanted = {*self.unwanted(scope)}
        kept = [one for key, one in self.restored.items() if key not in unwanted]
        return (*exported, *kept)

    def _record(self, key: str, boundary: object) -> EnvironmentRecord[B]:
        origin = cast("EpisodeOrigin", self.steps.live[key].origin)
        return EnvironmentRecord(
            episode_id=origin.episode_id,
            task_digest=origin.task_digest,
            boundary=cast("B | None", boundary),
        )

    def unwanted(self, scope: Collection[str] | None) -> tuple[str, ...]:
        """Name the restored episodes that a scope gives up."""
        if scope is None:
            return ()
        return tuple(key for key in self.restored if key not in scope)

    def removed(self, keys: Collection[str]) -> EnvironmentEpisodes[B]:
        """Go on without these restored episodes."""
        kept = {key: one for key, one in self.restored.items() if key not in keys}
        return attrs.evolve(self, restored=kept)

    def objection(self) -> str | None:
        """Say why nothing can be installed here."""
        if self.steps.live or self.restored:
            return "there are live or restored episodes"
        return None

    def install(
        self, records: Iterable[EnvironmentRecord[B]], now: float
    ) -> EnvironmentEpisodes[B]:
        """Close, and keep records for their next attempts."""
        continued = [
            attrs.evolve(record, episode_id=record.episode_id.next_attempt)
            for record in records
        ]
        closed, _ = self.close(now)
        restored = {record.episode_id.capture_key: record for record in continued}
        return attrs.evolve(closed, restored=restored, is_resumed=False)

    # Retire

    def retire(
        self, covers: Callable[[EpisodeId], bool], now: float
    ) -> tuple[EnvironmentEpisodes[B], tuple[EpisodeAction, ...]]:
        """Stop the live episodes that a retire covers, and drop the restored ones."""
        after, actions = self, list[EpisodeAction]()
        for key in self._covered(covers):
            after, more = after.take(EpisodeRetired(key), now)
            actions += more
        late = [k for k, one in self.restored.items() if covers(one.episode_id)]
        return (after.removed(late) if late else after), tuple(actions)

    def is_retiring(self, covers: Callable[[EpisodeId], bool]) -> bool:
        """Tell whether an episode that a retire covers is not gone yet."""
        return self.steps.is_retiring(self._covered(covers))

    def _covered(self, covers: Callable[[EpisodeId], bool]) -> list[str]:
        return sorted(
            key
            for key, entry in self.steps.live.items()
            if covers(cast("EpisodeOrigin", entry.origin).episode_id)
        )
