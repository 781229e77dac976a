"""Renewal, and a commit's deletion of restored sessions that the resume waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from documents import at

from ipistate.protocol import actions as do
from ipistate.protocol import events as on


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


@pytest.fixture
def restored(shell: Shell) -> Shell:
    """Return a process that restored r1 and r2 and was resumed; it frees nothing."""
    shell.seed("s1", "r1")
    shell.seed("s2", "r2")
    shell.committed()
    fresh = shell.crash()
    fresh.restore(scope=["r1", "r2"])
    fresh.read()
    fresh.call("resume", "r1")
    fresh.frees_at_once = False
    return fresh


def deleting(shell: Shell, **options: int) -> int:
    """Commit with a scope that gives r2 up, up to the deletion; return the call."""
    shell.prepared("c2")
    call = shell.commit("c2", "d2", ["r1-a1"], **options)
    shell.publish()
    return call


# -- renew ------------------------------------------------------------------------


def test_a_renewal_extends_the_lease(shell: Shell) -> None:
    """The reply names the new end; a deadline in the past does not matter."""
    shell.prepared()

    late = shell.call("renew", deadline=-5)
    long = shell.call("renew", deadline=300)

    assert {"lease_expires_at": shell.now + 630} == shell.document(late)
    assert {"lease_expires_at": shell.now + 900} == shell.document(long)
    assert shell.now + 900 == shell.status()["lease_expires_at"]
    shell.pass_time(899)
    assert "prepared" == shell.phase


def test_a_renewal_needs_its_open_checkpoint(shell: Shell) -> None:
    """Idle, resumed and foreign ids are refused."""
    assert "invalid_phase" == shell.code(shell.call("renew", "c1"))
    shell.call("resume", "c1")
    shell.prepared("c2")

    assert "stale_checkpoint" == shell.code(shell.call("renew", "c1"))
    assert "checkpoint_conflict" == shell.code(shell.call("renew", "c3"))


def test_a_renewal_waits_for_a_commit(shell: Shell) -> None:
    """Both need the lock."""
    shell.prepared()
    shell.commit()
    call = shell.call("renew")
    assert call not in shell.replies

    shell.publish()

    assert 200 == shell.reply(call)[0]


# -- deletion ---------------------------------------------------------------------


def test_a_commit_deletes_what_its_scope_gives_up(restored: Shell) -> None:
    """After the write, without a mark: the same attempt may be seeded afresh."""
    call = deleting(restored)
    assert call not in restored.replies
    (removal,) = restored.removals.values()
    assert ("s2",) == removal.keys

    restored.free()

    assert ["r1-a1"] == restored.document(call)["episode_ids"]
    assert {"s1": "seeded"} == restored.worlds
    assert (0, 0) == (
        restored.status()["retired_rollouts"],
        restored.status()["retired_sessions"],
    )
    restored.call("resume", "c2")
    restored.seed("s2", "r2-a1")
    assert 2 == at(restored.status(), "report", "counts", "sessions")


def test_without_a_scope_nothing_is_deleted(restored: Shell) -> None:
    """Everything is exported, so everything stays."""
    restored.prepared("c2")
    call = restored.commit("c2", "d2", None)
    restored.publish()

    assert ["r1-a1", "r2-a1"] == restored.document(call)["episode_ids"]
    assert {} == restored.removals


def test_claimed_sessions_are_not_deleted(restored: Shell) -> None:
    """Whatever the scope says, a live session is exported and stays."""
    restored.request("/tool", "s1")
    restored.request("/tool", "s2")

    call = deleting(restored)

    assert ["r1-a1", "r2-a1"] == restored.document(call)["episode_ids"]


@pytest.mark.parametrize("order", ["retry first", "removal first"])
def test_a_deletion_outlives_its_commit_and_is_joined(
    restored: Shell, order: str
) -> None:
    """409 at the deadline; the retry finds it running or done."""
    first = deleting(restored, deadline=5)
    restored.pass_time(5)
    assert "deadline_exceeded" == restored.code(first)
    assert "prepared" == restored.phase
    if order == "removal first":
        restored.free()

    second = restored.commit("c2", "d2", ["r1-a1"])
    if order == "retry first":
        restored.free()

    assert "committed" == restored.document(second)["phase"]
    assert 1 == sum(isinstance(action, do.Free) for action in restored.log)


def test_a_resume_waits_for_a_deletion(restored: Shell) -> None:
    """It answers when the last session is gone; then requests come in."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    request = restored.arrive("/tool", "s1")
    call = restored.call("resume", "c2")
    assert call not in restored.replies

    restored.free()

    assert {"phase": "idle", "idempotent": False} == restored.document(call)
    assert request in restored.admitted
    assert {"s1": "seeded"} == restored.worlds


@pytest.mark.parametrize("deadline", [0, 5])
def test_a_resume_gives_up_at_its_deadline(restored: Shell, deadline: int) -> None:
    """409, the participant stays closed, and the commit may still be completed."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    call = restored.call("resume", "c2", deadline=deadline)
    restored.pass_time(deadline)

    assert "deadline_exceeded" == restored.code(call)
    assert "prepared" == restored.phase
    retry = restored.commit("c2", "d2", ["r1-a1"])
    restored.free()
    assert "committed" == restored.document(retry)["phase"]


def test_a_waiting_resume_whose_caller_left_is_finished(restored: Shell) -> None:
    """Nobody hears of it, and the repeated call is idempotent."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    restored.drop(restored.call("resume", "c2"))

    restored.free()

    assert "idle" == restored.phase
    assert restored.document(restored.call("resume", "c2"))["idempotent"]


def test_an_unheard_resume_gives_up_without_a_word(restored: Shell) -> None:
    """At the deadline of the call that is gone."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    restored.drop(restored.call("resume", "c2", deadline=5))

    restored.pass_time(5)

    assert "prepared" == restored.phase
    assert None is restored.participant.control.holder


def test_a_lease_that_runs_out_waits_30_seconds_for_a_deletion(restored: Shell) -> None:
    """Then the lock is free for 30 seconds, and it tries again, until it is done."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    end = at(restored.status(), "lease_expires_at")
    restored.pass_time(end - restored.now)
    renew = restored.call("renew", "c2", deadline=-1000)
    restored.pass_time(29)
    assert renew not in restored.replies

    restored.pass_time(1)

    assert {"lease_expires_at": end} == restored.document(renew)
    assert ("prepared", end + 60) == (restored.phase, restored.timer)
    restored.pass_time(30)
    late = restored.call("renew", "c2", deadline=-1000)
    assert late not in restored.replies
    restored.free()
    assert ("idle", "stale_checkpoint") == (restored.phase, restored.code(late))


def test_a_resume_gets_in_between_the_attempts_of_an_expired_lease(
    restored: Shell,
) -> None:
    """It waits to its own deadline, then the pause begins anew."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    assert restored.timer is not None
    restored.pass_time(restored.timer - restored.now)
    restored.pass_time(30)
    call = restored.call("resume", "c2", deadline=10)
    restored.pass_time(10)
    assert "deadline_exceeded" == restored.code(call)
    assert restored.now + 30 == restored.timer
    again = restored.call("resume", "c2", deadline=10)

    restored.free()

    assert "idle" == restored.document(again)["phase"]
    assert None is restored.timer


def test_a_renewed_lease_is_waited_for(restored: Shell) -> None:
    """A controller that comes back during the pause keeps the checkpoint."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    assert restored.timer is not None
    restored.pass_time(restored.timer - restored.now)
    restored.pass_time(30)
    retry = restored.commit("c2", "d2", ["r1-a1"])
    restored.free()

    restored.pass_time(60)

    assert "committed" == restored.document(retry)["phase"]
    assert "committed" == restored.phase


def test_only_the_deletion_ends_the_wait_for_it(restored: Shell) -> None:
    """Another removal's answer, or one that comes twice, does not reopen."""
    deleting(restored, deadline=5)
    restored.pass_time(5)
    call = restored.call("resume", "c2")

    restored.send(on.Freed(99))

    assert call not in restored.replies
    assert "prepared" == restored.phase


def test_a_resume_that_gave_up_does_not_put_the_expiry_off(restored: Shell) -> None:
    """The pause is for a lease that has run out; this one still has its time."""
    deleting(restored, deadline=5)
    end = at(restored.status(), "lease_expires_at")
    restored.pass_time(end - restored.now - 10)
    call = restored.call("resume", "c2", deadline=5)
    restored.pass_time(5)
    assert "deadline_exceeded" == restored.code(call)

    assert end == restored.timer


def test_a_request_that_waited_for_the_resume_claims_its_session(shell: Shell) -> None:
    """From then on it is live, whatever a scope says."""
    shell.seed("s", "r1")
    shell.committed()
    fresh = shell.crash()
    fresh.restore(scope=["r1"])
    fresh.read()
    waiting = fresh.arrive("/tool", "s")
    fresh.call("resume", "r1")
    fresh.end(waiting)

    document = fresh.committed("c2", "d2", scope=[])

    assert ["r1-a1"] == [*at(document, "episode_ids")]
    assert {"s": "seeded"} == fresh.worlds
