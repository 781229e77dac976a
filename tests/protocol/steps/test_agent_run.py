"""An agent's ``/run``: each state's request, and each answer's outcome."""

from __future__ import annotations

import json

from typing import Any

import attrs
import pytest

from ipistate.errors import SchemaError
from ipistate.kernel import JsonObject
from ipistate.protocol.steps.agent_run import (
    RUN_BOUNDARIES,
    AgentRun,
    RunBoundary,
    RunLoop,
    RunReturn,
    RunSeed,
    RunVerify,
)
from ipistate.protocol.steps.events import StepMode
from ipistate.protocol.steps.exchange import (
    EffectFault,
    EffectReply,
    FaultKind,
    ServerRole,
)
from ipistate.protocol.steps.failures import EpisodeFailure, EpisodeRefusal, Stage
from ipistate.protocol.steps.outcomes import Advanced


ROW = JsonObject(
    {
        "_ng_rollout_id": "ipi-7",
        "_ng_attempt_index": 1,
        "environment": {"patients": {}},
        "responses_create_params": {"input": "Update the chart."},
    }
)
RUN = AgentRun.of(ROW)
COOKIES, RESPONSE = JsonObject({"r": "1"}), JsonObject({"id": "resp_1"})
RESULT = JsonObject({"reward": 1.0})
LOOP = RunLoop(cookies=COOKIES, verify_mode="wait")
VERIFY = RunVerify(response=RESPONSE, cookies=COOKIES, verify_mode="wait")
RETURN = RunReturn(response=RESPONSE, result=RESULT)


def reply(body: object, status: int = 200, **parts: Any) -> EffectReply:
    """Make a reply."""
    return EffectReply(status=status, body=json.dumps(body).encode(), **parts)


def test_the_row_is_seeded_as_it_is() -> None:
    """Under the capture key of the attempt; the session's key is the rollout's."""
    request = RUN.request(RunSeed())

    assert (request.server, request.path) == (
        ServerRole.RESOURCES,
        "/ng-rollout/ipi-7-a1/seed_session",
    )
    assert (request.body, request.cookies) == (ROW, {})
    assert RUN.session_key == "run:ipi-7"


@pytest.mark.parametrize(
    ("header", "mode"), [("replay", "replay"), ("wait", "wait"), ("x", "wait")]
)
def test_the_seed_gives_the_cookie_and_the_verify_mode(header: str, mode: str) -> None:
    """The cookie is how a restored episode finds its restored session."""
    headers = {"x-ng-checkpoint-verify": header, "x-ng-checkpoint-restart": "1"}
    outcome = RUN.advance(RunSeed(), reply({}, cookies=COOKIES, headers=headers))

    assert Advanced(RunLoop(cookies=COOKIES, verify_mode=mode), True) == outcome


@pytest.mark.parametrize(
    ("captures_tokens", "path"),
    [
        (False, "/ng-rollout/ipi-7-a1/v1/responses"),
        (True, "/ng-rollout/ipi-7-a1/training-token-capture/v1/responses"),
    ],
)
def test_the_loop_is_a_request_of_the_agent_to_itself(
    captures_tokens: bool, path: str
) -> None:
    """With the cookies of the resources server."""
    request = attrs.evolve(RUN, captures_tokens=captures_tokens).request(LOOP)

    assert (request.server, request.path) == (ServerRole.AGENT, path)
    assert request.body == {"input": "Update the chart."}
    assert request.cookies == COOKIES


def test_the_response_is_verified_with_the_row() -> None:
    """With the cookies that the loop has set last."""
    outcome = RUN.advance(LOOP, reply(RESPONSE, cookies=JsonObject({"r": "2"})))
    assert isinstance(outcome, Advanced)
    request = RUN.request(outcome.state)

    assert (request.server, request.path) == (
        ServerRole.RESOURCES,
        "/ng-rollout/ipi-7-a1/verify",
    )
    assert request.body == {**ROW, "response": RESPONSE}
    assert request.cookies == {"r": "2"}


def test_the_result_is_returned() -> None:
    """And nothing is asked after it."""
    assert Advanced(RETURN) == RUN.advance(VERIFY, reply(RESULT))
    with pytest.raises(TypeError, match="no request"):
        RUN.request(RETURN)
    with pytest.raises(TypeError, match="no answer"):
        RUN.advance(RETURN, reply({}))


@pytest.mark.parametrize(
    ("state", "mode"),
    [
        (RunSeed(), StepMode.REPLAY),
        (LOOP, StepMode.REPLAY),
        (VERIFY, StepMode.WAIT),
        (attrs.evolve(VERIFY, verify_mode="replay"), StepMode.REPLAY),
        (RETURN, None),
    ],
)
def test_the_mode_of_each_step(state: RunBoundary, mode: StepMode | None) -> None:
    """A verify is replayed only if the resources server has said so."""
    assert mode == RUN.mode(state)


@pytest.mark.parametrize(
    ("state", "stage"),
    [(RunSeed(), Stage.SEED), (LOOP, Stage.AGENT), (VERIFY, Stage.VERIFICATION)],
)
def test_failures_name_their_stage(state: RunBoundary, stage: Stage) -> None:
    """No reply, an error, and a reply that is no object."""
    answers: list[EffectReply | EffectFault] = [
        EffectFault(FaultKind.CONNECTION),
        reply({}, status=500),
        reply([]),
    ]
    for answer in answers:
        failure = RUN.advance(state, answer)

        assert isinstance(failure, EpisodeFailure)
        assert failure.stage is stage


def test_the_refusal_of_a_checkpoint_is_passed_on() -> None:
    """It is no failure."""
    body = {"error": {"code": "stale_attempt", "detail": "d"}}

    refusal = RUN.advance(LOOP, reply(body, status=409))
    assert EpisodeRefusal(409, "stale_attempt", "d") == refusal


@pytest.mark.parametrize("boundary", [RunSeed(), LOOP, VERIFY, RETURN])
def test_a_boundary_is_the_state(boundary: RunBoundary) -> None:
    """What a checkpoint records of it goes on with the same request."""
    document = RUN_BOUNDARIES.encode(boundary)

    assert next(iter(document)) == "next"
    assert boundary == RUN_BOUNDARIES.decode(document)


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        ({"next": "model"}, "unknown_boundary", "$.next"),
        ({"next": "seed", "handles": {}}, "unknown_member", "$.handles"),
        ({"next": "loop", "verify_mode": "wait"}, "missing_member", "$.cookies"),
        (
            {"next": "loop", "cookies": {"r": None}, "verify_mode": "wait"},
            "wrong_type",
            "$.cookies.r",
        ),
        (
            {"next": "loop", "cookies": {}, "verify_mode": "never"},
            "invalid_verify_mode",
            "$.verify_mode",
        ),
        ({"next": "return", "response": {}}, "missing_member", "$.result"),
    ],
)
def test_bad_boundaries(document: object, code: str, path: str) -> None:
    """Each has a code and the path of what is wrong."""
    with pytest.raises(SchemaError) as caught:
        RUN_BOUNDARIES.decode(document)

    assert (code, path) == (caught.value.code, caught.value.path)


@pytest.mark.parametrize(
    ("row", "code", "path"),
    [
        (
            {"_ng_rollout_id": "r"},
            "missing_member",
            "$.responses_create_params",
        ),
        (
            {"_ng_rollout_id": "r", "responses_create_params": []},
            "wrong_type",
            "$.responses_create_params",
        ),
        (
            {"responses_create_params": {}},
            "rollout_id_required",
            "$._ng_task_index",
        ),
    ],
)
def test_bad_rows(row: dict[str, Any], code: str, path: str) -> None:
    """Each has a code and the path of what is wrong."""
    with pytest.raises(SchemaError) as caught:
        AgentRun.of(JsonObject(row))

    assert (code, path) == (caught.value.code, caught.value.path)
