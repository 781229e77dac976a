"""A process in place of one that crashed lets nobody in before it has the sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ipistate.protocol import Settings, resources_participant


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


@pytest.fixture
def waiting(shell: Shell) -> Shell:
    """Return a process that waits for a restore of a checkpoint in directory d."""
    shell.seed("s", "ipi-7")
    shell.prepared("c1")
    shell.commit("c1")
    shell.publish()
    after = type(shell)(shell.directories)
    after.model = None  # it knows nothing of this option
    after.participant = resources_participant(
        Settings(instance="ipi"), awaits_restore=True
    )
    return after


def test_c6_requests_wait_for_the_restores_resume(waiting: Shell) -> None:
    """C6: neither the restore nor anything before it lets them in; its resume does."""
    request = waiting.arrive("/get_inbox", "s")
    waiting.restore(scope=["ipi-7"])
    waiting.read()
    assert request in waiting.waiting
    assert "awaiting_restore" not in waiting.status()

    waiting.call("resume", "r1")

    assert request in waiting.admitted
    assert "awaiting_restore" not in waiting.status()


def test_c6_status_says_what_it_waits_for(waiting: Shell) -> None:
    """C6: a member more, while it waits; the phase is idle, for the restore."""
    status = waiting.status()

    assert (True, "idle") == (status["awaiting_restore"], status["phase"])


def test_c6_a_resume_of_another_process_opens_nothing(waiting: Shell) -> None:
    """C6: the checkpoint that was open at the crash is resumed everywhere."""
    request = waiting.arrive("/get_inbox", "s")
    call = waiting.call("resume", "c1")

    assert {"phase": "idle", "idempotent": True} == waiting.document(call)
    assert request in waiting.waiting


def test_c6_a_restore_that_failed_ends_with_its_resume(waiting: Shell) -> None:
    """C6: its controller has given the sessions up; it may also try again before."""
    request = waiting.arrive("/seed_session", "s", "ipi-8")
    waiting.restore(directory="elsewhere")
    waiting.read()
    assert request in waiting.waiting

    call = waiting.call("resume", "r1")

    assert {"phase": "idle", "idempotent": False} == waiting.document(call)
    assert request in waiting.admitted


def test_c6_a_failed_restore_can_be_repeated(waiting: Shell) -> None:
    """C6: the process stays closed in between."""
    waiting.restore("r1", directory="elsewhere")
    waiting.read()
    call = waiting.restore("r2", scope=["ipi-7"])
    waiting.read()

    assert ["ipi-7-a1"] == waiting.document(call)["restored"]


def test_c6_no_checkpoint_without_the_sessions(waiting: Shell) -> None:
    """C6: a prepare is refused, or a commit would publish that there are none."""
    call = waiting.call("prepare", "c2")

    assert "invalid_phase" == waiting.code(call)
    assert waiting.status()["awaiting_restore"]


def test_c6_a_lease_that_runs_out_opens(waiting: Shell) -> None:
    """C6: after a restore it is as in every process."""
    request = waiting.arrive("/get_inbox", "s")
    waiting.restore(scope=["ipi-7"])
    waiting.read()
    waiting.pass_time(1000)

    assert request in waiting.admitted
    waiting.end(request)
    assert "prepared" == waiting.document(waiting.call("prepare", "c2"))["phase"]
