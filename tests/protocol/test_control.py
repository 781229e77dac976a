"""The control machine by example: each rule of section 2 with its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pytest

from documents import at
from session_records import sessions_of

from ipistate.errors import CheckpointError, SchemaError
from ipistate.protocol import Settings, handle, resources_participant
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.operations import CommitBody
from ipistate.protocol.parts.waiting_requests import WaitingRequests


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


def seeded(shell: Shell, *episodes: str) -> Shell:
    """Seed one session for each episode."""
    for number, episode in enumerate(episodes):
        shell.seed(f"s{number}", episode, world=f"world {number}")
    return shell


# -- settings and status ----------------------------------------------------------


@pytest.mark.parametrize("instance", ["", "a/b", "../x", "x\n"])
def test_an_instance_is_a_safe_name(instance: str) -> None:
    """The name becomes a directory, so it must be a name."""
    with pytest.raises(SchemaError, match="instance name"):
        Settings(instance=instance)


@pytest.mark.parametrize("grace", [0, -1, float("inf"), float("nan")])
def test_the_grace_of_a_lease_is_positive(grace: float) -> None:
    """A lease that never or always runs out is a mistake."""
    with pytest.raises(SchemaError, match="grace"):
        Settings(instance="ipi", lease_grace_seconds=grace)


def test_status_of_a_fresh_process(shell: Shell) -> None:
    """Every member of the status, before anything has happened."""
    assert {
        "kind": "resources",
        "instance": "ipi",
        "phase": "idle",
        "checkpoint_id": None,
        "lease_expires_at": None,
        "retired_rollouts": 0,
        "report": {
            "ready": True,
            "blockers": [],
            "blocker_count": 0,
            "counts": {"inflight": 0, "sessions": 0},
            "restarts": [],
        },
        "mode": "exported",
        "verify": "wait",
        "retired_sessions": 0,
    } == shell.status()


def test_status_of_an_open_checkpoint(shell: Shell) -> None:
    """Phase, id and lease of the checkpoint that is open."""
    shell.prepared("c1")
    status = shell.status()

    assert ("prepared", "c1", shell.now + 30 + 600) == (
        status["phase"],
        status["checkpoint_id"],
        status["lease_expires_at"],
    )


# -- prepare ----------------------------------------------------------------------


def test_a_prepare_without_requests_is_ready_at_once(shell: Shell) -> None:
    """Nothing in flight: prepared, admission closed."""
    seeded(shell, "ipi-7")
    call = shell.call("prepare")

    assert {
        "phase": "prepared",
        "report": {
            "ready": True,
            "blockers": [],
            "blocker_count": 0,
            "counts": {"inflight": 0, "sessions": 1},
            "restarts": [],
        },
    } == shell.document(call)


def test_a_prepare_waits_for_requests_in_flight(shell: Shell) -> None:
    """It is answered when the last one ends, and sees a session seeded just then."""
    request = shell.arrive("/seed_session", "s", "ipi-7")
    call = shell.call("prepare")
    assert call not in shell.replies

    shell.end(request)

    document = shell.document(call)
    assert ("prepared", 1) == (
        document["phase"],
        at(document, "report", "counts", "sessions"),
    )


def test_a_prepare_answers_at_its_deadline_and_can_be_repeated(shell: Shell) -> None:
    """Not ready is a reply, not an error; admission stays closed."""
    request = shell.arrive("/tool")
    call = shell.call("prepare", deadline=5)

    shell.pass_time(5)

    document = shell.document(call)
    assert ("preparing", False) == (document["phase"], at(document, "report", "ready"))
    assert {"inflight": 1, "sessions": 0} == at(document, "report", "counts")
    again = shell.call("prepare", deadline=5)
    shell.end(request)
    assert "prepared" == shell.document(again)["phase"]


@pytest.mark.parametrize("running", [True, False])
def test_a_prepare_past_its_deadline_looks_once(shell: Shell, running: bool) -> None:
    """It closes admission, evaluates readiness and replies."""
    if running:
        shell.arrive("/tool")

    call = shell.call("prepare", deadline=-5)

    assert ("preparing" if running else "prepared") == shell.document(call)["phase"]
    assert not shell.participant.part.is_open


def test_a_repeated_prepare_gets_the_recorded_reply(shell: Shell) -> None:
    """Also after the commit, in whatever phase the participant is now."""
    seeded(shell, "ipi-7")
    first = shell.call("prepare")
    second = shell.call("prepare", deadline=60)
    shell.commit()
    shell.publish()

    assert shell.document(first) == shell.document(second)
    assert shell.document(first) == shell.document(shell.call("prepare"))
    assert "committed" == shell.phase


def test_concurrent_prepares_of_one_id_are_answered_together(shell: Shell) -> None:
    """Each waits for itself; the id is the same checkpoint."""
    request = shell.arrive("/tool")
    calls = [shell.call("prepare", deadline=n) for n in (5, 10, 15)]

    shell.pass_time(7)
    assert "preparing" == shell.document(calls[0])["phase"]
    shell.end(request)

    assert ["prepared", "prepared"] == [shell.document(c)["phase"] for c in calls[1:]]


def test_a_resume_overtakes_a_waiting_prepare(shell: Shell) -> None:
    """The prepare answers idle at once and records nothing."""
    shell.arrive("/tool")
    prepare = shell.call("prepare")

    shell.call("resume")

    assert "idle" == shell.document(prepare)["phase"]
    assert "stale_checkpoint" == shell.code(shell.call("prepare"))


def test_a_prepare_whose_caller_left_reopens_admission(shell: Shell) -> None:
    """The id is not fenced, so the caller may come back."""
    request = shell.arrive("/tool")
    call, other = shell.call("prepare"), shell.call("prepare")
    late = shell.arrive("/tool")

    shell.drop(call)

    assert ("idle", "idle") == (shell.phase, shell.document(other)["phase"])
    assert {request, late} == set(shell.admitted)
    shell.end(request)
    shell.end(late)
    shell.prepared()


def test_another_checkpoint_is_a_conflict(shell: Shell) -> None:
    """One checkpoint at a time."""
    shell.prepared("c1")

    assert "checkpoint_conflict" == shell.code(shell.call("prepare", "c2"))
    assert "checkpoint_conflict" == shell.code(shell.commit("c2"))
    assert "checkpoint_conflict" == shell.code(shell.call("resume", "c2"))
    assert "checkpoint_conflict" == shell.code(shell.restore("c2"))
    assert "prepared" == shell.phase


# -- commit -----------------------------------------------------------------------


def test_a_commit_writes_every_session_once(shell: Shell) -> None:
    """The reply names manifest and episodes; the records are references."""
    seeded(shell, "ipi-9-a1", "ipi-7", "ipi-7")
    shell.prepared()

    call = shell.commit(scope=["ipi-7"])
    (write,) = shell.writes.values()
    shell.publish()

    document = shell.document(call)
    assert ["ipi-7", "ipi-9-a1"] == document["episode_ids"]
    assert ("committed", 3) == (
        document["phase"],
        at(document, "manifest", "record_count"),
    )
    assert ["world 0", "world 1", "world 2"] == [
        r.state for r in sessions_of(write.records)
    ]
    assert "committed" == shell.phase
    assert not shell.participant.part.is_open


def test_a_commit_needs_a_prepare(shell: Shell) -> None:
    """Before the prepare, and before it is ready, nothing is written."""
    assert "invalid_phase" == shell.code(shell.commit())
    shell.arrive("/tool")
    shell.call("prepare")

    assert "invalid_phase" == shell.code(shell.commit())
    assert {} == shell.writes


def test_a_commit_that_is_no_longer_ready_is_refused(shell: Shell) -> None:
    """Readiness is looked at again, because participants freeze in an order."""
    shell.prepared()
    shell.model = None
    admitted = WaitingRequests.of([on.RequestArrived(99, "/t", "s")])
    gate = attrs.evolve(shell.participant.part, admitted=admitted)
    shell.participant = attrs.evolve(shell.participant, part=gate)
    shell.admitted[99] = gate.admitted[99]

    assert "invalid_phase" == shell.code(shell.commit())
    assert "prepared" == shell.phase


def test_a_session_without_a_state_is_left_out_and_forgotten(shell: Shell) -> None:
    """After a failed verify the commit succeeds without its session."""
    seeded(shell, "ipi-7", "ipi-8")
    del shell.worlds["s0"]
    shell.request("/verify", "s0", status=500)

    document = shell.committed()

    assert ["ipi-8"] == document["episode_ids"]
    assert 1 == at(shell.status(), "report", "counts", "sessions")


def test_b44_a_repeated_commit_gets_the_recorded_reply(shell: Shell) -> None:
    """The same again is answered, another scope or directory is a conflict."""
    seeded(shell, "ipi-7", "ipi-8")
    document = shell.committed(scope=["ipi-7", "ipi-8"])

    assert document == shell.document(shell.commit(scope=["ipi-8", "ipi-7"]))
    others: tuple[dict[str, Any], ...] = (
        {"scope": ["ipi-7"]},
        {"scope": None},
        {"scope": []},
        {"scope": ["ipi-7", "ipi-8"], "directory": "other"},
    )
    for options in others:
        assert "checkpoint_conflict" == shell.code(shell.commit(**options))
    assert {} == shell.writes


def test_no_scope_and_an_empty_scope_differ(shell: Shell) -> None:
    """Null exports everything, an empty list continues nothing."""
    shell.committed(scope=[])

    assert "checkpoint_conflict" == shell.code(shell.commit(scope=None))


def test_a_failed_write_is_retried_with_the_same_records(
    shell: Shell, disk_error: CheckpointError
) -> None:
    """422 once, then the same records again: the export happens once."""
    seeded(shell, "ipi-7")
    shell.prepared()
    first = shell.commit()
    (before,) = shell.writes.values()
    shell.publish(error=disk_error)
    shell.worlds["s0"] = "changed behind the machine's back"

    second = shell.commit()
    (after,) = shell.writes.values()
    shell.publish()

    assert (422, "disk full") == (
        shell.reply(first)[0],
        at(shell.reply(first), 1, "error", "detail"),
    )
    assert before.records is after.records
    assert before.write != after.write
    assert "committed" == shell.document(second)["phase"]
    assert 1 == sum(isinstance(action, do.Export) for action in shell.log)


def test_a_retry_with_other_arguments_is_a_conflict_while_it_is_written(
    shell: Shell,
) -> None:
    """What was exported belongs to one directory and one scope."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)

    assert "checkpoint_conflict" == shell.code(shell.commit(directory="other"))
    assert "checkpoint_conflict" == shell.code(shell.commit(scope=[]))


def test_a_write_outlives_the_deadline_and_is_joined(shell: Shell) -> None:
    """409 at the deadline; the retry waits for the same write."""
    seeded(shell, "ipi-7")
    shell.prepared()
    first = shell.commit(deadline=5)
    shell.pass_time(5)
    assert "deadline_exceeded" == shell.code(first)
    assert "prepared" == shell.phase

    second = shell.commit(deadline=5)
    assert 1 == len(shell.writes)
    shell.publish()

    assert "committed" == shell.document(second)["phase"]


@pytest.mark.parametrize("leave", ["deadline", "drop"])
def test_a_write_that_ended_with_nobody_waiting_is_used(
    shell: Shell, leave: str
) -> None:
    """The retry finds the manifest and is answered at once."""
    shell.prepared()
    first = shell.commit(deadline=5)
    if leave == "drop":
        shell.drop(first)
    else:
        shell.pass_time(5)
    shell.publish()
    assert "prepared" == shell.phase

    second = shell.commit(deadline=5)

    assert "committed" == shell.document(second)["phase"]


def test_a_write_that_failed_with_nobody_waiting_is_done_again(
    shell: Shell, disk_error: CheckpointError
) -> None:
    """The retry writes the same records once more."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)
    shell.publish(error=disk_error)

    second = shell.commit(deadline=5)
    shell.publish()

    assert "committed" == shell.document(second)["phase"]


def test_a_commit_past_its_deadline_starts_nothing(shell: Shell) -> None:
    """A bounded step is not begun when the time is over."""
    shell.prepared()

    assert "deadline_exceeded" == shell.code(shell.commit(deadline=0))
    assert {} == shell.writes
    assert "prepared" == shell.phase


K = TypeVar("K", bound=do.Action)


def of_kind(actions: tuple[do.Action, ...], kind: type[K]) -> list[K]:
    """Pick the actions of one kind."""
    return [action for action in actions if isinstance(action, kind)]


def test_an_export_whose_caller_left_is_kept(shell: Shell) -> None:
    """States that arrive after the caller left are the checkpoint's records."""
    seeded(shell, "ipi-7")
    shell.prepared()
    body = CommitBody(checkpoint_id="c1", deadline_ts=2000.0, checkpoint_dir="d")

    started, actions = handle(shell.participant, on.ControlCalled(1, body), 1000.0)
    (export,) = of_kind(actions, do.Export)
    dropped, _ = handle(started, on.ControlDropped(1), 1000.0)
    joined, actions = handle(dropped, on.ControlCalled(2, body), 1000.0)
    assert [] == of_kind(actions, do.Export)
    dropped, _ = handle(joined, on.ControlDropped(2), 1000.0)
    kept, actions = handle(dropped, on.Exported(export.write, {"s0": "w"}), 1000.0)
    assert [] == of_kind(actions, do.Write)
    _, actions = handle(kept, on.ControlCalled(3, body), 1000.0)

    (write,) = of_kind(actions, do.Write)
    assert ["w"] == [record.state for record in sessions_of(write.records)]


# -- restore ----------------------------------------------------------------------


def crashed(shell: Shell, *episodes: str) -> Shell:
    """Commit these episodes and return a fresh process."""
    seeded(shell, *episodes)
    shell.committed()
    return shell.crash()


def test_a_restore_installs_the_scope_under_the_next_attempt(shell: Shell) -> None:
    """Sessions keep their ids; episodes become attempt N+1; the gate is closed."""
    fresh = crashed(shell, "ipi-7", "ipi-9-a1", "ipi-8")

    call = fresh.restore(scope=["ipi-7", "ipi-9-a1", "unknown"])
    fresh.read()

    assert {
        "phase": "restored",
        "source_checkpoint_id": "c1",
        "restored": ["ipi-7-a1", "ipi-9-a2"],
    } == fresh.document(call)
    assert {"s0": "world 0", "s1": "world 1"} == fresh.worlds
    assert "restored" == fresh.phase
    request = fresh.arrive("/tool", "s0")
    assert request in fresh.waiting
    fresh.call("resume", "r1")
    assert request in fresh.admitted


def test_a_restored_session_that_nothing_claimed_follows_the_scope(
    shell: Shell,
) -> None:
    """The next commit exports it only if the scope names its new attempt."""
    fresh = crashed(shell, "ipi-7", "ipi-8", "ipi-9")
    fresh.restore(scope=["ipi-7", "ipi-8", "ipi-9"])
    fresh.read()
    fresh.call("resume", "r1")
    fresh.request("/tool", "s0")

    document = fresh.committed("c2", "d2", scope=["ipi-8-a1"])

    assert ["ipi-7-a1", "ipi-8-a1"] == document["episode_ids"]


def test_a_seed_claims_a_restored_session(shell: Shell) -> None:
    """Seeded again, it is a live session of the new episode."""
    fresh = crashed(shell, "ipi-7")
    fresh.restore(scope=["ipi-7"])
    fresh.read()
    fresh.call("resume", "r1")

    fresh.seed("s0", "ipi-7-a1")

    assert ["ipi-7-a1"] == fresh.committed("c2", "d2", scope=[])["episode_ids"]


def test_a_restore_that_cannot_be_read_changes_nothing(shell: Shell) -> None:
    """422, phase idle, and the same restore may be tried again."""
    fresh = crashed(shell, "ipi-7")

    call = fresh.restore(scope=["ipi-7"], directory="nowhere")
    fresh.read()

    assert 422 == fresh.reply(call)[0]
    assert "invalid_checkpoint_state" == fresh.code(call)
    assert ("idle", {}) == (fresh.phase, fresh.worlds)
    again = fresh.restore(scope=["ipi-7"])
    fresh.read()
    assert "restored" == fresh.document(again)["phase"]


@pytest.mark.parametrize("fresh", ["session", "request"])
def test_only_a_fresh_process_restores(shell: Shell, fresh: str) -> None:
    """A tracked session or a request in flight refuses it; nothing is installed."""
    other = crashed(shell, "ipi-7")
    call = other.restore(scope=["ipi-7"])
    if fresh == "session":
        other.seed("t", "ipi-1")
    else:
        other.arrive("/tool", "t")
    other.read()

    assert "checkpoint_error" == other.code(call)
    assert "s0" not in other.worlds
    assert "idle" == other.phase


def test_a_repeated_restore_gets_the_recorded_reply(shell: Shell) -> None:
    """Equal arguments are answered, others are a conflict."""
    fresh = crashed(shell, "ipi-7", "ipi-8")
    call = fresh.restore(scope=["ipi-7", "ipi-8"])
    fresh.read()

    assert fresh.document(call) == fresh.document(
        fresh.restore(scope=["ipi-8", "ipi-7"])
    )
    assert "checkpoint_conflict" == fresh.code(fresh.restore(scope=["ipi-7"]))
    assert "checkpoint_conflict" == fresh.code(
        fresh.restore(scope=["ipi-7", "ipi-8"], directory="other")
    )
    assert "invalid_phase" == fresh.code(fresh.commit("r1"))
    assert "invalid_phase" == fresh.code(fresh.call("prepare", "r1"))


def test_a_restore_bounds_its_reading(shell: Shell) -> None:
    """At the deadline it fails; what is read later is thrown away."""
    fresh = crashed(shell, "ipi-7")
    late = fresh.restore(deadline=0)
    call = fresh.restore(scope=["ipi-7"], deadline=5)

    fresh.pass_time(5)
    fresh.read()

    assert "deadline_exceeded" == fresh.code(late) == fresh.code(call)
    assert ("idle", {}) == (fresh.phase, fresh.worlds)


def test_a_restore_whose_caller_left_is_forgotten(shell: Shell) -> None:
    """Its reading ends without effect; another restore is possible meanwhile."""
    fresh = crashed(shell, "ipi-7")
    fresh.drop(fresh.restore(scope=["ipi-7"]))
    call = fresh.restore(scope=["ipi-7"])

    fresh.read()
    assert "idle" == fresh.phase
    fresh.read()

    assert "restored" == fresh.document(call)["phase"]


# -- resume, fencing, lease -------------------------------------------------------


def test_a_resume_reopens_and_fences(shell: Shell) -> None:
    """The second resume is idempotent; the id never does anything again."""
    shell.committed()

    assert {"phase": "idle", "idempotent": False} == shell.document(
        shell.call("resume")
    )
    assert {"phase": "idle", "idempotent": True} == shell.document(shell.call("resume"))
    for call in (shell.call("prepare"), shell.commit(), shell.restore("c1")):
        assert "stale_checkpoint" == shell.code(call)
    assert "idle" == shell.phase


def test_a_resume_while_idle_fences_a_prepare_that_comes_late(shell: Shell) -> None:
    """An aborted checkpoint cannot close admission afterwards."""
    assert shell.document(shell.call("resume"))["idempotent"]

    assert "stale_checkpoint" == shell.code(shell.call("prepare"))


def test_a_resumed_id_is_idempotent_while_another_checkpoint_is_open(
    shell: Shell,
) -> None:
    """The fence comes before the conflict."""
    shell.call("resume", "old")
    shell.prepared("new")

    assert shell.document(shell.call("resume", "old"))["idempotent"]
    assert "stale_checkpoint" == shell.code(shell.commit("old"))
    assert "prepared" == shell.phase


def test_the_65th_resumed_id_evicts_the_first(shell: Shell) -> None:
    """The last 64 ids are remembered."""
    for number in range(64):
        shell.call("resume", f"c{number}")
    assert "stale_checkpoint" == shell.code(shell.call("prepare", "c0"))
    shell.call("resume", "c64")

    shell.prepared("c0")
    shell.call("resume", "c0")
    assert "stale_checkpoint" == shell.code(shell.call("prepare", "c2"))


@pytest.mark.parametrize("order", ["stop first", "write first"])
def test_a_resume_stops_a_write_that_is_still_running(shell: Shell, order: str) -> None:
    """It answers once no manifest can appear; a late end of the write means nothing."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)
    request = shell.arrive("/tool")

    call = shell.call("resume")
    assert call not in shell.replies
    if order == "stop first":
        shell.stop()
        shell.publish()
    else:
        shell.publish()
        shell.stop()

    assert not shell.document(call)["idempotent"]
    assert request in shell.admitted
    assert (order == "write first") == ("d" in shell.directories)


def test_calls_wait_for_a_resume_that_is_stopping_a_write(shell: Shell) -> None:
    """One operation at a time; the next one sees its result."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)
    shell.call("resume")
    prepare, gone = shell.call("prepare", "c2"), shell.call("prepare", "c3")
    shell.drop(gone)
    assert prepare not in shell.replies

    shell.stop()

    assert "prepared" == shell.document(prepare)["phase"]
    assert gone not in shell.replies


def test_a_resume_whose_caller_left_is_finished(shell: Shell) -> None:
    """Nobody gets the reply, and the repeated call is idempotent."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)
    shell.drop(shell.call("resume"))

    shell.stop()

    assert "idle" == shell.phase
    assert shell.document(shell.call("resume"))["idempotent"]


def test_answers_that_nobody_waits_for_mean_nothing(shell: Shell) -> None:
    """Late ends of writes, stops and reads leave the participant as it is."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)
    shell.call("resume")
    wrong = shell.participant
    unknown: tuple[on.Event, ...] = (
        on.WriteStopped(999),
        on.ReadEnded(999, failure()),
    )
    for event in unknown:
        shell.send(event)
        assert wrong == shell.participant
    shell.stop()
    before = shell.participant

    for event in (
        on.WriteEnded(1, failure()),
        on.WriteStopped(1),
        on.Exported(1, {"s": "w"}),
        on.ReadEnded(1, failure()),
        on.ControlDropped(999),
    ):
        shell.send(event)
        assert before == shell.participant


def failure() -> CheckpointError:
    """Make an error that comes too late."""
    return CheckpointError("invalid_checkpoint_state", "late")


@pytest.mark.parametrize("outcome", ["published", "failed"])
def test_a_write_of_an_earlier_checkpoint_is_not_taken_for_this_one(
    shell: Shell, outcome: str, disk_error: CheckpointError
) -> None:
    """Its late end neither completes nor fails the commit that runs now."""
    shell.prepared("c1")
    shell.commit("c1", "old", deadline=5)
    shell.pass_time(5)
    shell.call("resume", "c1")
    shell.stop()
    shell.prepared("c2")
    call = shell.commit("c2", "new")

    shell.publish(error=disk_error if outcome == "failed" else None)
    assert call not in shell.replies
    shell.publish()

    assert "c2" == at(shell.document(call), "manifest", "checkpoint_id")


def test_a_lease_that_runs_out_resumes_and_fences(shell: Shell) -> None:
    """No call until deadline and grace: idle, fenced, waiting requests answered."""
    shell.committed()
    request = shell.arrive("/tool")

    shell.pass_time(629)
    assert "committed" == shell.phase
    shell.pass_time(1)

    assert ("idle", None) == (shell.phase, shell.status()["lease_expires_at"])
    assert request in shell.admitted
    assert "stale_checkpoint" == shell.code(shell.commit())


def test_a_lease_that_runs_out_stops_the_write(shell: Shell) -> None:
    """It does what a resume does, and nobody is answered."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)
    replies = dict(shell.replies)

    shell.pass_time(700)
    assert "prepared" == shell.phase
    shell.stop()

    assert "idle" == shell.phase
    assert replies == shell.replies


def test_a_lease_never_shrinks(shell: Shell) -> None:
    """A call with an earlier deadline leaves it as it is."""
    shell.call("prepare", deadline=100)

    shell.commit(deadline=10)

    assert shell.now + 700 == shell.status()["lease_expires_at"]


def test_every_accepted_call_renews_the_lease(shell: Shell) -> None:
    """Also a commit that is refused later."""
    shell.prepared()

    shell.commit(deadline=0)
    shell.commit(deadline=90)

    assert shell.now + 690 == shell.status()["lease_expires_at"]


def test_an_early_tick_arms_the_timer_again(shell: Shell) -> None:
    """A timer that fires too soon loses nothing."""
    shell.prepared()
    shell.log.clear()

    shell.send(on.Tick())

    assert [do.SetTimer(shell.now + 630)] == shell.log
    assert "prepared" == shell.phase


def test_time_passes_with_any_event(shell: Shell) -> None:
    """Even without its tick a deadline is kept before the next event."""
    running = shell.arrive("/tool")
    call = shell.call("prepare", deadline=5)
    shell.now += 6

    shell.end(running)

    assert "preparing" == shell.document(call)["phase"]


def test_calls_queue_while_a_commit_writes(shell: Shell) -> None:
    """Resume and a retried commit wait for it, in their order."""
    seeded(shell, "ipi-7")
    shell.prepared()
    first, retry, resume = shell.commit(), shell.commit(), shell.call("resume")
    late = shell.call("prepare", "c2")
    assert {first, retry, resume, late} == set(shell.calls)

    shell.publish()

    assert shell.document(first) == shell.document(retry)
    assert not shell.document(resume)["idempotent"]
    assert "prepared" == shell.document(late)["phase"]


def test_the_participant_is_a_value() -> None:
    """Handling an event gives a new participant and leaves the old one alone."""
    before = resources_participant(Settings(instance="ipi"))

    after, _ = handle(before, on.RequestArrived(1, "/tool", "s"), 0.0)

    assert before == resources_participant(Settings(instance="ipi"))
    assert {} == before.part.admitted
    assert [1] == list(after.part.admitted)
