"""A model behind an endpoint: replies in both APIs, and what happens when there is none."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import pytest
import stub

from loopback import Loopback

from ipistate.agents.items import input_messages
from ipistate.agents.policy import PolicyError, PolicyReply, Usage
from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject
from ipistate.policies import Api, Patience, Sampling, for_row, openai
from ipistate.policies.endpoint import Endpoint
from ipistate.policies.openai import OpenAIPolicy
from ipistate.policies.refusals import EndpointError, PassingError
from ipistate.policies.wire import MAX_REPLY_BYTES
from ipistate.scoring.verifier import verify


if TYPE_CHECKING:
    from starlette.responses import JSONResponse, Response
    from tests.policies.conftest import Pauses


pytestmark = pytest.mark.anyio
TASK = builtin.rows()[0]
MESSAGES = input_messages(TASK.responses_create_params)
TOOLS: Any = TASK.responses_create_params["tools"]
NOW = 1_700_000_000.0
DATE = "Tue, 14 Nov 2023 22:13:30 GMT"  # ten seconds after NOW


@pytest.fixture
def asked(
    endpoint: Callable[..., Endpoint], pauses: Pauses, api: Api
) -> Callable[..., Awaitable[PolicyReply]]:
    """Return a function that asks a stub once, with changes to the endpoint."""

    async def ask(stubbed: stub.Stub, **changes: Any) -> PolicyReply:
        async with (
            stubbed.network() as network,
            OpenAIPolicy(
                endpoint(**{"api": api} | changes),
                resolver=network,
                sleep=pauses,
                now=lambda: NOW,
            ) as policy,
        ):
            return await policy.respond(MESSAGES, TOOLS)

    return ask


@pytest.fixture
def failure(
    asked: Callable[..., Awaitable[PolicyReply]],
) -> Callable[..., Awaitable[EndpointError]]:
    """Return a function that asks a stub once, and returns the error."""

    async def fail(stubbed: stub.Stub, **changes: Any) -> EndpointError:
        with pytest.raises(PolicyError) as caught:
            await asked(stubbed, **changes)
        assert isinstance(caught.value, EndpointError)
        return caught.value

    return fail


@pytest.mark.parametrize("temper", ["careful", "gullible"])
async def test_episodes_are_those_of_the_policy_behind(
    temper: Literal["careful", "gullible"],
    endpoint: Callable[..., Endpoint],
    api: Api,
    play: Callable[..., Awaitable[tuple[list[JsonObject], int]]],
) -> None:
    """Over either API an episode has the calls, the reward and the usage of its model."""
    played = stub.Stub(stub.scripted(temper))
    async with (
        played.network() as network,
        OpenAIPolicy(endpoint(api=api), resolver=network) as policy,
    ):
        for task in builtin.rows()[::9]:
            items, start = await play(policy, task)
            direct, _ = await play(stub.scripted(temper), task)
            verdict = verify(items[start:], task.injection, task.required_tools)

            assert items == direct
            assert (0.0 if temper == "gullible" else 1.0) == verdict.reward


async def test_a_reply_has_its_usage_and_model(
    asked: Callable[..., Awaitable[PolicyReply]],
) -> None:
    """Tokens and the model's own name come with the items."""
    reply = await asked(stub.Stub())

    assert Usage(11, 7) == reply.usage
    assert stub.MODEL == reply.model
    assert reply.incomplete_reason is None


async def test_requests_say_what_the_model_needs(
    asked: Callable[..., Awaitable[PolicyReply]], api: Api
) -> None:
    """A request goes to the API's path, with the key, the sampling and all tools."""
    served = stub.Stub(key="sk-1")
    sampling = Sampling(temperature=0.5, max_output_tokens=64)
    await asked(served, key="sk-1", sampling=sampling)
    ((path, headers, body),) = served.requests

    assert path == ("/v1/responses" if api is Api.RESPONSES else "/v1/chat/completions")
    assert "Bearer sk-1" == headers["authorization"]
    assert "application/json" == headers["content-type"]
    assert 0.5 == body["temperature"]
    assert len(TOOLS) == len(body["tools"])
    assert "top_p" not in body


async def test_without_a_key_there_is_no_header(
    asked: Callable[..., Awaitable[PolicyReply]],
) -> None:
    """A key is sent only if one was given."""
    served = stub.Stub()
    await asked(served)

    assert "authorization" not in served.requests[0][1]


PASSING: dict[str, Any] = {
    "429": stub.refusing(429, "slow down"),
    "500": stub.refusing(500),
    "503 page": stub.saying("<html>busy</html>", 503, "text/html"),
    "408": stub.refusing(408),
    "529": stub.saying("", 529),
    "error in a reply": stub.saying({"error": {"message": "overloaded"}}),
    "refused": stub.Unconnected(refused=True),
    "broken": stub.cut,
    "read": stub.reset,
    "foreign": stub.garbling("SSH-2.0-stub"),
    "slow": stub.silent,
    "slow connection": stub.Unconnected(refused=False),
    "truncated": stub.saying('{"output": [{"type": "mess'),
    "page": stub.saying("<html>Welcome</html>", 200, "application/json"),
    "empty": stub.saying(""),
    "no object": stub.saying([1]),
    "nothing in it": stub.saying({}),
    "not UTF-8": stub.saying(b'{"output": "\xff"}'),
    "not packed": stub.saying(
        "not packed at all", headers={"content-encoding": "gzip"}
    ),
}


def impatient(name: str, seconds: float) -> dict[str, Any]:
    """Return the seconds after which a fault that is slow is given up."""
    return {"slow": {"read": seconds}, "slow connection": {"connect": seconds}}.get(
        name, {}
    )


@pytest.mark.parametrize("name", PASSING)
async def test_what_passes_is_asked_again(
    name: str, asked: Callable[..., Awaitable[PolicyReply]], pauses: Pauses
) -> None:
    """After one failure that may pass the reply is as if nothing had happened."""
    served = stub.Stub(faults=[PASSING[name]])
    patience = Patience(backoff=1.0, **impatient(name, 1.0))
    reply = await asked(served, patience=patience)

    assert "search_patients" == reply.items[0]["name"]
    assert 1 == len(pauses.seconds)
    assert served.requests[0] == served.requests[-1]


CODES = {
    "429": "rate_limited",
    "500": "endpoint_failed",
    "503 page": "endpoint_failed",
    "error in a reply": "endpoint_failed",
    "refused": "endpoint_unreachable",
    "broken": "endpoint_unreachable",
    "read": "endpoint_unreachable",
    "foreign": "endpoint_unreachable",
    "slow": "endpoint_timeout",
    "slow connection": "endpoint_timeout",
}


@pytest.mark.parametrize("name", CODES)
async def test_what_does_not_pass_is_given_up(
    name: str, failure: Callable[..., Awaitable[EndpointError]], pauses: Pauses
) -> None:
    """After the last try its failure is raised, with a code for its cause."""
    served = stub.Stub(faults=[PASSING[name]] * 9)
    patience = Patience(tries=4, backoff=1.0, **impatient(name, 0.05))
    error = await failure(served, patience=patience)

    assert CODES[name] == error.code
    assert 3 == len(pauses.seconds)
    assert 4 == 9 - len(served.faults)


@pytest.mark.parametrize(
    "name", ["truncated", "page", "empty", "no object", "nothing in it", "not packed"]
)
async def test_nonsense_is_asked_for_twice(
    name: str, failure: Callable[..., Awaitable[EndpointError]], pauses: Pauses
) -> None:
    """An endpoint that keeps replying without sense is not paid for it six times."""
    served = stub.Stub(faults=[PASSING[name]] * 9)
    error = await failure(served)

    assert "malformed_reply" == error.code
    assert openai.MALFORMED_TRIES == 9 - len(served.faults)


ENDS: dict[Api, list[dict[str, Any]]] = {
    Api.CHAT: [{"finish_reason": one} for one in ("abort", "error")],
    Api.RESPONSES: [{"status": one} for one in ("failed", "cancelled")],
}


def ended(**members: Any) -> dict[str, Any]:
    """Return a reply in both APIs that says in these members how it has ended."""
    choice = {**stub.SAID["choices"][0], **members}
    return {**stub.SAID, "choices": [choice], **members}


async def test_a2_a_reply_that_is_broken_off_is_asked_for_again(
    asked: Callable[..., Awaitable[PolicyReply]], api: Api, pauses: Pauses
) -> None:
    """A2: what the endpoint itself broke off passes like any failure of an endpoint."""
    faults = [stub.saying(ended(**one)) for one in ENDS[api]]
    reply = await asked(stub.Stub(faults=faults))

    assert "search_patients" == reply.items[0]["name"]
    assert 2 == len(pauses.seconds)


@pytest.mark.parametrize("number", [0, 1])
async def test_a2_a_reply_that_stays_broken_off_is_a_failure(
    number: int,
    failure: Callable[..., Awaitable[EndpointError]],
    api: Api,
    pauses: Pauses,
) -> None:
    """A2: after the last try the rollout is masked, with what the endpoint has said."""
    fault = stub.saying(ended(**ENDS[api][number]))
    error = await failure(stub.Stub(faults=[fault] * 9), patience=Patience(tries=4))

    assert ("endpoint_failed", 3) == (error.code, len(pauses.seconds))
    assert set(ENDS[api][number].values()) & {*re.findall(r"\w+", str(error))}


NO_ENDS: dict[Api, list[dict[str, Any]]] = {
    Api.CHAT: [
        {"finish_reason": None},
        {"finish_reason": "banana"},
        {"finish_reason": "tool_calls"},
        {"message": {"content": None}},
        {"message": {"content": ""}},
        {"message": {"content": []}},
    ],
    Api.RESPONSES: [
        {"status": "queued"},
        {"status": "incomplete", "incomplete_details": {"reason": "banana"}},
        {"output": []},
        {"output": [{"type": "web_search_call"}]},
        {"output": [{"type": "message", "content": ""}]},
        {"output": [{"type": "message", "content": []}]},
    ],
}


@pytest.mark.parametrize("number", range(6))
async def test_a2_a_reply_without_an_end_or_content_is_asked_for_twice(
    number: int,
    failure: Callable[..., Awaitable[EndpointError]],
    api: Api,
    pauses: Pauses,
) -> None:
    """A2: a 200 that does not say that it is whole, or has nothing in it, is no reply."""
    fault = stub.saying(ended(**NO_ENDS[api][number]))
    error = await failure(stub.Stub(faults=[fault] * 9))

    assert ("malformed_reply", 1) == (error.code, len(pauses.seconds))


FINAL = {
    "key": (stub.refusing(401, "bad key"), "--model-api-key"),
    "forbidden": (stub.refusing(403), "--model-api-key"),
    "model": (stub.refusing(404, "no such model"), "--model"),
    "method": (stub.refusing(405), "--model-api"),
    "request": (stub.refusing(400, "context length exceeded"), "context length"),
    "quota": (stub.refusing(429, "pay", code="insufficient_quota"), "pay"),
    "501": (stub.refusing(501), "501 Not Implemented"),
    "detail": (stub.saying({"detail": "wrong"}, 422), "wrong"),
    "list": (stub.saying([{"error": {"status": 1, "message": "odd"}}], 400), "odd"),
    "text": (stub.saying("no such route", 404, "text/plain"), "no such route"),
    "redirect": (
        stub.saying("", 307, headers={"location": "https://other.test/v1"}),
        "https://other.test/v1",
    ),
    "odd status": (stub.saying("", 499), "HTTP 499"),
}


@pytest.mark.parametrize(("fault", "told"), FINAL.values(), ids=[*FINAL])
async def test_what_cannot_be_cured_fails_at_once(
    fault: Callable[..., JSONResponse | Response],
    told: str,
    failure: Callable[..., Awaitable[EndpointError]],
    pauses: Pauses,
) -> None:
    """A refusal that waiting does not change is told at once, with what to do."""
    served = stub.Stub(faults=[fault])
    error = await failure(served)

    assert "endpoint_refused" == error.code
    assert told in error.message
    assert "http://model.test/v1/" in error.message
    assert not pauses.seconds


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("the assistant message lacks reasoning_content", True),
        ("unknown member: messages[2].reasoning", True),
        ("reasoning_effort is not supported", False),
        ("the context is too long", False),
    ],
)
async def test_a5_a_refusal_that_is_about_reasoning_names_the_option(
    said: str,
    named: bool,
    failure: Callable[..., Awaitable[EndpointError]],
    api: Api,
) -> None:
    """A5: who is refused a second turn reads which option there is; nobody else does."""
    error = await failure(stub.Stub(faults=[stub.refusing(400, said)]))

    assert (named and api is Api.CHAT) == ("--send-reasoning-as" in error.message)


@pytest.mark.parametrize(
    ("headers", "wish"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": DATE}, 10.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({}, 0.0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured(
    status: int,
    headers: dict[str, str],
    wish: float,
    asked: Callable[..., Awaitable[PolicyReply]],
    pauses: Pauses,
) -> None:
    """The pause is at least what the endpoint asks for, and at most a little longer."""
    await asked(stub.Stub(faults=[stub.refusing(status, headers=headers)]))

    assert wish <= pauses.seconds[0] <= wish + 1.0


async def test_too_long_a_wish_is_a_refusal(
    failure: Callable[..., Awaitable[EndpointError]], pauses: Pauses
) -> None:
    """An endpoint that wants to be left alone for an hour is given up at once."""
    fault = stub.refusing(429, headers={"retry-after": "3600"})
    error = await failure(stub.Stub(faults=[fault] * 2))

    assert "rate_limited" == error.code
    assert not pauses.seconds


async def test_pauses_grow_and_are_bounded(
    failure: Callable[..., Awaitable[EndpointError]], pauses: Pauses
) -> None:
    """Each pause may take twice as long as the one before, up to the longest."""
    served = stub.Stub(faults=[stub.refusing(500)] * 9)
    await failure(served, patience=Patience(tries=9, backoff=1.0, longest_pause=5.0))
    limits = [1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0, 5.0]

    assert len(limits) == len(pauses.seconds)
    assert all(
        0 <= pause <= limit for pause, limit in zip(pauses.seconds, limits, strict=True)
    )
    assert len({*pauses.seconds}) > 1


@pytest.mark.parametrize("name", ["x-request-id", "request-id"])
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_errors_name_the_request(
    name: str, status: int, failure: Callable[..., Awaitable[EndpointError]]
) -> None:
    """What the endpoint calls the request stands in the message."""
    fault = stub.saying("{}", status, headers={name: "req_77"})
    error = await failure(stub.Stub(faults=[fault] * 9))

    assert "(request req_77)" in error.message


async def test_the_key_is_told_nowhere(
    failure: Callable[..., Awaitable[EndpointError]],
    asked: Callable[..., Awaitable[PolicyReply]],
    caplog: pytest.LogCaptureFixture,
    endpoint: Callable[..., Endpoint],
) -> None:
    """Neither errors nor logs nor the description of an endpoint show the key."""
    key = "sk-very-secret"
    caplog.set_level(logging.DEBUG)
    echoes = [
        stub.refusing(401, f"Incorrect API key provided: {key}"),
        stub.saying(f"<p>{key}</p>", 404),
        stub.saying({"error": key}),
        stub.saying([key]),
        stub.saying({"output": key, "choices": key}),
        stub.saying("", 302, headers={"location": f"http://h/?key={key}"}),
        stub.saying("{}", headers={"x-request-id": key}),
        stub.garbling(f"illegal status line: {key}"),
    ]
    errors = [await failure(stub.Stub(faults=[one] * 9), key=key) for one in echoes]
    errors.append(await failure(stub.Stub(faults=[stub.saying(key)] * 2), key=key))
    await asked(stub.Stub(key=key), key=key)
    described = endpoint(key=key)

    told = [str(one) + repr(one) for one in errors]
    told += [caplog.text, repr(described), str(described.to_document())]
    assert key not in "".join(told)
    assert "[API key]" in errors[0].message


async def test_hostile_texts_are_shown_in_one_harmless_line(
    failure: Callable[..., Awaitable[EndpointError]],
) -> None:
    """An error message has no control characters and is bounded, whatever was sent."""
    text = "a\nb\x1b[31m\u202e" + "x" * 100_000
    error = await failure(stub.Stub(faults=[stub.refusing(400, text)]))

    assert error.message.isprintable()
    assert len(error.message) < 600


@pytest.mark.parametrize("status", [200, 500])
async def test_a_huge_reply_is_not_read_to_its_end(
    status: int, failure: Callable[..., Awaitable[EndpointError]], pauses: Pauses
) -> None:
    """A reply beyond the limit is refused, and not asked for again."""
    fault = stub.saying(b" " * (MAX_REPLY_BYTES + 1), status)
    error = await failure(stub.Stub(faults=[fault]))

    assert "reply_too_large" == error.code
    assert not pauses.seconds


async def test_a_wrong_content_type_is_not_believed(
    asked: Callable[..., Awaitable[PolicyReply]],
) -> None:
    """A reply is what its bytes are."""
    fault = stub.saying(stub.SAID, media_type="text/html")
    reply = await asked(stub.Stub(faults=[fault]))

    assert ["message"] == [one["type"] for one in reply.items]


async def test_errors_survive_pickling(
    failure: Callable[..., Awaitable[EndpointError]],
) -> None:
    """A worker can hand an error to its parent, its pause included."""
    fault = stub.refusing(503, headers={"retry-after": "2"})
    error = await failure(stub.Stub(faults=[fault] * 9))
    again = pickle.loads(pickle.dumps(error))

    assert (PassingError, "endpoint_failed", 2.0) == (
        type(again),
        again.code,
        again.pause,
    )
    assert str(error) == str(again)
    assert isinstance(again, EndpointError)


class Counting:
    """An endpoint that answers when it is told to, and counts who is waiting."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.go: asyncio.Event = asyncio.Event()
        self.full: asyncio.Event = asyncio.Event()

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[..., Any],
        send: Callable[..., Any],
    ) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == 3:
            self.full.set()
        await self.go.wait()
        self.inside -= 1
        await stub.saying(stub.SAID)()(scope, receive, send)


async def test_no_more_requests_at_a_time_than_allowed(
    endpoint: Callable[..., Endpoint],
) -> None:
    """Of ten turns three ask at a time, and all are answered."""
    counting = Counting()
    async with (
        Loopback({"model.test": counting}) as network,
        OpenAIPolicy(endpoint(concurrency=3), resolver=network) as policy,
        asyncio.TaskGroup() as group,
    ):
        turns = [group.create_task(policy.respond(MESSAGES, TOOLS)) for _ in range(10)]
        await counting.full.wait()
        counting.go.set()

    assert 3 == counting.most
    assert 10 == len([turn.result() for turn in turns])


async def test_who_waits_holds_up_nobody(endpoint: Callable[..., Endpoint]) -> None:
    """While one turn waits to ask again, another one asks, with a limit of one."""
    asleep, second = asyncio.Event(), asyncio.Event()

    async def until_the_other_is_done(_: float) -> None:
        asleep.set()
        await second.wait()

    served = stub.Stub(faults=[stub.refusing(503)])
    async with (
        served.network() as network,
        OpenAIPolicy(
            endpoint(concurrency=1), resolver=network, sleep=until_the_other_is_done
        ) as policy,
        asyncio.TaskGroup() as group,
    ):
        waiting = group.create_task(policy.respond(MESSAGES, TOOLS))
        await asleep.wait()
        await policy.respond(MESSAGES, TOOLS)
        second.set()

    assert waiting.result().items


async def test_bad_arguments_go_back_as_they_were_written(
    asked: Callable[..., Awaitable[PolicyReply]],
    endpoint: Callable[..., Endpoint],
    api: Api,
) -> None:
    """What a model wrote that nobody can read is kept, and sent again unchanged."""
    written = '{"query": '
    call = {"name": "look", "arguments": written}
    document = {
        "output": [{"type": "function_call", "call_id": "c", **call}],
        "choices": [
            {
                "message": {"tool_calls": [{"id": "c", "function": call}]},
                "finish_reason": "tool_calls",
            }
        ],
    }
    served = stub.Stub(faults=[stub.saying(document), stub.saying(document)])
    async with (
        served.network() as network,
        OpenAIPolicy(endpoint(api=api), resolver=network) as policy,
    ):
        items = (await policy.respond(MESSAGES, TOOLS)).items
        more = (await policy.respond([*MESSAGES, *items], TOOLS)).items

    assert written == items[0]["arguments"]
    assert json.dumps(written) in json.dumps(served.requests[1][2])
    assert "c" == items[0]["call_id"] != more[0]["call_id"]


async def test_a_row_samples_as_it_says(
    endpoint: Callable[..., Endpoint], api: Api
) -> None:
    """What was chosen for all rows goes before what a row says, and both are sent."""
    served = stub.Stub()
    chosen = Sampling(temperature=0.25)
    params = {"temperature": 1.0, "top_p": 0.5, "max_output_tokens": 33, "more": 1}
    async with (
        served.network() as network,
        OpenAIPolicy(endpoint(api=api, sampling=chosen), resolver=network) as policy,
    ):
        await for_row(policy, JsonObject(params)).respond(MESSAGES, TOOLS)
        await policy.respond(MESSAGES, TOOLS)
    row, bare = (body for *_, body in served.requests)
    longest = "max_output_tokens" if api is Api.RESPONSES else "max_tokens"

    assert (0.25, 0.5, 33) == (row["temperature"], row["top_p"], row[longest])
    assert {*row} - {*bare} == {"top_p", longest}
    assert "more" not in row


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": "hot"},
        {"temperature": -1},
        {"top_p": 2},
        {"top_p": True},
        {"max_output_tokens": 0},
        {"max_output_tokens": 1.5},
        {"max_output_tokens": None},
    ],
)
async def test_a_row_that_makes_no_sense_is_left_to_the_endpoint(
    params: dict[str, Any],
) -> None:
    """A member of another type or out of range is not sent."""
    assert Sampling() == Sampling().or_of(JsonObject(params))


async def test_other_policies_are_the_same_for_every_row() -> None:
    """Scripted policies know a row by its messages alone."""
    policy = stub.scripted()

    assert policy is for_row(policy, JsonObject({"temperature": 1.0}))


@pytest.mark.parametrize("asleep", [True, False], ids=["in a pause", "in a request"])
async def test_who_is_cancelled_asks_no_more(
    asleep: bool, endpoint: Callable[..., Endpoint]
) -> None:
    """A turn that is cancelled ends at once, wherever it waits."""
    waits, forever = asyncio.Event(), asyncio.Event()

    async def wait(*_: object) -> None:
        waits.set()
        await forever.wait()

    served = stub.Stub(faults=[stub.refusing(503)] * 9)
    app = served.app if asleep else wait
    async with (
        Loopback({"model.test": app}) as network,
        OpenAIPolicy(endpoint(), resolver=network, sleep=wait) as policy,
    ):
        turn = asyncio.create_task(policy.respond(MESSAGES, TOOLS))
        await waits.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert len(served.requests) == int(asleep)
