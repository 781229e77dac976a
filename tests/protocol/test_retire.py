"""Retire and forget: marks, retired sessions, what is freed when (2.12, 3.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from documents import at

from ipistate.protocol import actions as do
from ipistate.protocol import events as on


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


def blockers(shell: Shell) -> list[str]:
    """Return the blockers that the status shows."""
    return [*at(shell.status(), "report", "blockers")]


def refused(shell: Shell, *arguments: str) -> bool:
    """Tell whether a request is refused as stale."""
    number = shell.arrive(*arguments)
    if number in shell.admitted:
        shell.end(number)
        return False
    return "stale_attempt" == shell.refused[number].code


def test_a_retire_frees_the_sessions_of_the_attempt_and_earlier_ones(
    shell: Shell,
) -> None:
    """The reply names the episodes in the order of the request."""
    for session, episode in (("a", "r1"), ("b", "r1-a2"), ("c", "r1-a3"), ("d", "r2")):
        shell.seed(session, episode)

    call = shell.retire("r2", "r1-a2", "unknown", "r2")

    assert {"retired": ["r2", "r1-a2", "unknown", "r2"]} == shell.document(call)
    assert {"c": "seeded"} == shell.worlds
    assert {"inflight": 0, "sessions": 1} == at(shell.status(), "report", "counts")
    assert (3, 3) == (
        shell.status()["retired_rollouts"],
        shell.status()["retired_sessions"],
    )


def test_what_is_idle_is_freed_at_once_and_together(shell: Shell) -> None:
    """One busy session does not keep the worlds of the others."""
    for name in ("a", "b", "c"):
        shell.seed(name, "r1")
    running = shell.arrive("/tool", "b")

    call = shell.retire("r1")

    assert {"b": "seeded"} == shell.worlds
    assert (["r1"], {call}) == (blockers(shell), set(shell.calls))
    shell.end(running)
    assert ({}, [("a", "c"), ("b",)]) == (
        shell.worlds,
        [action.keys for action in shell.log if isinstance(action, do.Free)],
    )
    assert 200 == shell.reply(call)[0]


def test_a_retired_session_is_refused_by_its_id_and_by_its_prefix(shell: Shell) -> None:
    """From the first moment, and until it is forgotten; a close always passes."""
    shell.seed("s", "r1-a1")
    running = shell.arrive("/tool", "s")
    shell.retire("r1-a1", deadline=5)

    for _ in range(2):
        assert refused(shell, "/tool", "s")
        assert refused(shell, "/seed_session", "s", "r1-a2")
        assert refused(shell, "/seed_session", "new", "r1")
        assert refused(shell, "/verify", "other", "r1-a1")
        assert not refused(shell, "/seed_session", "t", "r1-a2")
        assert not refused(shell, "/tool", "u")
        shell.end(running) if running in shell.admitted else None
    assert not refused(shell, "/close_session", "s", "r1-a1")
    shell.forget("r1")
    assert not refused(shell, "/tool", "s", "r1-a1")


def test_marks_only_grow(shell: Shell) -> None:
    """An earlier attempt that is retired later changes nothing."""
    shell.retire("r1-a2")
    shell.retire("r1")

    assert refused(shell, "/tool", "s", "r1-a2")
    assert not refused(shell, "/tool", "s", "r1-a3")
    assert 1 == shell.status()["retired_rollouts"]


def test_a_retire_waits_for_seeds_in_progress(shell: Shell) -> None:
    """Their session is bound when they end, and freed like the others."""
    seed = shell.arrive("/seed_session", "s", "r1")
    other = shell.arrive("/seed_session", "t", "r1-a1")
    call = shell.retire("r1")
    assert call not in shell.replies
    shell.worlds |= {"s": "seeded", "t": "seeded"}

    shell.end(seed)

    assert {"retired": ["r1"]} == shell.document(call)
    assert {"t": "seeded"} == shell.worlds
    shell.end(other)
    assert refused(shell, "/tool", "s")
    assert not refused(shell, "/tool", "t")


def test_a_seed_that_fails_leaves_nothing_to_free(shell: Shell) -> None:
    """The retire is answered when the seed has ended."""
    seed = shell.arrive("/seed_session", "s", "r1")
    call = shell.retire("r1")

    shell.end(seed, 422)

    assert 200 == shell.reply(call)[0]
    assert not refused(shell, "/tool", "s")


def test_a_retire_cut_short_blocks_the_next_checkpoint(shell: Shell) -> None:
    """409 at the deadline; a repeated one waits again and frees what is left."""
    shell.seed("s", "r1")
    running = shell.arrive("/tool", "s")
    first = shell.retire("r1", deadline=5)
    shell.pass_time(5)
    assert "deadline_exceeded" == shell.code(first)
    shell.end(running)

    prepare = shell.call("prepare", deadline=5)
    shell.pass_time(5)
    assert "preparing" == shell.document(prepare)["phase"]
    assert ["r1"] == [*at(shell.document(prepare), "report", "blockers")]
    assert "invalid_phase" == shell.code(shell.retire("r1", checkpoint_id="c1"))
    shell.call("resume")
    second = shell.retire("r1")

    assert 200 == shell.reply(second)[0]
    assert ({}, []) == (shell.worlds, blockers(shell))
    shell.prepared("c2")


def test_a_late_retire_only_marks(shell: Shell) -> None:
    """A deadline that has passed starts no work, but the attempt is refused."""
    shell.seed("s", "r1")

    assert "deadline_exceeded" == shell.code(shell.retire("r1", deadline=0))
    assert ({"s": "seeded"}, ["r1"]) == (shell.worlds, blockers(shell))
    assert refused(shell, "/tool", "s")


def test_a_retire_whose_caller_left_is_repeated(shell: Shell) -> None:
    """The marks stay, the waiting ends."""
    shell.seed("s", "r1")
    running = shell.arrive("/tool", "s")
    shell.drop(shell.retire("r1"))
    shell.end(running)
    assert (["r1"], {"s": "seeded"}) == (blockers(shell), shell.worlds)

    assert 200 == shell.reply(shell.retire("r1"))[0]


def test_a_removal_that_outlives_its_retire_is_joined(shell: Shell) -> None:
    """The sessions are freed once, and a repeated retire waits for that."""
    shell.frees_at_once = False
    shell.seed("s", "r1")
    shell.retire("r1", deadline=5)
    shell.pass_time(5)
    second = shell.retire("r1")
    assert (1, {second}) == (len(shell.removals), set(shell.calls))

    shell.free()

    assert {"retired": ["r1"]} == shell.document(second)
    assert 0 == at(shell.status(), "report", "counts", "sessions")


def test_calls_wait_for_a_retire(shell: Shell) -> None:
    """It holds the lock; a prepare and a resume come after it."""
    shell.seed("s", "r1")
    running = shell.arrive("/tool", "s")
    retire, prepare = shell.retire("r1"), shell.call("prepare")
    assert {retire, prepare} == set(shell.calls)

    shell.end(running)

    assert "prepared" == shell.document(prepare)["phase"]


def test_a_close_frees_a_session_that_waits_to_be_freed(shell: Shell) -> None:
    """Nothing of it is left, so it does not block any more."""
    shell.seed("s", "r1")
    running = shell.arrive("/tool", "s")
    call = shell.retire("r1")

    shell.request("/close_session", "s")
    assert 200 == shell.reply(call)[0]
    assert [] == blockers(shell)
    shell.end(running)


def test_a_session_seeded_for_another_episode_is_that_episodes(shell: Shell) -> None:
    """A seed under way when its session's old attempt is retired starts it afresh."""
    shell.seed("s", "r1")
    seed = shell.arrive("/seed_session", "s", "r2")
    call = shell.retire("r1")

    shell.end(seed)

    assert 200 == shell.reply(call)[0]
    assert not refused(shell, "/tool", "s")
    assert {"s": "seeded"} == shell.worlds
    assert 0 == shell.status()["retired_sessions"]


def test_a_removal_leaves_a_session_that_was_bound_anew(shell: Shell) -> None:
    """What is freed late is not taken for what lives now."""
    shell.frees_at_once = False
    shell.seed("s", "r1")
    seed = shell.arrive("/seed_session", "cookie", "r2")
    call = shell.retire("r1")
    shell.end(seed, session="s")
    assert 200 == shell.reply(call)[0]

    shell.free()

    assert 1 == at(shell.status(), "report", "counts", "sessions")


def test_a_session_that_is_seeded_while_it_is_freed_is_freed_again(
    shell: Shell,
) -> None:
    """The late seed of a retired attempt has made a world after the removal began."""
    shell.frees_at_once = False
    shell.seed("s", "r1")
    seed = shell.arrive("/seed_session", "cookie", "r1")
    call = shell.retire("r1")
    first = min(shell.removals)
    shell.end(seed, session="s")
    second = max(shell.removals)
    assert first != second

    shell.free(first)
    assert ["r1"] == blockers(shell)
    shell.free(second)

    assert 200 == shell.reply(call)[0]


@pytest.mark.parametrize("retired", [{3}, {0, 14}, {*range(10)}, {*range(15)}])
def test_d2_a_restore_of_retired_attempts_is_refused(
    shell: Shell, retired: set[int]
) -> None:
    """D2: 409 names them, nothing is installed; once they are forgotten it works."""
    scope = [f"r{number:02}" for number in range(15)]
    for number, rollout in enumerate(scope):
        shell.seed(f"s{number}", rollout)
    shell.committed()
    fresh = shell.crash()
    named = [f"r{number:02}-a1" for number in sorted(retired)]
    fresh.retire(*named)
    call = fresh.restore(scope=scope)
    fresh.read()
    detail = str(at(fresh.reply(call)[1], "error", "detail"))

    assert "stale_attempt" == fresh.code(call)
    assert named[:10] == [one for one in named if one in detail]
    assert (f"and {len(named) - 10} more" in detail) == (len(named) > 10)
    assert ("idle", {}) == (fresh.phase, fresh.worlds)

    fresh.forget(*(one.removesuffix("-a1") for one in named))
    again = fresh.restore("r2", scope=scope)
    fresh.read()

    assert [f"{one}-a1" for one in scope] == fresh.document(again)["restored"]


def test_d2_a_restore_of_an_attempt_after_the_retired_one(shell: Shell) -> None:
    """D2: what ended before the restore does not keep the next attempt away."""
    shell.seed("s", "r1")
    shell.committed()
    fresh = shell.crash()
    fresh.retire("r1")
    call = fresh.restore(scope=["r1"])
    fresh.read()

    assert ["r1-a1"] == fresh.document(call)["restored"]


# -- when -------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["preparing", "prepared", "committed"])
@pytest.mark.parametrize("operation", ["retire", "forget"])
def test_an_open_checkpoint_is_resumed_first(
    shell: Shell, phase: str, operation: str
) -> None:
    """409 invalid_phase whatever the id: the final clean-up waits for the resume."""
    if phase == "preparing":
        shell.arrive("/tool")
        shell.call("prepare")
    elif phase == "prepared":
        shell.prepared()
    else:
        shell.committed()

    for checkpoint_id in ("c1", "x1"):
        call = getattr(shell, operation)("r1", checkpoint_id=checkpoint_id)

        assert "invalid_phase" == shell.code(call)
    assert 0 == shell.status()["retired_rollouts"]


@pytest.mark.parametrize("operation", ["retire", "forget"])
def test_while_idle_any_id_will_do(shell: Shell, operation: str) -> None:
    """Also one that was resumed; it is not fenced either, nor recorded."""
    shell.call("resume", "old")

    for checkpoint_id in ("old", "new", "new"):
        call = getattr(shell, operation)("r1", checkpoint_id=checkpoint_id)

        assert 200 == shell.reply(call)[0]
    shell.prepared("new")


@pytest.mark.parametrize("operation", ["retire", "forget"])
def test_a_restored_participant_knows_its_own_id(shell: Shell, operation: str) -> None:
    """Another id is a conflict; its own renews the lease."""
    shell.seed("s", "r1")
    shell.committed()
    fresh = shell.crash()
    fresh.restore(scope=["r1"])
    fresh.read()
    send = getattr(fresh, operation)

    assert "checkpoint_conflict" == fresh.code(send("r1-a1", checkpoint_id="other"))
    assert 200 == fresh.reply(send("r1-a1", checkpoint_id="r1", deadline=90))[0]
    assert fresh.now + 690 == fresh.status()["lease_expires_at"]
    assert (operation == "retire") == (fresh.worlds == {})


def test_a_restored_session_that_is_retired_is_not_unclaimed(shell: Shell) -> None:
    """No commit deletes it a second time while it is being freed."""
    shell.seed("s", "r1")
    shell.committed()
    fresh = shell.crash()
    fresh.frees_at_once = False
    fresh.restore(scope=["r1"])
    fresh.read()
    fresh.retire("r1-a1", checkpoint_id="r1")
    assert (["r1-a1"], 1) == (blockers(fresh), len(fresh.removals))
    fresh.call("resume", "r1")

    fresh.free()

    assert [] == [*at(fresh.committed("c2", "d2", scope=[]), "episode_ids")]
    assert {} == fresh.removals


def test_a_waiting_request_of_a_retired_session_is_refused_at_the_resume(
    shell: Shell,
) -> None:
    """It waits like all others, and never reaches a world."""
    shell.seed("s", "r1")
    shell.committed()
    fresh = shell.crash()
    fresh.restore(scope=["r1"])
    fresh.read()
    waiting, close = fresh.arrive("/tool", "s"), fresh.arrive("/close_session", "s")
    fresh.retire("r1-a1", checkpoint_id="r1")
    assert {waiting, close} == set(fresh.waiting)

    fresh.call("resume", "r1")

    assert "stale_attempt" == fresh.refused[waiting].code
    assert [close] == list(fresh.admitted)


# -- forget -----------------------------------------------------------------------


def test_a_forget_drops_marks_and_retired_sessions(shell: Shell) -> None:
    """The reply is sorted; unknown rollouts are fine."""
    for session, episode in (("a", "r1"), ("b", "r2")):
        shell.seed(session, episode)
    shell.retire("r1", "r2")

    call = shell.forget("unknown", "r1", "../x", "r1")

    assert {"forgotten": ["../x", "r1", "unknown"]} == shell.document(call)
    assert (1, 1) == (
        shell.status()["retired_rollouts"],
        shell.status()["retired_sessions"],
    )
    assert not refused(shell, "/tool", "a", "r1")
    assert refused(shell, "/tool", "b")


def test_a_forget_before_everything_is_freed_changes_nothing(shell: Shell) -> None:
    """409 retire_incomplete, also for the rollouts that are done."""
    shell.seed("s", "r1")
    running = shell.arrive("/tool", "s")
    shell.retire("r1", "r2", deadline=5)
    shell.pass_time(5)

    assert "retire_incomplete" == shell.code(shell.forget("r1", "r2"))
    assert 2 == shell.status()["retired_rollouts"]
    shell.end(running)
    assert "retire_incomplete" == shell.code(shell.forget("r1"))
    assert 200 == shell.reply(shell.forget("r2"))[0]
    shell.retire("r1")
    assert 200 == shell.reply(shell.forget("r1"))[0]


def test_a_forget_waits_for_a_seed_that_was_not_waited_for(shell: Shell) -> None:
    """The session would come to life as that of an attempt nobody retires."""
    seed = shell.arrive("/seed_session", "s", "r1")
    shell.retire("r1", deadline=5)
    shell.pass_time(5)
    assert "retire_incomplete" == shell.code(shell.forget("r1"))

    shell.end(seed)

    assert ["r1"] == blockers(shell)
    assert "retire_incomplete" == shell.code(shell.forget("r1"))


def test_a_late_forget_changes_nothing(shell: Shell) -> None:
    """The deadline bounds it like the others."""
    shell.retire("r1")

    assert "deadline_exceeded" == shell.code(shell.forget("r1", deadline=0))
    assert 1 == shell.status()["retired_rollouts"]


def test_an_unknown_removal_means_nothing(shell: Shell) -> None:
    """An answer that comes twice is harmless."""
    shell.seed("s", "r1")
    shell.retire("r1")
    before = shell.participant

    shell.send(on.Freed(99))

    assert before == shell.participant
