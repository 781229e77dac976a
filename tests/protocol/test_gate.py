"""Admission of data requests, and the sessions they leave (sections 3.3 and 3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel.values import JsonObject
from ipistate.protocol import Readiness
from ipistate.protocol.actions import Write
from ipistate.protocol.events import RequestEnded
from ipistate.protocol.records import Manifest


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


def sessions(shell: Shell) -> dict[str, str]:
    """Return the capture key of each tracked session."""
    return {s: e.capture_key for s, e in shell.participant.part.sessions.items()}


def counts(shell: Shell) -> JsonObject:
    """Return the counts of the report."""
    return JsonObject(at(shell.status(), "report", "counts"))


def test_an_open_gate_admits_at_once(shell: Shell) -> None:
    """While no checkpoint is open, requests run and are counted."""
    request = shell.arrive("/get_patient_record")

    assert [request] == list(shell.admitted)
    assert {"inflight": 1, "sessions": 0} == counts(shell)
    shell.end(request)
    assert {"inflight": 0, "sessions": 0} == counts(shell)


def test_a_seed_with_a_prefix_binds_its_session(shell: Shell) -> None:
    """The binding happens when the seed ends, with the id after the handler."""
    request = shell.arrive("/seed_session", "cookie", "ipi-7")
    assert {} == sessions(shell)

    shell.end(request, session="assigned")

    assert {"assigned": "ipi-7"} == sessions(shell)


@pytest.mark.parametrize("status", [None, 199, 300, 422, 500])
def test_only_success_binds_or_ends(shell: Shell, status: int | None) -> None:
    """A request that failed changes nothing for the participant."""
    shell.request("/seed_session", "a", "ipi-7", status)
    assert {} == sessions(shell)
    shell.seed("s", "ipi-7")

    shell.request("/verify", "s", status=status)
    shell.request("/close_session", "s", status=status)

    assert {"s": "ipi-7"} == sessions(shell)


@pytest.mark.parametrize("path", ["/verify", "/close_session"])
def test_verify_and_close_end_a_session(shell: Shell, path: str) -> None:
    """After a 2xx the session is not tracked any more; twice is harmless."""
    shell.seed("s", "ipi-7")
    shell.seed("t", "ipi-8")

    shell.request(path, "s", status=204)
    shell.request(path, "s")

    assert {"t": "ipi-8"} == sessions(shell)


def test_a_seed_without_a_prefix_is_not_tracked(shell: Shell) -> None:
    """It is served, but no checkpoint can name it."""
    shell.seed("s", None)

    assert {} == sessions(shell)


def test_other_paths_never_bind(shell: Shell) -> None:
    """Only the seed route binds, prefix or not."""
    shell.request("/get_patient_record", "s", "ipi-7")
    shell.request("/seed_session/x", "s", "ipi-7")

    assert {} == sessions(shell)


def test_seeding_again_binds_again(shell: Shell) -> None:
    """One cookie, two seeds: the later episode holds the session."""
    shell.seed("s", "ipi-7")
    shell.seed("s", "ipi-8")

    assert {"s": "ipi-8"} == sessions(shell)


@pytest.mark.parametrize(
    "path",
    ["/tool", "/seed_session", "/verify", "/close_session", "/aggregate_metrics"],
)
def test_requests_wait_while_the_gate_is_closed(shell: Shell, path: str) -> None:
    """No answer and no count until the resume, then all of them run."""
    shell.prepared()

    request = shell.arrive(path, "s", "ipi-7")

    assert [request] == list(shell.waiting)
    assert {"inflight": 0, "sessions": 0} == counts(shell)
    shell.call("resume")
    assert [request] == list(shell.admitted)


def test_waiting_requests_are_admitted_in_their_order(shell: Shell) -> None:
    """First come, first served."""
    shell.prepared()
    requests = [shell.arrive("/tool", f"s{n}") for n in range(5)]

    shell.call("resume")

    assert requests == list(shell.admitted)


def test_a_waiting_request_may_leave(shell: Shell) -> None:
    """A disconnect while waiting leaves no trace."""
    shell.prepared()
    gone, stays = shell.arrive("/tool"), shell.arrive("/tool")

    shell.end(gone, None)
    shell.call("resume")

    assert [stays] == list(shell.admitted)


def test_an_unknown_end_changes_nothing(shell: Shell) -> None:
    """An end that comes twice is harmless."""
    request = shell.request("/tool")
    before = shell.participant

    shell.send(RequestEnded(request, 200, "s"))

    assert before == shell.participant


def test_a_disconnect_uncounts_at_once(shell: Shell) -> None:
    """A cancelled tool call leaves in-flight at 0, and a waiting prepare goes on."""
    request = shell.arrive("/tool")
    prepare = shell.call("prepare")

    shell.end(request, None)

    assert "prepared" == shell.document(prepare)["phase"]


def test_b46_a_late_call_of_an_earlier_attempt_is_refused(shell: Shell) -> None:
    """A restored session answers its own attempt, not the one before it."""
    shell.seed("s", "ipi-7-a1")
    before = shell.participant

    for path in ("/tool", "/verify", "/seed_session"):
        request = shell.arrive(path, "s", "ipi-7")

        assert (409, "stale_attempt") == (
            shell.refused[request].status,
            shell.refused[request].code,
        )
    assert before == shell.participant


@pytest.mark.parametrize(
    ("path", "session", "episode"),
    [
        ("/close_session", "s", "ipi-7"),
        ("/tool", "s", None),
        ("/tool", "s", "ipi-7-a1"),
        ("/tool", "s", "ipi-7-a2"),
        ("/tool", "s", "ipi-8"),
        ("/tool", "other", "ipi-7"),
    ],
)
def test_what_is_not_stale_is_admitted(
    shell: Shell, path: str, session: str, episode: str | None
) -> None:
    """Closes always pass; so does everything that names no earlier attempt."""
    shell.seed("s", "ipi-7-a1")

    assert shell.arrive(path, session, episode) in shell.admitted


def test_a_stale_request_is_refused_when_the_gate_opens(shell: Shell) -> None:
    """The check comes after the wait: what a restore brought counts."""
    shell.directories.update(committed(shell))
    fresh = shell.crash()
    fresh.restore(scope=["ipi-7"])
    fresh.read()
    late, live = fresh.arrive("/tool", "s", "ipi-7"), fresh.arrive("/tool", "s")

    fresh.call("resume", "r1")

    assert [late] == list(fresh.refused)
    assert [live] == list(fresh.admitted)


def committed(shell: Shell) -> dict[str, tuple[Write, Manifest]]:
    """Commit one session and return the directories."""
    shell.seed("s", "ipi-7")
    shell.committed()
    return shell.directories


@given(
    st.lists(st.sampled_from(["seed", "tool", "fail", "verify", "close"]), max_size=20)
)
def test_counts_return_to_zero(shell_class: type[Shell], kinds: list[str]) -> None:
    """Whatever the outcomes, nothing stays in flight."""
    shell = shell_class()
    running = [
        shell.arrive(
            "/seed_session" if kind == "seed" else f"/{kind}", f"s{n % 3}", "r"
        )
        for n, kind in enumerate(kinds)
    ]

    for number, kind in zip(running, kinds, strict=True):
        shell.end(number, None if kind == "fail" else 200)

    assert 0 == counts(shell)["inflight"]


def test_a_report_lists_at_most_100_blockers() -> None:
    """The list is capped, the number is not."""
    report = Readiness(
        ready=False, blockers=tuple(f"r{n}" for n in range(120)), counts={}
    )

    document = report.to_document()

    assert (False, 120, 100) == (
        document["ready"],
        document["blocker_count"],
        len(at(document, "blockers")),
    )


def test_what_a_request_makes_is_bound_at_once(shell: Shell) -> None:
    """Before the request ends, so that a prepare that waits for it sees the sessions."""
    shell.seed("s", "ipi-7")
    fork = shell.arrive("/fork", "s")
    shell.make(fork, a="ipi-8", b="ipi-9-a2")

    assert {"s": "ipi-7", "a": "ipi-8", "b": "ipi-9-a2"} == sessions(shell)
    assert {"inflight": 1, "sessions": 3} == counts(shell)


def test_a_request_makes_all_its_sessions_or_none(shell: Shell) -> None:
    """One retired attempt is enough; the refused request is not in flight any more."""
    shell.retire("ipi-9-a1")
    fork = shell.arrive("/fork", "s")
    shell.make(fork, a="ipi-8", b="ipi-9")

    assert "stale_attempt" == shell.refused[fork].code
    assert {"inflight": 0, "sessions": 0} == counts(shell)


def test_a_refused_maker_lets_a_prepare_go_on(shell: Shell) -> None:
    """A prepare that waits for the request is answered when it is refused."""
    shell.retire("ipi-9")
    fork = shell.arrive("/fork", "s")
    prepare = shell.call("prepare")
    assert prepare not in shell.replies

    shell.make(fork, a="ipi-9")

    assert "prepared" == shell.document(prepare)["phase"]


def test_who_is_not_in_flight_makes_nothing(shell: Shell) -> None:
    """A request that has ended, or that nobody knows, binds no session."""
    ended = shell.request("/fork")

    shell.make(ended, a="ipi-8")
    shell.make(99, b="ipi-8")

    assert {} == sessions(shell)


def test_what_is_made_while_a_prepare_waits_is_exported(shell: Shell) -> None:
    """A fork that was let in before the prepare is part of the checkpoint."""
    shell.seed("s", "ipi-7")
    fork = shell.arrive("/fork", "s")
    shell.call("prepare")
    shell.make(fork, a="ipi-8")
    shell.end(fork)
    call = shell.commit()
    shell.publish()

    assert ["ipi-7", "ipi-8"] == list(at(shell.document(call), "episode_ids"))


def test_idle_sessions_are_swept(shell: Shell) -> None:
    """Their worlds are dropped and they are not tracked; unbound ones go, too."""
    shell.seed("s", "ipi-7")
    shell.seed("t", "ipi-8")
    shell.worlds["unbound"] = "seeded"

    shell.find_idle("s", "unbound")

    assert {"t": "ipi-8"} == sessions(shell)
    assert ["t"] == list(shell.worlds)


def test_a_session_in_use_is_not_swept(shell: Shell) -> None:
    """A request in flight keeps its session, however long it takes."""
    shell.seed("s", "ipi-7")
    shell.arrive("/tool", "s")

    shell.find_idle("s")

    assert {"s": "ipi-7"} == sessions(shell)


@pytest.mark.parametrize("phase", ["preparing", "prepared", "committed", "restored"])
def test_nothing_is_swept_while_a_checkpoint_is_open(shell: Shell, phase: str) -> None:
    """Agents do not call then, which makes nobody idle."""
    shell.seed("s", "ipi-7")
    busy = shell.arrive("/tool", "other") if phase == "preparing" else None
    if phase in {"preparing", "prepared"}:
        shell.call("prepare")
    else:
        shell.committed()
    if phase == "restored":
        shell = shell.crash()
        shell.restore(scope=["ipi-7"])
        shell.read()
    assert phase == shell.phase

    shell.find_idle("s")

    assert ["s"] == list(sessions(shell))
    assert (busy is not None) == bool(shell.admitted)


def test_a_session_that_is_being_freed_is_not_swept(shell: Shell) -> None:
    """Its name stays taken until it is free."""
    shell.frees_at_once = False
    shell.seed("s", "ipi-7")
    retire = shell.retire("ipi-7")

    shell.find_idle("s")

    assert {"s": "ipi-7"} == sessions(shell)
    shell.free()
    assert ["ipi-7"] == list(at(shell.document(retire), "retired"))
