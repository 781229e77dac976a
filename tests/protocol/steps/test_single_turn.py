"""The protocol ``single_agent_turn``: each state's request, and each answer's outcome."""

from __future__ import annotations

import json

from typing import Any

import attrs
import pytest

from ipistate.errors import SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonArray, JsonObject, structure
from ipistate.protocol.steps.events import StepMode
from ipistate.protocol.steps.exchange import (
    EffectFault,
    EffectReply,
    FaultKind,
    ServerRole,
)
from ipistate.protocol.steps.failures import (
    MAX_REASON,
    RETRYABLE,
    EpisodeFailure,
    EpisodeRefusal,
    Stage,
)
from ipistate.protocol.steps.outcomes import Advanced
from ipistate.protocol.steps.single_turn import (
    SingleTurn,
    TurnOutcome,
    turn_reply,
)
from ipistate.protocol.steps.tasks import RunBody
from ipistate.protocol.steps.turn_boundaries import (
    TURN_BOUNDARIES,
    SessionHandles,
    TurnClose,
    TurnInvoke,
    TurnReturn,
    TurnSeed,
    TurnVerify,
)
from ipistate.protocol.steps.turn_requests import (
    TurnSeedAgent,
    TurnState,
)


RUN = structure(
    {
        "episode_id": {"rollout_id": "ipi-7", "attempt": 1},
        "task": {
            "task_id": {"taskset": "ipi:example", "task_id": "clinic-1"},
            "task_input": {
                "responses_create_params": {
                    "input": "Update the chart.",
                    "tools": [{"type": "function", "name": "get_patient_record"}],
                },
                "task_data": {
                    "environment": {"patients": {}},
                    "injection": {"goal": "g"},
                },
            },
        },
    },
    RunBody,
)
TURN = SingleTurn(run=RUN, resources_url="http://resources:8000")
EPISODE = {"rollout_id": "ipi-7", "attempt": 1}
TASK_ID = {"taskset": "ipi:example", "task_id": "clinic-1"}
RESOURCES, AGENT = f"resources-session-{'0' * 32}", f"agent-session-{'f' * 32}"
FRESH = SessionHandles.of("0" * 32, "f" * 32)
RESPONSE = JsonObject({"id": "resp_1", "output": []})
RESULT = JsonObject({"reward": 1.0})
SEEDED = attrs.evolve(FRESH, resources_cookies=JsonObject({"r": "1"}))
HANDLES = attrs.evolve(SEEDED, agent_cookies=JsonObject({"a": "1"}))

SEED = TurnSeed(handles=FRESH)
SEED_AGENT = TurnSeedAgent(
    handles=SEEDED, tool_accesses=JsonArray(), sandbox_access=None
)
INVOKE = TurnInvoke(handles=HANDLES)
CLOSE = TurnClose(handles=HANDLES, response=RESPONSE)
VERIFY = TurnVerify(handles=HANDLES, response=RESPONSE, observations=None)
RETURN = TurnReturn(handles=HANDLES, result=RESULT, observations=None)
STEPS: list[TurnState] = [SEED, SEED_AGENT, INVOKE, CLOSE, VERIFY]


def reply(
    body: object,
    cookies: dict[str, str] | None = None,
    status: int = 200,
    **headers: str,
) -> EffectReply:
    """Make a reply; underscores in names of headers stand for hyphens."""
    return EffectReply(
        status=status,
        body=json.dumps(body).encode(),
        cookies=JsonObject(cookies or {}),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def state_after(outcome: TurnOutcome) -> TurnState:
    """Return the state of an outcome that is one."""
    assert isinstance(outcome, Advanced)
    return outcome.state


def failure_of(state: TurnState, answer: EffectReply | EffectFault) -> EpisodeFailure:
    """Return the failure that an answer causes."""
    outcome = TURN.advance(state, answer)
    assert isinstance(outcome, EpisodeFailure)
    return outcome


# -- the table, row by row


@pytest.mark.parametrize(
    ("state", "mode"),
    [
        (SEED, StepMode.REPLAY),
        (SEED_AGENT, StepMode.REPLAY),
        (INVOKE, StepMode.REPLAY),
        (CLOSE, StepMode.WAIT),
        (VERIFY, StepMode.WAIT),
        (
            attrs.evolve(
                VERIFY, handles=attrs.evolve(HANDLES, resources_verify="replay")
            ),
            StepMode.REPLAY,
        ),
        (RETURN, None),
    ],
)
def test_the_mode_of_each_step(state: TurnState, mode: StepMode | None) -> None:
    """A verify is replayed only if the resources server has said so."""
    assert mode == TURN.mode(state)


def test_the_seed_names_both_sessions_before_anything_is_sent() -> None:
    """A seed that runs again names the same, so nothing is made twice."""
    request = TURN.request(SEED)

    assert (request.server, request.method) == (ServerRole.RESOURCES, "POST")
    assert request.path == "/ng-rollout/ipi-7-a1/seed_session"
    assert request.body == {
        "resources_session_id": RESOURCES,
        "episode_id": EPISODE,
        "task_id": TASK_ID,
        "task_data": {"environment": {"patients": {}}, "injection": {"goal": "g"}},
    }
    assert request == TURN.request(TURN_BOUNDARIES.decode(TURN_BOUNDARIES.encode(SEED)))


def test_then_the_agent_is_seeded_with_the_tools_of_the_row() -> None:
    """Each grant carries the cookie that finds the session of the resources server."""
    answer = reply(
        {"resources_session_id": RESOURCES, "resources_tools": None},
        {"r": "1"},
        x_ng_checkpoint_verify="replay",
    )
    state = state_after(TURN.advance(SEED, answer))
    request = TURN.request(state)

    assert isinstance(state, TurnSeedAgent)
    assert state.handles.resources_verify == "replay"
    assert request.server is ServerRole.AGENT
    assert request.path == "/ng-rollout/ipi-7-a1/v1/agent_sessions"
    assert request.cookies == {}
    grant = {
        "kind": "direct_http",
        "name": "get_patient_record",
        "required": True,
        "base_url": "http://resources:8000",
        "cookies": {"r": "1"},
        "headers": {},
    }
    assert request.body == {
        "agent_session_id": AGENT,
        "episode_id": EPISODE,
        "task_id": TASK_ID,
        "tool_accesses": [grant],
        "sandbox_access": None,
    }


def test_grants_of_the_resources_server_are_passed_on() -> None:
    """It knows its tools better than the row does."""
    granted = [{"kind": "direct_http", "name": "only"}]
    body = {
        "resources_session_id": RESOURCES,
        "resources_tools": granted,
        "sandbox_access": {"url": "u"},
    }
    state = state_after(TURN.advance(SEED, reply(body, {"r": "1"})))

    assert isinstance(state, TurnSeedAgent)
    assert (state.tool_accesses, state.sandbox_access) == (granted, {"url": "u"})


@pytest.mark.parametrize("tools", [None, "all", [], [1, {}, {"name": 7}]])
def test_a_row_without_tools_grants_none(tools: Any) -> None:
    """What names no tool is the model server's to refuse."""
    params = JsonObject({"input": "x", "tools": tools})
    given = attrs.evolve(RUN.task.task_input, responses_create_params=params)
    run = attrs.evolve(RUN, task=attrs.evolve(RUN.task, task_input=given))
    turn = attrs.evolve(TURN, run=run)
    answer = reply({"resources_session_id": RESOURCES}, {"r": "1"})
    state = state_after(turn.advance(SEED, answer))

    assert isinstance(state, TurnSeedAgent)
    assert state.tool_accesses == []


def test_after_both_seeds_the_agent_is_invoked() -> None:
    """Its cookies are kept."""
    answer = reply({"agent_session_id": AGENT}, {"a": "1"})

    assert Advanced(INVOKE) == TURN.advance(SEED_AGENT, answer)


@pytest.mark.parametrize(
    ("captures_tokens", "path"),
    [
        (False, "/ng-rollout/ipi-7-a1/v1/responses"),
        (True, "/ng-rollout/ipi-7-a1/training-token-capture/v1/responses"),
    ],
)
def test_an_invocation_says_that_it_is_the_first(
    captures_tokens: bool, path: str
) -> None:
    """Repeated after a restore it must not run a second time."""
    turn = attrs.evolve(TURN, captures_tokens=captures_tokens)
    request = turn.request(INVOKE)

    assert (request.server, request.path) == (ServerRole.AGENT, path)
    assert request.body is RUN.task.task_input.responses_create_params
    assert request.cookies == {"a": "1"}
    assert request.headers == {"x-ng-agent-activation": "1"}


def test_the_response_is_a_boundary_before_the_close() -> None:
    """The agent's cookies are those it set last."""
    outcome = TURN.advance(INVOKE, reply(RESPONSE, {"a": "2", "b": "1"}))

    handles = attrs.evolve(HANDLES, agent_cookies=JsonObject({"a": "2", "b": "1"}))
    assert Advanced(TurnClose(handles=handles, response=RESPONSE)) == outcome


def test_closing_the_agent_gives_observations_and_cookies() -> None:
    """The cookies of the resources server come back with what the tools have set."""
    request = TURN.request(CLOSE)
    body = {
        "agent_session_id": AGENT,
        "agent_observations": [{"z": 1, "a": 2}],
        "resources_cookies": {"r": "2"},
    }
    outcome = TURN.advance(CLOSE, reply(body))

    assert request.server is ServerRole.AGENT
    assert request.path == "/ng-rollout/ipi-7-a1/v1/agent_sessions/close"
    assert request.body == {"agent_session_id": AGENT, "episode_id": EPISODE}
    handles = attrs.evolve(HANDLES, resources_cookies=JsonObject({"r": "2"}))
    observed = JsonArray([{"z": 1, "a": 2}])
    assert outcome == Advanced(
        TurnVerify(handles=handles, response=RESPONSE, observations=observed)
    )


@pytest.mark.parametrize("body", [{}, {"resources_cookies": None}])
def test_an_agent_may_have_nothing_to_say(body: dict[str, Any]) -> None:
    """The cookies stay as they were."""
    answer = reply({"agent_session_id": AGENT, **body})

    assert Advanced(VERIFY) == TURN.advance(CLOSE, answer)


@pytest.mark.parametrize("observed", [None, [{"a": 1}]])
def test_the_flat_row_is_verified(observed: Any) -> None:
    """As an agent's ``/run`` sends it, so both ways give equal results."""
    state = attrs.evolve(VERIFY, observations=observed)
    request = TURN.request(state)
    expected = {
        "environment": {"patients": {}},
        "injection": {"goal": "g"},
        "responses_create_params": RUN.task.task_input.responses_create_params,
        "response": RESPONSE,
    }
    more = {} if observed is None else {"agent_observations": observed}

    assert (request.server, request.path) == (
        ServerRole.RESOURCES,
        "/ng-rollout/ipi-7-a1/verify",
    )
    assert (request.cookies, request.body) == ({"r": "1"}, {**expected, **more})
    assert Advanced(attrs.evolve(RETURN, observations=observed)) == TURN.advance(
        state, reply(RESULT)
    )


def test_the_reply_has_a_result_or_a_failure() -> None:
    """Exactly one of them."""
    failure = EpisodeFailure(failure_reason="x", terminal=True, stage=Stage.SEED)
    named = {"episode_id": EPISODE, "task_id": TASK_ID}

    assert turn_reply(RUN, RETURN) == {**named, "result": RESULT, "failure": None}
    assert turn_reply(RUN, failure) == {
        **named,
        "result": None,
        "failure": {"failure_reason": "x", "terminal": True, "stage": "seed"},
    }


def test_a_state_to_be_returned_asks_nothing() -> None:
    """The protocol is over."""
    with pytest.raises(TypeError, match="no request"):
        TURN.request(RETURN)
    with pytest.raises(TypeError, match="no answer"):
        TURN.advance(RETURN, reply({}))


@pytest.mark.parametrize("state", [SEED, SEED_AGENT, INVOKE, CLOSE])
def test_a_clean_up_closes_both_sessions(state: TurnState) -> None:
    """Also one that was never made: no seed that is late may make it then."""
    agent, resources = TURN.cleanup(state)

    assert agent == attrs.evolve(
        TURN.request(CLOSE), cookies=state.handles.agent_cookies
    )
    assert resources.path == "/ng-rollout/ipi-7-a1/close_session"
    assert resources.body == {"resources_session_id": RESOURCES, "episode_id": EPISODE}
    assert resources.cookies == state.handles.resources_cookies


@pytest.mark.parametrize("state", [VERIFY, RETURN])
def test_what_is_closed_is_not_closed_again(state: TurnState) -> None:
    """After its close the agent has no session."""
    (request,) = TURN.cleanup(state)

    assert request.server is ServerRole.RESOURCES


@pytest.mark.parametrize("value", ["1", "true", ""])
def test_a_seed_can_make_the_episode_a_restart(value: str) -> None:
    """Only ``1`` says so, from either server."""
    answers: list[tuple[TurnState, EffectReply]] = [
        (SEED, reply({"resources_session_id": RESOURCES}, {"r": "1"})),
        (SEED_AGENT, reply({"agent_session_id": AGENT})),
    ]
    for state, answer in answers:
        marked = attrs.evolve(answer, headers={"x-ng-checkpoint-restart": value})
        outcome = TURN.advance(state, marked)

        assert isinstance(outcome, Advanced)
        assert outcome.is_restart is (value == "1")


@pytest.mark.parametrize("said", ["wait", "Replay", "", "always"])
def test_anything_but_replay_is_wait(said: str) -> None:
    """A checkpoint lets a verify run twice only where that is harmless."""
    answer = reply(
        {"resources_session_id": RESOURCES}, {"r": "1"}, x_ng_checkpoint_verify=said
    )

    handles = state_after(TURN.advance(SEED, answer)).handles
    assert handles.resources_verify == "wait"


# -- failures


@pytest.mark.parametrize(
    ("state", "answer", "stage"),
    [
        (SEED, reply({"resources_session_id": RESOURCES}), Stage.SEED),
        (SEED, reply({}, {"r": "1"}), Stage.SEED),
        (SEED, reply({"resources_session_id": "other"}, {"r": "1"}), Stage.SEED),
        (
            SEED,
            reply(
                {"resources_session_id": RESOURCES, "resources_tools": {}}, {"r": "1"}
            ),
            Stage.SEED,
        ),
        (
            SEED,
            reply(
                {"resources_session_id": RESOURCES, "resources_tools": ["x"]},
                {"r": "1"},
            ),
            Stage.SEED,
        ),
        (SEED_AGENT, reply({"agent_session_id": RESOURCES}), Stage.SEED),
        (INVOKE, reply([]), Stage.AGENT),
        (CLOSE, reply({"agent_session_id": None}), Stage.AGENT),
        (
            CLOSE,
            reply({"agent_session_id": AGENT, "resources_cookies": {"r": 1}}),
            Stage.AGENT,
        ),
        (
            CLOSE,
            reply({"agent_session_id": AGENT, "resources_cookies": ["r"]}),
            Stage.AGENT,
        ),
        (VERIFY, reply(1.0), Stage.VERIFICATION),
    ],
)
def test_replies_that_break_the_contract(
    state: TurnState, answer: EffectReply, stage: Stage
) -> None:
    """Another attempt would meet the same, so the failure is terminal."""
    failure = failure_of(state, answer)

    assert (failure.stage, failure.failure_kind) == (stage, "invalid_reply")
    assert failure.terminal


@pytest.mark.parametrize("state", STEPS)
@pytest.mark.parametrize(
    ("answer", "kind", "terminal"),
    [
        (EffectFault(FaultKind.CONNECTION, "refused"), "connection", False),
        (EffectFault(FaultKind.PAYLOAD, "broke off"), "payload", False),
        (EffectFault(FaultKind.DEADLINE), "deadline", True),
        (EffectReply(status=200, body=b'{"id":'), "payload", False),
        (EffectReply(status=200, body=b"<html>"), "payload", False),
        (EffectReply(status=500), "http_status", True),
        (EffectReply(status=404), "http_status", True),
        (EffectReply(status=302), "http_status", True),
        *((EffectReply(status=s), "http_status", False) for s in sorted(RETRYABLE)),
    ],
)
def test_which_failures_are_terminal(
    state: TurnState, answer: EffectReply | EffectFault, kind: str, terminal: bool
) -> None:
    """What another attempt may not meet again is not."""
    failure = failure_of(state, answer)

    assert (failure.failure_kind, failure.terminal) == (kind, terminal)
    assert failure.to_document()["failure_kind"] == kind


@pytest.mark.parametrize("state", STEPS)
@pytest.mark.parametrize(
    "code", ["stale_attempt", "admission_closed", "checkpoint_error"]
)
def test_the_refusal_of_a_checkpoint_is_no_failure(state: TurnState, code: str) -> None:
    """It is passed on as the HTTP error that it is."""
    answer = reply({"error": {"code": code, "detail": "d"}}, status=409)

    assert EpisodeRefusal(409, code, "d") == TURN.advance(state, answer)


@pytest.mark.parametrize(
    "body",
    [
        b"conflict",
        b"[]",
        b"{}",
        b'{"error":"stale_attempt"}',
        b'{"error":{"code":"other"}}',
        b'{"error":{"code":["stale_attempt"]}}',
        b'{"error":{"code":"unauthorized"}}',
    ],
)
def test_another_conflict_is_a_failure(body: bytes) -> None:
    """Only what the protocol calls a refusal is one."""
    failure = failure_of(INVOKE, EffectReply(status=409, body=body))

    assert (failure.failure_kind, failure.terminal) == ("http_status", True)


def test_a_refusal_without_a_detail_is_one() -> None:
    """The code decides."""
    answer = EffectReply(status=409, body=b'{"error":{"code":"stale_attempt"}}')

    assert EpisodeRefusal(409, "stale_attempt", "") == TURN.advance(SEED, answer)


def test_reasons_are_bounded() -> None:
    """However much a server has to say."""
    failure = failure_of(SEED, EffectFault(FaultKind.CONNECTION, "x" * 10_000))
    shown = failure_of(SEED, EffectReply(status=500, body=b"\xff" * 10_000))

    assert len(failure.failure_reason) == MAX_REASON
    assert len(shown.failure_reason) < 1000


# -- boundaries


@pytest.mark.parametrize("boundary", [SEED, INVOKE, CLOSE, VERIFY, RETURN])
def test_a_boundary_is_the_state(boundary: Any) -> None:
    """What a checkpoint records of it goes on with the same request."""
    document = TURN_BOUNDARIES.encode(boundary)

    assert [*document][:2] == ["next", "handles"]
    assert boundary == TURN_BOUNDARIES.decode(document)


HANDLES_DOCUMENT = TURN_BOUNDARIES.encode(INVOKE)["handles"]


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"resources_session_id": "x"}, "invalid_session_id", ".resources_session_id"),
        ({"agent_session_id": RESOURCES}, "invalid_session_id", ".agent_session_id"),
        (
            {"agent_session_id": AGENT.upper()},
            "invalid_session_id",
            ".agent_session_id",
        ),
        ({"resources_cookies": {"a b": 1}}, "wrong_type", '.resources_cookies["a b"]'),
        ({"agent_cookies": []}, "wrong_type", ".agent_cookies"),
        ({"resources_verify": "maybe"}, "invalid_verify_mode", ".resources_verify"),
        ({"resources_verify": None}, "wrong_type", ".resources_verify"),
        ({"more": 1}, "unknown_member", ".more"),
    ],
)
def test_bad_handles(changed: dict[str, Any], code: str, path: str) -> None:
    """Each has a code and the path of what is wrong."""
    assert isinstance(HANDLES_DOCUMENT, JsonObject)
    document = {"next": "invoke_agent", "handles": {**HANDLES_DOCUMENT, **changed}}
    with pytest.raises(SchemaError) as caught:
        TURN_BOUNDARIES.decode(document)

    assert (code, f"$.handles{path}") == (caught.value.code, caught.value.path)


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        (None, "wrong_type", "$"),
        ("seed", "wrong_type", "$"),
        ({"handles": {}}, "missing_member", "$.next"),
        ({"next": 1}, "wrong_type", "$.next"),
        ({"next": "loop"}, "unknown_boundary", "$.next"),
        (
            {"next": "seed", "schema_version": 2},
            "unsupported_version",
            "$.schema_version",
        ),
        ({"next": "seed", "schema_version": 1.0}, "wrong_type", "$.schema_version"),
        (
            {"next": "close_agent", "handles": HANDLES_DOCUMENT},
            "missing_member",
            "$.response",
        ),
        (
            {"next": "verify", "handles": HANDLES_DOCUMENT, "response": {}},
            "missing_member",
            "$.observations",
        ),
        (
            {"next": "return", "handles": HANDLES_DOCUMENT, "response": {}},
            "missing_member",
            "$.result",
        ),
        (
            {"next": "close_agent", "handles": HANDLES_DOCUMENT, "response": "x"},
            "wrong_type",
            "$.response",
        ),
    ],
)
def test_bad_boundaries(document: object, code: str, path: str) -> None:
    """Each has a code and the path of what is wrong."""
    with pytest.raises(SchemaError) as caught:
        TURN_BOUNDARIES.decode(document)

    assert (code, path) == (caught.value.code, caught.value.path)


def test_a_turn_is_pure() -> None:
    """The same answer to the same state gives the same, and changes neither."""
    answer = reply({"resources_session_id": RESOURCES}, {"r": "1"})
    outcomes = [TURN.advance(SEED, answer) for _ in range(2)]

    assert outcomes[0] == outcomes[1]
    assert SEED.handles == FRESH
    assert EMPTY_OBJECT == FRESH.resources_cookies
