"""Who may start in an environment server, in which order that is decided, and records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.steps import actions as do
from ipistate.protocol.steps import events as on
from ipistate.protocol.steps.environment import EnvironmentEpisodes, EpisodeOrigin
from ipistate.protocol.steps.episode_records import EnvironmentRecord


Episodes: TypeAlias = EnvironmentEpisodes[str]
TASK, OTHER = "a" * 64, "b" * 64


def record(
    key: str, boundary: str | None = "verify", digest: str = TASK
) -> EnvironmentRecord[str]:
    """Make the record of an episode."""
    episode = EpisodeId.from_capture_key(key)
    return EnvironmentRecord(episode_id=episode, task_digest=digest, boundary=boundary)


def started(
    episodes: Episodes, key: str, digest: str = TASK, **options: bool
) -> tuple[Episodes, str]:
    """Let an episode arrive; what comes of it is a code, ``proceeds`` or ``waits``."""
    origin = EpisodeOrigin(
        episode_id=EpisodeId.from_capture_key(key), task_digest=digest
    )
    after, actions = episodes.arrive(origin, 0.0, **options)
    for action in actions:
        if isinstance(action, do.RefuseEpisode):
            assert (after, action.status) == (episodes, 409)
            return after, action.code
    return after, "proceeds" if do.Proceed(key) in actions else "waits"


def restored(*records: EnvironmentRecord[str]) -> Episodes:
    """Return a fresh server in which records are installed."""
    return Episodes().install(records, 0.0)


def closed(episodes: Episodes) -> Episodes:
    """Open a checkpoint."""
    return episodes.close(0.0)[0]


def opened(episodes: Episodes) -> Episodes:
    """Resume."""
    return episodes.open(0.0)[0]


def reached(episodes: Episodes, key: str, boundary: str) -> Episodes:
    """Let an episode reach a boundary."""
    return episodes.take(on.BoundaryReached(key, boundary), 0.0)[0]


def test_an_episode_starts_from_its_input() -> None:
    """If nothing was restored for it."""
    after, outcome = started(Episodes(), "r")

    assert (outcome, after.steps.live["r"].boundary) == ("proceeds", None)


def test_a_retired_attempt_is_refused_first() -> None:
    """Whatever else is wrong with it, sending it again does not help."""
    _, outcome = started(restored(record("r")), "r-a1", OTHER, is_retired=True)

    assert outcome == "stale_attempt"


def test_a_new_episode_waits_for_the_end_of_a_checkpoint() -> None:
    """Its caller sends it again."""
    running, _ = started(Episodes(), "r")
    _, outcome = started(closed(running), "r")

    assert outcome == "admission_closed"


def test_a_restored_episode_waits_for_the_resume_after_the_restore() -> None:
    """Its record alone does not let it in."""
    _, outcome = started(restored(record("r")), "r-a1", OTHER)

    assert outcome == "admission_closed"


def test_only_exactly_the_restored_attempt_may_start_while_closed() -> None:
    """Another attempt of the rollout is a new episode."""
    again = closed(opened(restored(record("r"))))

    assert started(again, "r")[1] == "admission_closed"
    assert started(again, "r-a2")[1] == "admission_closed"
    assert started(again, "r-a1")[1] == "waits"


def test_a_foreign_task_is_refused() -> None:
    """The record stays for the right one."""
    episodes = opened(restored(record("r")))

    assert started(episodes, "r-a1", OTHER)[1] == "checkpoint_error"
    after, outcome = started(episodes, "r-a1")
    assert (outcome, after.steps.live["r-a1"].boundary) == ("proceeds", "verify")


def test_an_attempt_runs_once() -> None:
    """The second request does not disturb the first."""
    running, _ = started(Episodes(), "r")

    assert started(running, "r")[1] == "checkpoint_error"


def test_a_record_is_used_once() -> None:
    """What ended is not continued a second time."""
    running, _ = started(opened(restored(record("r"))), "r-a1")
    ended, _ = running.take(on.EpisodeEnded("r-a1"), 0.0)
    again, _ = started(ended, "r-a1")

    assert again.restored == {}
    assert again.steps.live["r-a1"].boundary is None


def test_a_record_without_a_boundary_starts_over() -> None:
    """From the input, under the next attempt."""
    after, outcome = started(opened(restored(record("r", None))), "r-a1")

    assert (outcome, after.steps.live["r-a1"].boundary) == ("proceeds", None)


def test_parked_episodes_are_recorded_with_their_tasks() -> None:
    """Those that run are waited for, restarts are left out."""
    episodes = Episodes()
    for key in ("b", "a", "c-a2", "d"):
        episodes, _ = started(episodes, key, is_restart=key == "d")
    episodes = closed(episodes)
    for key in ("a", "c-a2", "d"):
        episodes = reached(episodes, key, f"at {key}")

    expected = (record("a", "at a"), record("c-a2", "at c-a2"))
    assert expected == episodes.records(frozenset({"a"}))
    assert episodes.steps.blockers() == ("b",)
    assert episodes.steps.restarts() == ("d",)


def test_a_second_checkpoint_before_the_replacements_start() -> None:
    """What was restored is recorded again under its new attempt, if it is wanted."""
    episodes = closed(opened(restored(record("r"), record("q", None))))
    again = (record("r-a1"), record("q-a1", None))

    assert again == episodes.records(None)
    assert again[:1] == episodes.records({"r-a1", "r"})
    assert episodes.unwanted({"r-a1"}) == ("q-a1",)
    assert episodes.unwanted(None) == ()
    assert [*episodes.removed(["q-a1"]).restored] == ["r-a1"]


def test_a_replacement_that_starts_while_prepared_changes_no_record() -> None:
    """Its record was pending, then it is parked where it continues."""
    prepared = closed(opened(restored(record("r"))))
    after, outcome = started(prepared, "r-a1")

    assert (outcome, after.steps.is_ready) == ("waits", True)
    assert prepared.records(None) == after.records(None)


def test_nothing_is_installed_over_episodes() -> None:
    """Neither over live ones nor over restored ones."""
    running, _ = started(Episodes(), "r")

    assert Episodes().objection() is None
    assert running.objection() == restored(record("r")).objection()
    assert running.objection() is not None


def covering(*keys: str) -> Callable[[EpisodeId], bool]:
    """Return the rule of a retire: these attempts and all earlier ones."""
    named = [EpisodeId.from_capture_key(key) for key in keys]
    return lambda episode: any(
        one.rollout_id == episode.rollout_id and episode.attempt <= one.attempt
        for one in named
    )


def test_a_retire_stops_what_it_covers() -> None:
    """Live episodes are cancelled and awaited, restored ones are dropped."""
    episodes = opened(restored(record("p"), record("q")))
    for key in ("r", "s", "r-a2"):
        episodes, _ = started(episodes, key)
    after, actions = episodes.retire(covering("r-a1", "p-a1", "s"), 0.0)

    assert [one for one in actions if isinstance(one, do.Cancel)] == [
        do.Cancel("r"),
        do.Cancel("s"),
    ]
    assert [*after.restored] == ["q-a1"]
    assert after.is_retiring(covering("r"))
    assert not after.is_retiring(covering("q"))
    for key in ("r", "s"):
        after, _ = after.take(on.EpisodeEnded(key), 0.0)
    assert not after.is_retiring(covering("r", "s"))
    assert "r-a2" in after.steps.live
