"""Which rollouts a run consists of, and which attempt of each is to be made. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.protocol import EpisodeId


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ipistate.agents import AgentState
    from ipistate.kernel import JsonValue
    from ipistate.rollouts.configuration import Configuration, Place


@attrs.frozen(kw_only=True)
class Rollout:
    """One attempt of a rollout."""

    place: Place
    episode: EpisodeId
    state: AgentState | None = None
    """Where it goes on; None if it starts from its seed."""

    def labels(self) -> dict[str, JsonValue]:
        """Return the members that say which attempt of which rollout a row is."""
        return {
            "_ng_task_index": self.place.task,
            "_ng_rollout_index": self.place.repeat,
            "_ng_rollout_id": self.episode.rollout_id,
            "attempt": self.episode.attempt,
        }


def planned(
    configuration: Configuration,
    *,
    done: Collection[Place],
    begun: Mapping[Place, int],
    restored: Mapping[EpisodeId, AgentState],
) -> Iterator[Rollout]:
    """Say what is left to run: first what a checkpoint has, then everything else.

    Args:
        configuration: What the run is made of.
        done: The places that have a row.
        begun: The highest attempt that was made of each place.
        restored: What a server has restored, under the new attempts.
    """
    going_on: set[Place] = set()
    for episode, state in restored.items():
        place = configuration.place(episode.rollout_id)
        if place is not None:
            going_on.add(place)
            yield Rollout(place=place, episode=episode, state=state)
    for place in configuration.places():
        if place not in done and place not in going_on:
            attempt = begun.get(place, -1) + 1
            episode = EpisodeId(configuration.rollout_id(place), attempt)
            yield Rollout(place=place, episode=episode)
