"""Whole episodes without a server: reducer, task and engine together, over crashes.

The servers are a table of what has happened in their sessions. It is saved and restored
with the environment's records, as the checkpoints of those servers would be.
"""

from __future__ import annotations

import json

from collections import Counter
from copy import deepcopy
from random import Random
from typing import Any

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel import JsonObject, structure
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.steps import actions as do
from ipistate.protocol.steps import events as on
from ipistate.protocol.steps.agent_run import (
    AgentRun,
    RunBoundary,
    RunLoop,
    RunReturn,
    RunSeed,
)
from ipistate.protocol.steps.engine import EpisodeSteps, handle
from ipistate.protocol.steps.episode_task import (
    EpisodeConclusion,
    EpisodeTask,
    TaskAction,
    TaskPhase,
)
from ipistate.protocol.steps.exchange import (
    EffectFault,
    EffectReply,
    EffectRequest,
    FaultKind,
)
from ipistate.protocol.steps.failures import EpisodeFailure, EpisodeRefusal, Stage
from ipistate.protocol.steps.single_turn import SingleTurn
from ipistate.protocol.steps.tasks import RunBody
from ipistate.protocol.steps.turn_boundaries import (
    TURN_BOUNDARIES,
    SessionHandles,
    TurnReturn,
    TurnSeed,
)
from ipistate.protocol.steps.turn_requests import TurnState


ROLLOUTS = ("a", "b", "c")
TASK: dict[str, Any] = {
    "task_id": {"taskset": "t", "task_id": "1"},
    "task_input": {"responses_create_params": {"input": "x"}, "task_data": {}},
}


def turn_of(key: str) -> SingleTurn:
    """Return the protocol of an episode."""
    episode = attrs.asdict(EpisodeId.from_capture_key(key))
    run = structure({"episode_id": episode, "task": TASK}, RunBody)
    return SingleTurn(run=run, resources_url="http://resources")


def fresh(number: int) -> TurnSeed:
    """Return the first state of an episode, with sessions of this number."""
    return TurnSeed(handles=SessionHandles.of(f"{number:032x}", f"{number:032x}"))


class Servers:
    """A resources server and an agent: what has happened in each session."""

    def __init__(self, verify_mode: str = "wait") -> None:
        """Start without sessions."""
        self.verify_mode = verify_mode
        self.done: Counter[tuple[str, str]] = Counter()

    def answer(self, request: EffectRequest) -> EffectReply:
        """Do what is asked, as the protocol's servers do."""
        path = request.path.split("/", 3)[3]
        name = str(
            next((m for m in request.body.values() if "-session-" in str(m)), "")
        )
        session = name or str(next(iter(request.cookies.values())))
        if path == "v1/responses":
            # The index of the activation: repeated, it runs nothing.
            self.done[path, session] |= 1
        else:
            self.done[path, session] += 1
        self.check()
        cookies = JsonObject(
            {"s": session} if "seed" in path or "agent_s" in path else {}
        )
        body = {"resources_session_id": session, "agent_session_id": session}
        return EffectReply(
            status=200,
            body=json.dumps({**body, "reward": 1.0}).encode(),
            cookies=cookies,
            headers={"x-ng-checkpoint-verify": self.verify_mode},
        )

    def check(self) -> None:
        """No step that is waited for runs twice in a session."""
        limited = {"v1/agent_sessions/close", "v1/responses"}
        limited |= {"verify"} if self.verify_mode == "wait" else set()
        assert {} == {
            one: count
            for one, count in self.done.items()
            if count > 1 and one[0] in limited
        }


# -- one episode


def told(
    task: EpisodeTask[TurnState], *answers: EffectReply | EffectFault
) -> list[Any]:
    """Let a task go on until it is over, and return what it did."""
    rest, did = iter(answers), list[Any]()
    while task.phase is not TaskPhase.OVER:
        if task.phase is TaskPhase.ASKING:
            task, action = task.answered(next(rest))
        else:
            task, action = task.proceeded()
        did.append(action)
    return did


def name(action: object) -> str:
    """Name what was done: the path of a request, the mode of a step, or the event."""
    match action:
        case EffectRequest():
            return action.path.removeprefix("/ng-rollout/r")
        case on.StepStarted():
            return action.mode.value
        case _:
            return type(action).__name__


def names(did: list[Any]) -> list[str]:
    """Name everything that was done."""
    return [*map(name, did)]


def test_a_whole_episode_in_order() -> None:
    """Boundary, step, requests, end of the step; at the end the answer."""
    servers, task = (
        Servers(),
        EpisodeTask(key="r", protocol=turn_of("r"), state=fresh(1)),
    )
    did: list[Any] = []
    while task.phase is not TaskPhase.OVER:
        if task.phase is TaskPhase.ASKING:
            task, action = task.answered(servers.answer(did[-1]))
        else:
            task, action = task.proceeded()
        did.append(action)

    boundary, ended = "BoundaryReached", "StepEnded"
    assert names(did) == [
        *(boundary, "replay", "/seed_session", "/v1/agent_sessions", ended),
        *(boundary, "replay", "/v1/responses", ended),
        *(boundary, "wait", "/v1/agent_sessions/close", ended),
        *(boundary, "wait", "/verify", ended),
        *(boundary, "FinishStarted", "EpisodeConclusion"),
    ]
    assert isinstance(did[-1].outcome, TurnReturn)
    assert [one.path for one in did[-1].cleanup] == ["/ng-rollout/r/close_session"]


def test_a_failure_ends_the_episode() -> None:
    """The step has failed, and both sessions are closed after the answer."""
    task = EpisodeTask(key="r", protocol=turn_of("r"), state=fresh(1))
    did = told(task, EffectFault(FaultKind.CONNECTION, "gone"))

    assert names(did)[-3:] == ["StepEnded", "FinishStarted", "EpisodeConclusion"]
    assert did[-3] == on.StepEnded("r", is_failed=True)
    outcome = did[-1].outcome
    assert isinstance(outcome, EpisodeFailure)
    assert (outcome.stage, outcome.terminal) == (Stage.SEED, False)
    assert len(did[-1].cleanup) == 2


def test_a_refusal_ends_it_too() -> None:
    """As an HTTP error and not as a failure."""
    body = b'{"error":{"code":"admission_closed","detail":"d"}}'
    task = EpisodeTask(key="r", protocol=turn_of("r"), state=fresh(1))

    outcome = told(task, EffectReply(status=409, body=body))[-1].outcome
    assert outcome == EpisodeRefusal(409, "admission_closed", "d")


def test_a_restart_is_marked_inside_the_step() -> None:
    """Before anything else happens, since its mark may have to wait."""
    row = JsonObject({"_ng_rollout_id": "r", "responses_create_params": {}})
    first: RunBoundary = RunSeed()
    task = EpisodeTask(key="run:r", protocol=AgentRun.of(row), state=first)
    for _ in range(3):
        task, _ = task.proceeded()
    headers = {"x-ng-checkpoint-restart": "1"}
    task, marked = task.answered(EffectReply(status=200, headers=headers))
    task, ended = task.proceeded()

    assert (marked, ended) == (on.RestartMarked("run:r"), on.StepEnded("run:r"))
    assert isinstance(task.state, RunLoop)


def test_an_agent_frees_nothing_at_the_end() -> None:
    """Its verify has ended the session of the resources server."""
    row = JsonObject({"_ng_rollout_id": "r", "responses_create_params": {}})
    last: RunBoundary = RunReturn(response=JsonObject(), result=JsonObject())
    task = EpisodeTask(key="run:r", protocol=AgentRun.of(row), state=last)
    for _ in range(3):
        task, action = task.proceeded()

    assert action == EpisodeConclusion(last, ())


def test_a_task_waits_for_one_thing() -> None:
    """What it does not wait for is a mistake of the shell."""
    task = EpisodeTask(key="r", protocol=turn_of("r"), state=fresh(1))
    with pytest.raises(TypeError, match="does not wait for an answer"):
        task.answered(EffectReply(status=200))
    for _ in range(3):
        task, _ = task.proceeded()
    with pytest.raises(TypeError, match="does not wait to proceed"):
        task.proceeded()


# -- many episodes, over crashes


@attrs.frozen(kw_only=True)
class Saved:
    """A checkpoint of all servers: boundaries as JSON, by capture key."""

    boundaries: dict[str, JsonObject | None] = attrs.Factory(dict)
    done: Counter[tuple[str, str]] = attrs.Factory(Counter)
    results: dict[str, object] = attrs.Factory(dict)


class Deployment:
    """An environment server, its servers, and a controller that loses its processes."""

    def __init__(self, verify_mode: str) -> None:
        """Start with nothing saved."""
        self.servers, self.saved, self.sessions = Servers(verify_mode), Saved(), 0
        self.boot()

    def boot(self) -> None:
        """Start fresh processes from what was saved, each episode under a new attempt."""
        saved = self.saved
        self.steps = EpisodeSteps()
        self.tasks: dict[str, EpisodeTask[TurnState]] = {}
        self.requests: dict[str, EffectRequest] = {}
        self.parked: set[str] = set()
        self.servers.done = deepcopy(saved.done)
        self.results = dict(saved.results)
        self.restored: dict[str, JsonObject | None] = {}
        self.attempts = dict.fromkeys(ROLLOUTS, 0)
        for key, boundary in saved.boundaries.items():
            episode = EpisodeId.from_capture_key(key).next_attempt
            self.restored[episode.capture_key] = boundary
            self.attempts[episode.rollout_id] = episode.attempt

    def take(self, event: on.EpisodeEvent) -> tuple[do.EpisodeAction, ...]:
        """Hand an event to the engine."""
        self.steps, actions = handle(self.steps, event, 0.0)
        return actions

    def arrive(self, rollout: str) -> None:
        """Send a rollout's ``/run`` if it has no result and may start."""
        key = EpisodeId(rollout, self.attempts[rollout]).capture_key
        if rollout in self.results or key in self.tasks:
            return
        if not self.steps.is_open and key not in self.restored:
            return
        self.sessions += 1
        saved = self.restored.pop(key, None)
        boundary = None if saved is None else TURN_BOUNDARIES.decode(saved)
        state: TurnState = fresh(self.sessions) if boundary is None else boundary
        self.tasks[key] = EpisodeTask(key=key, protocol=turn_of(key), state=state)
        self.heard(key, self.take(on.EpisodeArrived(key=key, boundary=boundary)))

    def heard(self, key: str, actions: tuple[do.EpisodeAction, ...]) -> None:
        """Let a task go on if it may."""
        if do.Proceed(key) in actions:
            self.did(key, *self.tasks[key].proceeded())
        else:
            self.parked.add(key)

    def did(
        self, key: str, task: EpisodeTask[TurnState], action: TaskAction[TurnState]
    ) -> None:
        """Carry over what a task does."""
        self.tasks[key] = task
        if isinstance(action, EffectRequest):
            self.requests[key] = action
        elif isinstance(action, EpisodeConclusion):
            rollout = EpisodeId.from_capture_key(key).rollout_id
            self.results[rollout] = action.outcome
            del self.tasks[key]
            self.take(on.EpisodeEnded(key))
        else:
            self.heard(key, self.take(action))

    def deliver(self, key: str, *, is_lost: bool) -> None:
        """Let a request be answered, or be lost with its answer."""
        answer = self.servers.answer(self.requests.pop(key))
        fault = EffectFault(FaultKind.CONNECTION)
        self.did(key, *self.tasks[key].answered(fault if is_lost else answer))

    def wake(self, key: str) -> None:
        """Let a parked task ask whether it may go on."""
        self.parked.discard(key)
        self.heard(key, self.take(on.WakeTaken(key)))

    def switch(self) -> None:
        """Open a checkpoint, or resume."""
        self.take(on.StepsClosed() if self.steps.is_open else on.StepsOpened())

    def commit(self) -> None:
        """Save everything if nothing blocks: what waits for its ``/run``, too."""
        if not self.steps.is_ready or self.steps.is_open:
            return
        exported: dict[str, Any] = dict(self.steps.exported())
        boundaries = {
            key: None if one is None else TURN_BOUNDARIES.encode(one)
            for key, one in exported.items()
        }
        self.saved = Saved(
            boundaries={**self.restored, **boundaries},
            done=deepcopy(self.servers.done),
            results=dict(self.results),
        )

    def step(self, random: Random) -> None:
        """Do one thing."""
        match random.choices(range(6), weights=[10, 30, 10, 6, 6, 1])[0]:
            case 0:
                self.arrive(random.choice(ROLLOUTS))
            case 1 if self.requests:
                key = random.choice(sorted(self.requests))
                self.deliver(key, is_lost=random.random() < 0.03)
            case 2 if self.parked:
                self.wake(random.choice(sorted(self.parked)))
            case 3:
                self.switch()
            case 4:
                self.commit()
            case 5:
                self.boot()
            case _:
                pass

    def finish(self) -> None:
        """Let everything come to its end, without further losses."""
        if not self.steps.is_open:
            self.switch()
        while len(self.results) < len(ROLLOUTS):
            for rollout in ROLLOUTS:
                self.arrive(rollout)
            for key in sorted(self.parked):
                self.wake(key)
            for key in sorted(self.requests):
                self.deliver(key, is_lost=False)


@given(seed=st.integers(0, 2**32), verify_mode=st.sampled_from(["wait", "replay"]))
def test_every_rollout_has_one_result_whatever_crashes(
    seed: int, verify_mode: str
) -> None:
    """And in no session an agent plays, closes or is scored a second time."""
    deployment, random = Deployment(verify_mode), Random(seed)
    for _ in range(300):
        deployment.step(random)
    deployment.finish()

    assert {*ROLLOUTS} == deployment.results.keys()
    assert (0, {}) == (len(deployment.steps.live), deployment.restored)
    for outcome in deployment.results.values():
        if isinstance(outcome, EpisodeFailure):
            assert (outcome.failure_kind, outcome.terminal) == ("connection", False)
        else:
            assert isinstance(outcome, TurnReturn)
            assert outcome.result["reward"] == 1.0
