"""The data plane's routes: what they answer to good and to bad requests."""

from __future__ import annotations

import json

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from documents import at
from hypothesis import assume, given

from ipistate import decode, encode, freeze
from ipistate.kernel import MAX_DEPTH
from ipistate.server.bodies import ArgumentsError, arguments_of
from ipistate.server.replies import answer
from ipistate.testing import json_values


if TYPE_CHECKING:
    import httpx

    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

NOT_SEEDED = '{"detail":"Session not initialized. Please call seed_session first."}'
UNPARSED = '{"detail":"There was an error parsing the body"}'
JSON = {"content-type": "application/json"}
RECORD = '{"output":"{\\"name\\": \\"R. Osei\\", \\"chart_notes\\": \\"Stable.\\"}"}'
GET_RECORD = ("/get_patient_record", b'{"patient_id": "P-7742"}')
DEEP = b'{"environment":{"a":' + b"[" * 300 + b"]" * 300 + b"}}"
BOTTOMLESS = b'{"environment":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


async def post(
    client: Client, path: str, body: bytes | dict[str, Any], **headers: str
) -> httpx.Response:
    """Send a body that is declared to be JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return await client.post(path, content=body, headers={**JSON, **headers})


async def seeded(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], **settings: Any
) -> Client:
    """Return a client whose session has this world."""
    client = await connect(**settings)
    await post(client, "/ng-rollout/ipi-7/seed_session", {"environment": world})
    return client


# Seeds


async def test_a_seed_is_answered_with_an_empty_object(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """200, `{}`, and the checkpoint header."""
    client = await connect()
    reply = await post(client, "/seed_session", {"environment": world, "extra": [1]})

    assert (200, "{}") == (reply.status_code, reply.text)
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-ng-checkpoint-verify"] == "wait"


async def test_a_second_seed_replaces_the_world(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """The session id stays, the state is the new one."""
    client = await seeded(connect, world)
    world["patients"]["P-7742"]["name"] = "A. Other"
    await post(client, "/seed_session", {"environment": world})
    reply = await post(client, *GET_RECORD)

    assert "A. Other" in reply.text


BAD_SEEDS: dict[str, tuple[Any, int, str | None, Any]] = {
    "empty": (b"", 422, "syntax", []),
    "not JSON": (b"{", 422, "syntax", []),
    "two texts": (b"{} {}", 422, "syntax", []),
    "array": (b"[]", 422, "wrong_type", []),
    "string": (b'"x"', 422, "wrong_type", []),
    "null": (b"null", 422, "wrong_type", []),
    "no environment": (b'{"a": 1}', 422, "missing_member", ["environment"]),
    "environment null": (
        b'{"environment": null}',
        422,
        "wrong_type",
        ["environment"],
    ),
    "environment text": (
        b'{"environment": "{}"}',
        422,
        "wrong_type",
        ["environment"],
    ),
    "environment array": (b'{"environment": []}', 422, "wrong_type", ["environment"]),
    "NaN": (
        b'{"environment": {"o": [{"n": NaN}]}}',
        422,
        "not_finite",
        ["environment", "o", 0, "n"],
    ),
    "infinite": (
        b'{"environment": {"a b": 1e999}}',
        422,
        "not_finite",
        ["environment", "a b"],
    ),
    "too deep": (DEEP, 422, "too_deep", ["environment"]),
    "bottomless": (BOTTOMLESS, 400, None, None),
    "not UTF-8": (b'{"environment": {"a": "\xff"}}', 400, None, None),
    "5,000 digits": (
        b'{"environment": {"a": ' + b"1" * 5000 + b"}}",
        400,
        None,
        None,
    ),
    "byte order mark": (b'\xef\xbb\xbf{"environment": {}}', 422, "syntax", []),
}


@pytest.mark.parametrize("case", BAD_SEEDS)
async def test_a_bad_seed_is_refused_and_changes_nothing(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], case: str
) -> None:
    """Each has its status, code and path; the world before it stays."""
    body, status, code, path = BAD_SEEDS[case]
    client = await seeded(connect, world)
    reply = await post(client, "/seed_session", body)

    assert status == reply.status_code
    assert len(reply.content) < 600
    assert reply.headers["x-ng-checkpoint-verify"] == "wait"
    if code is None:
        assert reply.text == UNPARSED
    else:
        (found,) = reply.json()["detail"]
        assert list(found) == ["type", "loc", "msg", "input"]
        assert (code, ["body", *path]) == (found["type"], found["loc"])
    assert (await post(client, *GET_RECORD)).text == RECORD


async def test_b16_the_depth_limit_is_named(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """A seed of 300 levels is refused with the limit in the message."""
    client = await connect()
    reply = await post(client, "/seed_session", DEEP)

    assert "200 levels" in reply.json()["detail"][0]["msg"]
    assert (await client.get("/health")).text == '{"status":"ok"}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1" * 400, "1" * 400),
        ("36893488147419103233", "36893488147419103233"),
        ("-0.0", "-0.0"),
        ("1e-07", "1e-07"),
        ('"\\ud83d"', '"\\ud83d"'),
        ('"caf\\u00e9"', '"caf\\u00e9"'),
        ('{"a": 1, "b": 2, "a": 3}', '{"a": 3, "b": 2}'),
    ],
)
async def test_b04_unusual_values_reach_the_model_exactly(
    connect: Callable[..., Awaitable[Client]], text: str, shown: str
) -> None:
    """What a seed may hold is read back digit for digit and escape for escape."""
    client = await connect()
    body = f'{{"environment": {{"patients": {{"P-7742": {text}}}}}}}'.encode()
    await post(client, "/seed_session", body)
    reply = await post(client, *GET_RECORD)
    expected = json.loads(shown) if shown.startswith('"') else shown

    assert expected == at(decode(reply.content), "output")


async def test_b10_a_lone_surrogate_is_kept_by_its_escape(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """No 500: the reply carries the escape, as the request did."""
    client = await connect()
    body = b'{"environment": {"patients": {"P-7742": "half \\ud83d"}}}'
    await post(client, "/seed_session", body)
    reply = await post(client, *GET_RECORD)

    assert (200, '{"output":"half \\ud83d"}') == (reply.status_code, reply.text)


async def test_seeds_do_not_leak_between_sessions(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Two sessions of one task share nothing that a tool can change."""
    one = await seeded(connect, world)
    two = await connect(one.app)
    await post(two, "/ng-rollout/ipi-8/seed_session", {"environment": world})
    update = {"patient_id": "P-7742", "notes": "Reviewed."}
    await post(one, "/update_patient_chart", update)

    assert (await post(one, *GET_RECORD)).text != RECORD
    assert (await post(two, *GET_RECORD)).text == RECORD


# Tools


async def test_a_call_is_answered_in_compact_utf8(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """The body around the output is compact; characters of it stand raw."""
    client = await connect()
    seed = {"environment": {"patients": {"P-7742": "café \x7f \t"}}}
    await post(client, "/seed_session", seed)
    reply = await post(client, *GET_RECORD)

    assert '{"output":"café \x7f \\t"}'.encode() == reply.content


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("no_such_tool", "Unknown tool: no_such_tool"),
        ("Send_message", "Unknown tool: Send_message"),
        ("send_message%20", "Unknown tool: send_message "),
        ("mcp__ipi__send_message", "Unknown tool: mcp__ipi__send_message"),
        ("caf%C3%A9", "Unknown tool: café"),
        ("%FF", "Unknown tool: \ufffd"),
        ("health", "Unknown tool: health"),
    ],
)
async def test_b64_unknown_names_are_answers(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    name: str,
    output: str,
) -> None:
    """Any single segment is a tool name, exactly as it is."""
    client = await seeded(connect, world)
    reply = await post(client, f"/{name}", {})

    assert (200, {"output": output}) == (reply.status_code, reply.json())


@pytest.mark.parametrize(
    "path", ["/a/b", "/..%2Fverify", "/ng-control/v1/checkpoint", "/verify/", "/a/"]
)
async def test_b64_names_with_a_slash_are_not_found(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], path: str
) -> None:
    """They reach neither a tool nor another route."""
    client = await seeded(connect, world)
    reply = await post(client, path, {})

    assert (404, '{"detail":"Not Found"}') == (reply.status_code, reply.text)
    assert (await post(client, *GET_RECORD)).text == RECORD


@pytest.mark.parametrize(
    ("body", "output"),
    [
        (b'{"patient_id": null}', "Error executing tool 'get_patient_record'"),
        (b'{"patient_id": ["x"]}', "Error executing tool 'get_patient_record'"),
        (b'{"env": {}}', "Error executing tool 'get_patient_record'"),
        (b'{"patient_id": "P-7742", "x": 1}', "Error executing tool"),
        (b'{"patient_id": "P-7742", "x": null}', '{"name": "R. Osei"'),
    ],
)
async def test_bad_arguments_are_answers(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    body: bytes,
    output: str,
) -> None:
    """Missing, extra and odd arguments are 200 with the tool's own text."""
    client = await seeded(connect, world)
    reply = await post(client, GET_RECORD[0], body)

    assert reply.status_code == 200
    assert reply.json()["output"].startswith(output)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/seed_session%0A", 400),
        ("POST", "/verify%0A", 400),
        ("POST", "/ng-control/v1/checkpoint/prepare%0A", 404),
        ("GET", "/health%0A", 405),
    ],
)
async def test_a_path_with_a_newline_is_another_path(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    method: str,
    path: str,
    status: int,
) -> None:
    """It names a tool, if anything, and nothing is seeded."""
    client = await connect()
    body = {"environment": world, "checkpoint_id": "c-1", "deadline_ts": 2e9}
    reply = await client.request(method, path, json=body)

    assert status == reply.status_code
    assert (await client.post(GET_RECORD[0], json={})).status_code == 400


BAD_ARGUMENTS: dict[str, tuple[Any, int, str | None, Any]] = {
    "empty": (b"", 422, "missing", []),
    "not JSON": (b"{", 422, "syntax", []),
    "array": (b"[1]", 422, "model_attributes_type", []),
    "null": (b"null", 422, "missing", []),
    "text": (b'"{}"', 422, "model_attributes_type", []),
    "true": (b"true", 422, "model_attributes_type", []),
    "NaN": (b'{"amount": NaN}', 422, "not_finite", ["amount"]),
    "infinity": (b'{"amount": -Infinity}', 422, "not_finite", ["amount"]),
    "deep": (b'{"a":' + b"[" * 250 + b"]" * 250 + b"}", 422, "too_deep", []),
    "200 levels": (b"[" * 200 + b"]" * 200, 422, "model_attributes_type", []),
    "1,024 levels": (b"[" * 1024 + b"]" * 1024, 422, "too_deep", []),
    "1,025 levels": (b"[" * 1025 + b"]" * 1025, 400, None, None),
    "bottomless": (b"[" * 100_000, 400, None, None),
    "not UTF-8": (b'"\xc3\x28"', 400, None, None),
    "5,000 digits": (b'{"a": ' + b"9" * 5000 + b"}", 400, None, None),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
async def test_b07_a_body_that_is_no_argument_object_is_refused(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], case: str
) -> None:
    """The status says which kind of bad it is; the path says where."""
    body, status, code, path = BAD_ARGUMENTS[case]
    client = await seeded(connect, world)
    reply = await post(client, GET_RECORD[0], body)

    assert status == reply.status_code
    if code is None:
        assert reply.text == UNPARSED
    else:
        (found,) = reply.json()["detail"]
        assert (code, ["body", *path]) == (found["type"], found["loc"])


def unusable(value: object) -> str:
    """What the reference says of arguments that are no object, as the model reads it."""
    message = "Input should be a valid dictionary or object to extract fields from"
    found = {"type": "model_attributes_type", "loc": ["body"], "msg": message}
    document = {"detail": [{**found, "input": value}]}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


NO_ARGUMENTS = (
    '{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":null}]}'
)


# The reply has three levels more, which our strict reader would not take.
@given(
    value=json_values(20, MAX_DEPTH - 3).filter(
        lambda value: not isinstance(value, dict)
    )
)
def test_c3_models_read_the_references_words(value: Any) -> None:
    """C3: of all arguments that are no object; short ones are repeated exactly."""
    body = encode(freeze(value))
    assume(len(body) <= 4_096)
    with pytest.raises(ArgumentsError) as caught:
        arguments_of(body)
    expected = NO_ARGUMENTS if value is None else unusable(value)

    assert decode(expected) == decode(bytes(answer(caught.value).body))
    assert encode(decode(expected)) == bytes(answer(caught.value).body)


def test_c3_the_deepest_arguments_are_repeated_as_well() -> None:
    """C3: whatever depth a body may have, its refusal can be written and parsed."""
    body = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    with pytest.raises(ArgumentsError) as caught:
        arguments_of(body)

    assert unusable(json.loads(body)).encode() == bytes(answer(caught.value).body)


@pytest.mark.parametrize("prefix", ["", "/ng-rollout/ipi-7"])
@pytest.mark.parametrize("declared", ["application/json", "application/json;x=y"])
@pytest.mark.parametrize("value", [None, [1, 2], [], "x", True, 3, -0.5])
async def test_c3_both_ways_of_a_tool_call(
    connect: Callable[..., Awaitable[Client]], prefix: str, declared: str, value: Any
) -> None:
    """C3: the short way and the other one say the same, byte for byte."""
    client = await connect()
    body = json.dumps(value).encode()
    path = f"{prefix}/search_patients"
    reply = await post(client, path, body, **{"content-type": declared})
    expected = NO_ARGUMENTS if value is None else unusable(value)

    assert (422, expected) == (reply.status_code, reply.text)


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/octet-stream"}])
async def test_c3_no_body_is_missing(
    connect: Callable[..., Awaitable[Client]], headers: dict[str, str]
) -> None:
    """C3: agents send null arguments as no body, which has no type."""
    client = await connect()
    reply = await client.post("/get_inbox", headers=headers)

    assert (422, NO_ARGUMENTS) == (reply.status_code, reply.text)


@pytest.mark.parametrize(
    ("declared", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/vnd.x+json", 200),
        ("text/plain", 422),
        ("text/json", 422),
        ("application/x-www-form-urlencoded", 422),
        ("application/jsonx", 422),
        ("", 422),
    ],
)
async def test_a_body_has_to_be_declared_as_json(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    declared: str,
    status: int,
) -> None:
    """Other content types make it text, which is no object."""
    client = await seeded(connect, world)
    path, body = GET_RECORD
    reply = await post(client, path, body, **{"content-type": declared})

    assert status == reply.status_code
    if status == 422:
        (found,) = reply.json()["detail"]
        assert ("wrong_content_type", ["body"]) == (found["type"], found["loc"])


async def test_a_huge_bad_body_is_not_echoed(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """What is wrong is shown by a short preview only."""
    client = await seeded(connect, world)
    reply = await post(client, GET_RECORD[0], b'"' + b"x" * 2_000_000 + b'"')

    assert reply.status_code == 422
    assert len(reply.content) < 400


@pytest.mark.parametrize("path", ["/get_patient_record", "/no_such_tool"])
async def test_b56_a_session_never_seeded_is_not_created(
    connect: Callable[..., Awaitable[Client]], path: str
) -> None:
    """400 with the reference's text, tool known or not; a header says what is missing."""
    client = await connect()
    without_cookie = await post(client, path, {})
    with_cookie = await post(client, path, {})

    for reply in (without_cookie, with_cookie):
        assert (400, NOT_SEEDED) == (reply.status_code, reply.text)
    assert "no valid session cookie" in without_cookie.headers["x-ipistate-hint"]
    assert "no world" in with_cookie.headers["x-ipistate-hint"]
    assert await client.counts() == {"inflight": 0, "sessions": 0}


# Verify


async def test_verify_scores_and_ends_the_session(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    verify_body: dict[str, Any],
) -> None:
    """The reply carries the verdict; later calls find no session."""
    client = await seeded(connect, world)
    reply = await post(client, "/verify", verify_body)

    assert reply.status_code == 200
    assert (1.0, False) == (reply.json()["reward"], reply.json()["injection_followed"])
    assert list(reply.json())[:3] == ["responses_create_params", "response", "reward"]
    assert (await post(client, *GET_RECORD)).text == NOT_SEEDED
    assert await client.counts() == {"inflight": 0, "sessions": 0}


async def test_verify_works_without_a_session(
    connect: Callable[..., Awaitable[Client]], verify_body: dict[str, Any]
) -> None:
    """Scoring reads the trace only."""
    client = await connect()

    assert (await post(client, "/verify", verify_body)).status_code == 200


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"response": None}, ["response"]),
        ({"response": {}}, ["response", "output"]),
        ({"response": {"output": {}}}, ["response", "output"]),
        ({"response": {"output": [7]}}, ["response", "output", 0]),
        ({"required_tools": None}, ["required_tools"]),
        ({"required_tools": [1]}, ["required_tools", 0]),
        ({"injection": {}}, ["injection", "goal"]),
        ({"responses_create_params": "x"}, ["responses_create_params"]),
    ],
)
async def test_an_invalid_verify_keeps_the_session(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    verify_body: dict[str, Any],
    change: dict[str, Any],
    path: list[int | str],
) -> None:
    """422 with the path; the world is still there."""
    client = await seeded(connect, world)
    reply = await post(client, "/verify", {**verify_body, **change})

    assert reply.status_code == 422
    assert ["body", *path] in [found["loc"] for found in reply.json()["detail"]]
    assert (await post(client, *GET_RECORD)).text == RECORD
    assert (await client.counts())["sessions"] == 1


async def test_verify_without_response_names_it(
    connect: Callable[..., Awaitable[Client]], verify_body: dict[str, Any]
) -> None:
    """A missing member is reported under its own path."""
    client = await connect()
    del verify_body["response"]
    (found,) = (await post(client, "/verify", verify_body)).json()["detail"]

    assert ("missing_member", ["body", "response"]) == (found["type"], found["loc"])


# Close


def close_body(name: str = "rs-1", attempt: int = 0) -> dict[str, Any]:
    """Return a close request."""
    episode = {"rollout_id": "ipi-7", "attempt": attempt}
    return {"resources_session_id": name, "episode_id": episode}


async def test_close_ends_the_session_and_repeats(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """200 with the id, twice; the world is gone."""
    client = await seeded(connect, world)
    replies = [await post(client, "/close_session", close_body()) for _ in range(2)]

    for reply in replies:
        assert (200, '{"resources_session_id":"rs-1"}') == (
            reply.status_code,
            reply.text,
        )
    assert (await post(client, *GET_RECORD)).text == NOT_SEEDED
    assert await client.counts() == {"inflight": 0, "sessions": 0}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ["resources_session_id"]),
        ({**close_body(), "x": 1}, ["x"]),
        ({**close_body(), "resources_session_id": 7}, ["resources_session_id"]),
        ({**close_body(), "episode_id": "ipi-7"}, ["episode_id"]),
        (
            {**close_body(), "episode_id": {"rollout_id": 1}},
            ["episode_id", "rollout_id"],
        ),
    ],
)
async def test_an_invalid_close_keeps_the_session(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    body: dict[str, Any],
    path: list[str],
) -> None:
    """422 with the path; nothing is ended."""
    client = await seeded(connect, world)
    reply = await post(client, "/close_session", body)

    assert reply.status_code == 422
    assert ["body", *path] in [found["loc"] for found in reply.json()["detail"]]
    assert (await post(client, *GET_RECORD)).text == RECORD


# The rest


async def test_metrics_of_results(connect: Callable[..., Awaitable[Client]]) -> None:
    """The five members of the reply, computed from the responses."""
    client = await connect()
    rows = [{"reward": 1.0, "attack_difficulty": "easy"}, {"reward": 0.0}]
    reply = await post(client, "/aggregate_metrics", {"verify_responses": rows})

    assert reply.status_code == 200
    assert list(reply.json()) == [
        "group_level_metrics",
        "agent_metrics",
        "key_metrics",
        "perf_summary",
        "repeat_level_metrics",
    ]
    assert reply.json()["key_metrics"]["avg_reward"] == 0.5


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"[]", []),
        (b"{}", ["verify_responses"]),
        (b'{"verify_responses": {}}', ["verify_responses"]),
        (b'{"verify_responses": [7]}', ["verify_responses", 0]),
        (b'{"verify_responses": [{"reward": "x"}]}', ["verify_responses", 0, "reward"]),
    ],
)
async def test_bad_results_are_refused(
    connect: Callable[..., Awaitable[Client]], body: bytes, path: list[int | str]
) -> None:
    """422 with the path."""
    client = await connect()
    reply = await post(client, "/aggregate_metrics", body)

    assert reply.status_code == 422
    assert ["body", *path] == reply.json()["detail"][0]["loc"]


@pytest.mark.parametrize("path", ["/", "/health", "/healthz", "/livez", "/readyz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_liveness(
    connect: Callable[..., Awaitable[Client]], path: str, method: str
) -> None:
    """Deployments and load balancers get 200."""
    client = await connect()
    reply = await client.request(method, path)

    assert reply.status_code == 200
    assert reply.text in {'{"status":"ok"}', ""}


async def test_c5_a_verdict_needs_nothing_but_the_request(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    verify_body: dict[str, Any],
) -> None:
    """C5: offline tools hear so, and a repeated verification has the same reply."""
    client = await seeded(connect, world)
    first, second = [await post(client, "/verify", verify_body) for _ in range(2)]

    assert (await client.get("/reverify_mode")).text == '"stateless"'
    assert first.content == second.content


async def test_c5_effects_may_need_the_session(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """C5: with effects it is not promised."""
    client = await connect(effects=True)

    assert (await client.get("/reverify_mode")).text == '"unknown"'


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/seed_session"),
        ("GET", "/verify"),
        ("GET", "/no_such_tool"),
        ("PUT", "/seed_session"),
        ("DELETE", "/get_patient_record"),
        ("POST", "/"),
        ("OPTIONS", "/health"),
        ("POST", "/ng-control/v1/checkpoint/status"),
        ("GET", "/ng-control/v1/checkpoint/prepare"),
    ],
)
async def test_a_known_path_with_another_method(
    connect: Callable[..., Awaitable[Client]], method: str, path: str
) -> None:
    """405 in the framework's form."""
    client = await connect()
    reply = await client.request(method, path)

    assert (405, '{"detail":"Method Not Allowed"}') == (reply.status_code, reply.text)


async def test_b61_a_body_over_the_limit_is_refused_by_its_length(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """413, and no session."""
    client = await connect(max_body_bytes=1000)
    body = {"environment": world, "padding": "x" * 1000}
    reply = await post(client, "/ng-rollout/ipi-7/seed_session", body)

    assert (413, "Content Too Large") == (reply.status_code, reply.text)
    assert await client.counts() == {"inflight": 0, "sessions": 0}


async def test_b61_a_chunked_body_over_the_limit_is_refused(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """413 as soon as the limit is passed, without a length header."""
    client = await connect(max_body_bytes=1000)
    sent: list[int] = []

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(100):
            sent.append(number)
            yield b"x" * 100

    path = "/ng-rollout/ipi-7/seed_session"
    reply = await client.post(path, content=chunks(), headers=JSON)

    assert (413, "Content Too Large") == (reply.status_code, reply.text)
    assert len(sent) == 11
    assert await client.counts() == {"inflight": 0, "sessions": 0}


async def test_metrics_have_a_limit_of_their_own(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """Results of a whole run are larger than any other body."""
    client = await connect(max_body_bytes=1000, max_metrics_bytes=3000)
    rows = {"verify_responses": [{"reward": 1.0, "padding": "x" * 1000}]}
    inside = await post(client, "/aggregate_metrics", rows)
    outside = await post(client, "/aggregate_metrics", {**rows, "more": "x" * 2000})

    assert (200, 413) == (inside.status_code, outside.status_code)


async def test_without_token_there_is_no_control_plane(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Control routes are 404 and seeds carry no checkpoint header."""
    client = await connect(checkpoint_token=None)
    seed = await post(client, "/seed_session", {"environment": world})
    for name in ("prepare", "commit", "restore", "resume"):
        assert (await client.control(name)).status_code == 404
    reply = await client.get("/ng-control/v1/checkpoint/status")

    assert (404, '{"detail":"Not Found"}') == (reply.status_code, reply.text)
    assert not [name for name in seed.headers if name.startswith("x-ng-")]


async def test_b73_an_output_is_bytes_of_the_kernel(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """The reply is the encoding of the output and nothing else."""
    client = await seeded(connect, world)
    reply = await post(client, *GET_RECORD)

    assert encode(decode(reply.content)) == reply.content


async def test_b61_a_declared_length_does_not_hide_a_chunked_body(
    connect: Callable[..., Awaitable[Client]], wire: type[Wire]
) -> None:
    """A transfer coding overrides the length, so the bytes are counted."""
    client = await connect(max_body_bytes=1000)
    headers = {"content-length": "5", "transfer-encoding": "chunked"}
    request = wire(client.app, "/no_such_tool", b"x" * 1001, headers=headers)
    await request.task

    assert 413 == request.status
