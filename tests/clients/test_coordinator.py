"""The coordinator against participants of all four kinds that note their calls."""

from __future__ import annotations

import time

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.clients.control_client import ControlClient
from ipistate.clients.coordinator import Coordinator
from ipistate.coordination import (
    Failure,
    FailureReason,
    OperationFailedError,
    RestoreFailedError,
)
from ipistate.coordination.participants import Participant
from ipistate.coordination.results import ParticipantAnswer
from ipistate.protocol.episode import EpisodeId


if TYPE_CHECKING:
    from tests.clients.conftest import Deployment


pytestmark = pytest.mark.anyio
EVERYBODY = ("agent-a", "agent-b", "env", "ipi", "policy")
PREPARE = [
    ("prepare", "env"),
    ("prepare", "policy"),
    ("prepare", "agent-a", "agent-b"),
    ("prepare", "ipi"),
]
RESUME = [("resume", *names) for _, *names in PREPARE[::-1]]
RETIRE = [
    ("retire", "env"),
    ("retire", "agent-a", "agent-b"),
    ("retire", "ipi", "policy"),
]
A, B, C = EpisodeId("a"), EpisodeId("b", 2), EpisodeId("c")


def soon() -> float:
    """Return a deadline."""
    return time.time() + 20


async def test_whole_checkpoint(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """Prepare, commit, renew and resume in the orders of the protocol."""
    prepared = await coordinator.prepare("c-1", soon())
    committed = await coordinator.commit("c-1", soon(), "/d", [A, B], prepared.restarts)
    renewed = await coordinator.renew("c-1", 1000.0)
    await coordinator.resume("c-1", soon())

    assert [
        *PREPARE,
        ("commit", *EVERYBODY),
        ("renew", *EVERYBODY),
        *RESUME,
    ] == deployment.called()
    assert prepared.ready
    assert ((A, B), (A, B)) == (committed.scope, committed.episodes)
    assert ("k-1",) == committed.staging_keys
    assert 1600.0 == renewed.lease_expires_at


async def test_participants_keep_their_order(coordinator: Coordinator) -> None:
    """Answers stand in the order in which participants were found."""
    statuses = await coordinator.status()

    assert coordinator.participants == tuple(
        answer.participant for answer in statuses.answers
    )
    assert ["env", "policy", "agent-a", "agent-b", "ipi"] == [
        answer.reply.instance for answer in statuses.answers
    ]


def prepare_reply(
    ready: bool,
    *,
    blockers: list[str] | tuple[Any, ...] = (),
    restarts: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a reply to a prepare."""
    return {
        "phase": "prepared" if ready else "preparing",
        "report": {
            "ready": ready,
            "blockers": [*blockers],
            "blocker_count": len(blockers),
            "counts": {},
            "restarts": [*restarts],
        },
    }


async def test_unready_stage_ends_a_prepare(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """The stage is finished, later ones are untouched, blockers and restarts told."""
    deployment.peers["env"].answers("prepare", prepare_reply(True, restarts=["c", "a"]))
    deployment.peers["agent-b"].answers(
        "prepare",
        prepare_reply(False, blockers=["b-a2", "workers:1"], restarts=["c"]),
    )
    prepared = await coordinator.prepare("c-1", soon())

    assert PREPARE[:3] == deployment.called()
    assert not prepared.ready
    assert ["agent-b"] == [one.participant.name for one in prepared.unready]
    assert ((B,), (A, C)) == (prepared.blockers, prepared.restarts)


async def test_restarts_are_not_committed(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """Every participant gets the same scope, without restarts and without ``stop``."""
    await coordinator.commit("c-1", 1000.0, "/d", [A, B, C, A], [B])
    body = {
        "checkpoint_id": "c-1",
        "deadline_ts": 1000.0,
        "checkpoint_dir": "/d",
        "episode_ids": [
            {"rollout_id": "a", "attempt": 0},
            {"rollout_id": "c", "attempt": 0},
        ],
    }

    assert [[("commit", body)]] * 5 == [
        [call for call in peer.bodies if call[0] != "status"]
        for peer in deployment.peers.values()
        if peer.kind
    ]


async def test_commit_of_everything(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """Without a scope null is sent."""
    committed = await coordinator.commit("c-1", soon(), "/d", None)

    assert committed.scope is None
    assert deployment.peers["ipi"].bodies[-1][1]["episode_ids"] is None


async def test_failing_commit_tells_all_failures(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """The error comes after every call has returned."""
    deployment.peers["ipi"].refuses("commit", "invalid_checkpoint_state", 422)
    deployment.lose("policy")
    with pytest.raises(OperationFailedError) as caught:
        await coordinator.commit("c-1", soon(), "/d", [A])

    assert {("ipi", 422), ("policy", None)} == {
        (one.server.name, one.status) for one in caught.value.failures
    }
    assert [("commit", "agent-a", "agent-b", "env", "ipi")] == deployment.called()


async def test_resume_goes_on_behind_failures(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """Every stage is attempted; the failures come together."""
    deployment.peers["ipi"].refuses("resume", "deadline_exceeded")
    deployment.lose("agent-a")
    with pytest.raises(OperationFailedError) as caught:
        await coordinator.resume("c-1", soon())

    assert [
        ("resume", "ipi"),
        ("resume", "agent-b"),
        ("resume", "policy"),
        ("resume", "env"),
    ] == deployment.called()
    assert {"deadline_exceeded", "unreachable"} == caught.value.codes


async def test_retire_and_forget(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """Callers before callees; rollouts are sorted and distinct."""
    await coordinator.retire("c-1", soon(), [B, A])
    await coordinator.forget("c-1", soon(), ["b", "a", "b"])

    assert [
        *RETIRE,
        *[("forget", *names) for _, *names in RETIRE],
    ] == deployment.called()
    assert ["a", "b"] == deployment.peers["env"].bodies[-1][1]["rollout_ids"]


async def test_empty_retire_and_forget(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """Without names nothing is sent."""
    retired = await coordinator.retire("c-1", soon(), [])
    forgotten = await coordinator.forget("c-1", soon(), [])

    assert ((), (), []) == (retired.answers, forgotten.answers, deployment.called())


async def test_retire_stops_before_callees(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """While an agent still runs, what it calls keeps its state."""
    deployment.peers["agent-a"].refuses("retire", "deadline_exceeded")
    with pytest.raises(OperationFailedError):
        await coordinator.retire("c-1", soon(), [A])

    assert RETIRE[:2] == deployment.called()


async def test_restore(deployment: Deployment, coordinator: Coordinator) -> None:
    """All are asked at once, for the attempts that were checkpointed."""
    restored = await coordinator.restore("r-1", soon(), "/d", [A, B])

    assert [("restore", *EVERYBODY)] == deployment.called()
    assert (EpisodeId("a", 1), EpisodeId("b", 3)) == restored.episodes
    assert {"step-120"} == restored.sources


async def test_failed_restore_is_undone(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """Next attempts are retired, everybody resumed, then the failure is raised."""
    deployment.peers["policy"].refuses("restore", "checkpoint_error")
    with pytest.raises(RestoreFailedError) as caught:
        await coordinator.restore("r-1", 1000.0, "/d", [A, B])
    (_, _, retire, resume) = deployment.peers["ipi"].bodies

    assert [("restore", *EVERYBODY), *RETIRE, *RESUME] == deployment.called()
    assert retire[1] is not None
    assert [
        {"rollout_id": "a", "attempt": 1},
        {"rollout_id": "b", "attempt": 3},
    ] == retire[1]["episode_ids"]
    assert ("r-1", "r-1") == (retire[1]["checkpoint_id"], resume[1]["checkpoint_id"])
    assert time.time() + 20 < retire[1]["deadline_ts"] < time.time() + 31
    assert ("checkpoint_error", ()) == (caught.value.code, caught.value.clean_up)


async def test_failed_clean_up_goes_on(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """A server that is gone keeps nobody from being freed; both failures are told."""
    deployment.lose("env")
    with pytest.raises(RestoreFailedError) as caught:
        await coordinator.restore("r-1", soon(), "/d", [A])

    assert [
        ("restore", "agent-a", "agent-b", "ipi", "policy"),
        *RETIRE[1:],
        *RESUME[:-1],
    ] == deployment.called()
    assert ["restore"] == [one.operation for one in caught.value.failures]
    assert ["retire", "resume"] == [one.operation for one in caught.value.clean_up]


async def test_invalid_reply_fails_an_operation(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """A 200 in the wrong phase is no success."""
    deployment.peers["ipi"].answers(
        "resume", {"phase": "prepared", "idempotent": False}
    )
    with pytest.raises(OperationFailedError) as caught:
        await coordinator.resume("c-1", soon())

    assert {"invalid_reply"} == caught.value.codes


async def test_failing_status(deployment: Deployment, coordinator: Coordinator) -> None:
    """Statuses are complete, or an error tells whose are missing."""
    deployment.lose("ipi")
    with pytest.raises(OperationFailedError) as caught:
        await coordinator.status()

    assert ["ipi"] == [one.server.name for one in caught.value.failures]


@pytest.mark.parametrize(
    ("checkpoint_id", "deadline"),
    [("", 1.0), ("a b", 1.0), ("x" * 129, 1.0), ("c", float("nan")), ("c", 1e999)],
)
async def test_wrong_arguments_are_not_sent(
    deployment: Deployment,
    coordinator: Coordinator,
    checkpoint_id: str,
    deadline: float,
) -> None:
    """An id or a deadline that every server would refuse is refused here."""
    with pytest.raises(ValueError, match=r"characters|finite"):
        await coordinator.prepare(checkpoint_id, deadline)

    assert [] == deployment.called()


async def test_calls_have_their_deadline_and_five_seconds(
    deployment: Deployment, coordinator: Coordinator
) -> None:
    """A call is bounded by max(deadline - now, 0) + 5 seconds."""
    bounds: list[float] = []

    class Spy:
        async def operate(
            self,
            server: Participant,
            operation: str,
            *given: Any,
        ) -> Failure:
            bounds.append(given[-1])
            return Failure(
                server=server, operation=operation, reason=FailureReason.TIMED_OUT
            )

    for deadline in (1010.0, 990.0):
        spied = Coordinator(coordinator.participants[:1], Spy(), clock=lambda: 1000.0)  # type: ignore[arg-type]
        with pytest.raises(OperationFailedError):
            await spied.resume("c-1", deadline)

    assert [15.0, 5.0] == bounds


async def test_watcher_hears_everything(
    deployment: Deployment,
    control: Callable[..., Awaitable[ControlClient]],
    coordinator: Coordinator,
) -> None:
    """Each stage is announced, and each of its replies and failures follows."""
    heard: list[str | tuple[str, ...]] = []

    class Watcher:
        def asked(self, operation: str, participants: tuple[Participant, ...]) -> None:
            heard.append((operation, *[one.name for one in participants]))

        def heard(self, said: Failure | ParticipantAnswer[Any]) -> None:
            heard.append(type(said).__name__)

    client = await control(deployment.network)
    watched = Coordinator(coordinator.participants, client, watch=Watcher())
    deployment.lose("policy")
    with pytest.raises(OperationFailedError):
        await watched.prepare("c-1", soon())
    await Coordinator(coordinator.participants[:1], client, watch=Watcher()).status()

    assert [
        *[("prepare", "env"), "ParticipantAnswer", ("prepare", "policy"), "Failure"],
        *[("status", "env"), "ParticipantAnswer"],
    ] == heard


def test_nobody_to_coordinate() -> None:
    """A coordinator without participants would succeed at everything."""
    with pytest.raises(ValueError, match="no participant"):
        Coordinator([], None)  # type: ignore[arg-type]
