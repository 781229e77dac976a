"""Which rollouts a run consists of, and which attempt of each is to be made. Pure."""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from ipistate.protocol import EpisodeId


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


class Place(NamedTuple):
    """A rollout's place in a run: which task row, and which repeat of it, from 0."""

    task: int
    repeat: int


@attrs.frozen
class Names:
    """The names that a run gives to its rollouts, so that no two runs share one."""

    run: str
    """The beginning of the configuration's digest."""

    def rollout_id(self, place: Place) -> str:
        """Name a rollout."""
        return f"{self.run}-{place.task}-{place.repeat}"

    def place(self, rollout_id: str) -> Place | None:
        """Read a name; None if it is no rollout of this run."""
        match = _ID.fullmatch(rollout_id)
        if match is None or match["run"] != self.run:
            return None
        return Place(int(match["task"]), int(match["repeat"]))


_ID: Final = re.compile(r"(?P<run>[0-9a-f]+)-(?P<task>\d{1,9})-(?P<repeat>\d{1,9})")


@attrs.frozen(kw_only=True)
class Rollout:
    """One attempt of a rollout."""

    place: Place
    episode: EpisodeId
    continues: bool = False
    """It goes on from a checkpoint, instead of from its seed."""


def all_places(tasks: int, repeats: int) -> Iterator[Place]:
    """Visit every place, the repeats of a row one after another."""
    for task in range(tasks):
        for repeat in range(repeats):
            yield Place(task, repeat)


def planned(
    places: Iterable[Place],
    names: Names,
    *,
    done: Collection[Place],
    begun: Mapping[Place, int],
    restored: Mapping[Place, EpisodeId],
) -> Iterator[Rollout]:
    """Say what is left to run: first what a checkpoint has, then everything else.

    Args:
        places: Every place of the run.
        names: Names the rollouts.
        done: The places that have a row.
        begun: The highest attempt that was made of each place.
        restored: The episodes that a server has restored, under their new attempts.
    """
    for place, episode in restored.items():
        yield Rollout(place=place, episode=episode, continues=True)
    for place in places:
        if place not in done and place not in restored:
            attempt = begun.get(place, -1) + 1
            yield Rollout(
                place=place, episode=EpisodeId(names.rollout_id(place), attempt)
            )
