"""The conformance checklist of appendix D, line by line, as far as the machine decides.

Lines 1, 2 and 7 are the server's and 13 to 15 and 17 need files and cookies; all 23 are
tested over HTTP in ``tests/server/test_checklist.py``. Here time is virtual, so that
deadlines and leases are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from documents import at
from session_records import sessions_of

from ipistate.errors import CheckpointError, SchemaError
from ipistate.kernel.schema import structure
from ipistate.protocol import actions as do
from ipistate.protocol.operations import OPERATIONS, CommitBody


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


BASE = {"checkpoint_id": "c1", "deadline_ts": 1030.0}


def restored(shell: Shell, *episodes: str) -> Shell:
    """Commit these episodes, crash, restore and resume; return the fresh process."""
    for number, episode in enumerate(episodes):
        shell.seed(f"s{number}", episode)
    shell.committed()
    fresh = shell.crash()
    fresh.restore(scope=episodes)
    fresh.read()
    fresh.call("resume", "r1")
    return fresh


@pytest.mark.parametrize("name", OPERATIONS)
def test_d03_bodies_are_closed(name: str) -> None:
    """Unknown body fields are refused; stop on commit is accepted."""
    members = BASE | {"checkpoint_dir": "d", "episode_ids": [], "rollout_ids": ["r"]}

    with pytest.raises(SchemaError) as caught:
        structure(members | {"unknown": 1}, OPERATIONS[name])
    assert "$.unknown" in [problem.path for problem in caught.value.problems]
    stop = BASE | {"checkpoint_dir": "d", "stop": True}
    assert structure(stop, CommitBody).stop


def test_d04_a_prepare_with_a_request_in_flight(shell: Shell) -> None:
    """200 preparing at the deadline, admission closed, repeatable; ready afterwards."""
    running = shell.arrive("/tool")
    first = shell.call("prepare", deadline=5)
    shell.pass_time(4.999)
    assert first not in shell.replies
    shell.pass_time(0.001)
    assert (200, "preparing") == (shell.reply(first)[0], shell.document(first)["phase"])
    late = shell.arrive("/tool")
    second = shell.call("prepare", deadline=5)
    assert late in shell.waiting

    shell.end(running)

    assert "prepared" == shell.document(second)["phase"]


def test_d05_a_resume_during_a_waiting_prepare(shell: Shell) -> None:
    """That prepare returns phase idle promptly."""
    shell.arrive("/tool")
    prepare = shell.call("prepare")

    resume = shell.call("resume")

    assert "idle" == shell.document(prepare)["phase"] == shell.document(resume)["phase"]


@pytest.mark.parametrize("phase", ["prepared", "committed", "restored"])
def test_d06_requests_wait_while_a_checkpoint_is_open(shell: Shell, phase: str) -> None:
    """Tool, seed, close and aggregate: no answer until resume, not counted."""
    if phase == "restored":
        shell.committed()
        shell = shell.crash()
        shell.restore("c1")
        shell.read()
    else:
        shell.prepared() if phase == "prepared" else shell.committed()
    paths = ("/tool", "/seed_session", "/close_session", "/aggregate_metrics")
    requests = [shell.arrive(path, "s", "r1") for path in paths]

    shell.pass_time(100)

    assert phase == shell.phase
    assert requests == list(shell.waiting)
    assert 0 == at(shell.status(), "report", "counts", "inflight")
    shell.call("resume")
    assert requests == list(shell.admitted)


def test_d08_repeated_calls_have_equal_replies(shell: Shell) -> None:
    """Prepare, commit, restore, resume; commit and restore with others are a 409."""
    shell.seed("s0", "r1")
    prepares = [shell.call("prepare") for _ in range(2)]
    commits = [shell.commit(scope=["r1"])]
    shell.publish()
    commits += [shell.commit(scope=["r1"])]
    assert "checkpoint_conflict" == shell.code(shell.commit(scope=["r1", "r2"]))
    assert "checkpoint_conflict" == shell.code(shell.commit("c1", "e", ["r1"]))
    shell.call("resume")
    resumes = [shell.call("resume") for _ in range(2)]
    fresh = shell.crash()
    restores = [fresh.restore(scope=["r1"])]
    fresh.read()
    restores += [fresh.restore(scope=["r1"])]
    assert "checkpoint_conflict" == fresh.code(fresh.restore(scope=[]))

    for first, second in (prepares, commits, resumes):
        assert shell.reply(first) == shell.reply(second)
    assert fresh.reply(restores[0]) == fresh.reply(restores[1])


def test_d09_a_resume_while_idle_fences(shell: Shell) -> None:
    """409 stale_checkpoint; the 65th resumed id evicts the first."""
    for number in range(64):
        shell.call("resume", f"c{number}")
    assert "stale_checkpoint" == shell.code(shell.call("prepare", "c0"))

    shell.call("resume", "c64")

    assert "stale_checkpoint" == shell.code(shell.call("prepare", "c1"))
    shell.prepared("c0")


def test_d10_a_lease_runs_out(shell: Shell) -> None:
    """After deadline and grace: idle, the id fenced, waiting requests answered."""
    shell.call("prepare", deadline=30)
    waiting = shell.arrive("/tool")
    shell.pass_time(629.999)
    assert "prepared" == shell.phase

    shell.pass_time(0.001)

    assert "idle" == shell.phase
    assert waiting in shell.admitted
    assert "stale_checkpoint" == shell.code(shell.call("prepare"))


def test_d11_one_export_and_one_write_at_a_time(
    shell: Shell, disk_error: CheckpointError
) -> None:
    """A failed write is repeated with the same records, a slow one is joined."""
    shell.seed("s", "r1")
    shell.prepared()
    failing = shell.commit()
    shell.publish(error=disk_error)
    assert 422 == shell.reply(failing)[0]
    slow = shell.commit(deadline=5)
    shell.pass_time(5)
    assert "deadline_exceeded" == shell.code(slow)

    joining = shell.commit(deadline=5)
    shell.publish()

    assert "committed" == shell.document(joining)["phase"]
    writes = [action for action in shell.log if isinstance(action, do.Write)]
    assert 2 == len(writes)
    assert writes[0].records is writes[1].records
    assert 1 == sum(isinstance(action, do.Export) for action in shell.log)


def test_d12_after_a_resume_no_manifest_appears(shell: Shell) -> None:
    """The resume is not answered before the slow writer has been stopped."""
    shell.prepared()
    shell.commit(deadline=5)
    shell.pass_time(5)
    resume = shell.call("resume")
    assert resume not in shell.replies

    shell.stop()
    assert resume in shell.replies
    shell.publish()

    assert {} == shell.directories


def test_d16_an_invalid_state_in_a_batch(
    shell: Shell, disk_error: CheckpointError
) -> None:
    """Nothing installed, phase idle, server usable, restore repeatable."""
    shell.seed("s", "r1")
    shell.committed()
    fresh = shell.crash()
    call = fresh.restore(scope=["r1"])
    waiting = fresh.arrive("/tool", "other")
    assert waiting in fresh.admitted
    fresh.end(waiting)

    fresh.read(error=disk_error)

    assert (422, "idle", {}) == (fresh.reply(call)[0], fresh.phase, fresh.worlds)
    fresh.request("/tool")
    again = fresh.restore(scope=["r1"])
    fresh.read()
    assert ["r1-a1"] == [*at(fresh.document(again), "restored")]


def test_d18_unclaimed_restored_sessions(shell: Shell) -> None:
    """Exported as attempt N+1 if in scope, deleted without a mark otherwise."""
    fresh = restored(shell, "r1", "r2-a4")

    document = fresh.committed("c2", "d2", scope=["r2-a5"])

    assert ["r2-a5"] == [*at(document, "episode_ids")]
    assert {"s1": "seeded"} == fresh.worlds
    assert 0 == fresh.status()["retired_rollouts"]
    fresh.call("resume", "c2")
    fresh.seed("s0", "r1-a1")
    assert 2 == at(fresh.status(), "report", "counts", "sessions")


@pytest.mark.parametrize("status", [500, None])
def test_d19_a_failed_verify(shell: Shell, status: int | None) -> None:
    """Its session is left out of the next commit, which succeeds."""
    shell.seed("s0", "r1")
    shell.seed("s1", "r2")
    verify = shell.arrive("/verify", "s0")
    del shell.worlds["s0"]
    shell.end(verify, status)
    assert 2 == at(shell.status(), "report", "counts", "sessions")

    assert ["r2"] == [*at(shell.committed(scope=["r1", "r2"]), "episode_ids")]


def test_d20_a_retire(shell: Shell) -> None:
    """Refused while open; waits; then 409 with and without prefix, until forgotten."""
    shell.seed("s", "r1")
    shell.prepared()
    assert "invalid_phase" == shell.code(shell.retire("r1", checkpoint_id="c1"))
    shell.call("resume")
    running = shell.arrive("/tool", "s")
    retire = shell.retire("r1")
    assert retire not in shell.replies
    shell.end(running)
    assert {"retired": ["r1"]} == shell.document(retire)

    for arguments in (("/tool", "s"), ("/tool", "t", "r1"), ("/verify", "s", "r1")):
        assert "stale_attempt" == shell.refused[shell.arrive(*arguments)].code
    close, later = shell.arrive("/close_session", "s"), shell.arrive("/tool", "t")
    assert [close, later] == list(shell.admitted)
    shell.seed("u", "r1-a1")
    assert 1 == at(shell.status(), "report", "counts", "sessions")
    shell.forget("r1")
    assert shell.arrive("/tool", "s", "r1") in shell.admitted


def test_d21_a_retire_cut_short_by_its_deadline(shell: Shell) -> None:
    """409, the session blocks prepare, retry frees it; forget before that is 409."""
    shell.seed("s", "r1")
    running = shell.arrive("/tool", "s")
    retire = shell.retire("r1", deadline=5)
    shell.pass_time(5)
    assert "deadline_exceeded" == shell.code(retire)
    shell.end(running)
    assert "retire_incomplete" == shell.code(shell.forget("r1"))
    prepare = shell.call("prepare", deadline=0)
    report: Any = shell.document(prepare)["report"]
    assert (False, ["r1"]) == (at(report, "ready"), [*report["blockers"]])
    shell.call("resume")

    again = shell.retire("r1")

    assert 200 == shell.reply(again)[0]
    assert ({}, True) == (shell.worlds, at(shell.status(), "report", "ready"))
    assert 200 == shell.reply(shell.forget("r1"))[0]


def test_d22_what_was_exported_is_what_is_written(
    shell: Shell, disk_error: CheckpointError
) -> None:
    """Whatever happens to the live state after the cut, also in a retry."""
    shell.seed("s", "r1", world="before")
    shell.prepared()
    shell.commit()
    shell.worlds["s"] = "after"
    shell.publish(error=disk_error)
    shell.commit()
    shell.publish()

    written, _ = shell.directories["d"]

    assert ["before"] == [record.state for record in sessions_of(written.records)]


@pytest.mark.parametrize("waits", [True, False])
def test_d23_a_client_that_disconnects(shell: Shell, waits: bool) -> None:
    """In-flight is back at 0, whether the call ran or waited."""
    if waits:
        shell.prepared()
    call = shell.arrive("/tool")

    shell.end(call, None)

    assert 0 == at(shell.status(), "report", "counts", "inflight")
    assert ({}, {}) == (shell.waiting, shell.admitted)
