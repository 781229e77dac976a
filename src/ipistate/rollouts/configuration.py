"""What the rows of a run depend on, and which rollouts it consists of. Pure."""

from __future__ import annotations

import re

from functools import cached_property
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from ipistate.errors import preview
from ipistate.kernel import (
    JsonArray,
    JsonObject,
    JsonValue,
    encode,
    identical,
    trusted_object,
    unstructure,
)
from ipistate.protocol import EpisodeId


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ipistate.agents import AgentState

RUN_VERSION: Final = 1
_NAME_LENGTH: Final = 10
_ID: Final = re.compile(r"(?P<run>[0-9a-f]+)-(?P<task>\d{1,9})-(?P<repeat>\d{1,9})")


class Place(NamedTuple):
    """A rollout's place in a run: which task row, and which repeat of it, from 0."""

    task: int
    repeat: int


@attrs.frozen(kw_only=True)
class RowChoice:
    """Which rows of a task file a run plays; without a choice all of them."""

    limit: int | None = None
    """The first so many."""
    sample: int | None = None
    """So many at random."""

    def rows(self, total: int, seed: int) -> tuple[int, ...]:
        """Choose among so many rows, in their order; equal seeds choose alike."""
        if self.sample is not None:
            draw = Random(f"ipistate {seed}")  # noqa: S311 - a sample, no secret
            return tuple(sorted(draw.sample(range(total), min(self.sample, total))))
        return tuple(range(total if self.limit is None else min(self.limit, total)))


@attrs.frozen(kw_only=True)
class Configuration:
    """Everything that decides what the rows are."""

    run_version: int = RUN_VERSION
    tasks_sha256: str
    tasks: int
    """How many rows the task file has."""
    num_repeats: int
    max_steps: int
    policy: str
    policy_options: JsonObject
    """All that the policy's replies depend on; no secrets."""
    seed: int
    effects: bool
    limit: int | None = None
    sample: int | None = None

    @cached_property
    def name(self) -> str:
        """A short name for runs of this configuration: the beginning of its digest."""
        return sha256(encode(self.to_document())).hexdigest()[:_NAME_LENGTH]

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The rows that are played."""
        choice = RowChoice(limit=self.limit, sample=self.sample)
        return choice.rows(self.tasks, self.seed)

    @cached_property
    def _played(self) -> frozenset[int]:
        return frozenset(self.rows)

    @property
    def rollouts(self) -> int:
        """How many rollouts a run has."""
        return len(self.rows) * self.num_repeats

    def places(self) -> Iterator[Place]:
        """Visit the place of every rollout, the repeats of a row one after another."""
        for task in self.rows:
            for repeat in range(self.num_repeats):
                yield Place(task, repeat)

    def has(self, place: Place) -> bool:
        """Tell whether a run has a rollout at this place."""
        return place.task in self._played and place.repeat < self.num_repeats

    def rollout_id(self, place: Place) -> str:
        """Name a rollout; the run's name in it keeps the rollouts of two runs apart."""
        return f"{self.name}-{place.task}-{place.repeat}"

    def place(self, rollout_id: str) -> Place | None:
        """Read the name of a rollout; None if it is not one of a run like this."""
        match = _ID.fullmatch(rollout_id)
        if match is None or match["run"] != self.name:
            return None
        return Place(int(match["task"]), int(match["repeat"]))

    def to_document(self) -> JsonObject:
        """Write the configuration as JSON, without what was not chosen."""
        # Runs that choose nothing keep the names that they had before there was a choice.
        members = unstructure(self).items()
        return trusted_object({n: one for n, one in members if one is not None})

    def to_json(self) -> bytes:
        """Write the configuration as its file has it."""
        return encode(self.to_document()) + b"\n"


def differences(old: Configuration, new: Configuration) -> tuple[str, ...]:
    """Say in what two configurations differ, each time what was and what is.

    Of what the policy depends on only the members that differ are told.
    """
    before, after = old.to_document(), new.to_document()
    return tuple(_differences("", before, after))


def _differences(
    path: str, before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]
) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if isinstance(was, JsonObject) and isinstance(now, JsonObject):
            yield from _differences(f"{path}{name}.", was, now)
        elif was is _ABSENT or now is _ABSENT or not identical(was, now):
            yield f"{path}{name} was {_shown(was)}, now {_shown(now)}"


_ABSENT: Final = JsonArray()
"""Stands for a member that is not there; no other value is this one."""


def _shown(value: JsonValue) -> str:
    if value is _ABSENT:
        return "absent"
    return str(value)[:16] if isinstance(value, str) else preview(value)


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
