"""The engine behind llama.cpp's interface: what is asked, and what is made of answers."""

from __future__ import annotations

import json

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from loopback import Loopback
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from ipistate.clients import HttpClient
from ipistate.deploy import (
    Drawing,
    EngineEnd,
    EngineFailedError,
    EngineToken,
    LlamaEngine,
)
from ipistate.kernel import JsonArray, JsonObject


pytestmark = pytest.mark.anyio

DRAWING = Drawing(limit=5)


@attrs.define(eq=False)
class Llama:
    """A server that gives prepared answers, and notes what it is asked."""

    engine: LlamaEngine
    asked: list[tuple[str, Any]] = attrs.field(factory=list)
    answer: bytes = b"{}"
    status: int = 200

    async def respond(self, request: Any) -> Response:
        """Give the answer."""
        self.asked.append((request.url.path, json.loads(await request.body())))
        return Response(self.answer, self.status)

    def says(self, *events: dict[str, Any]) -> None:
        """Prepare a stream of events."""
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self.answer = "".join(lines).encode()

    async def steps(self, drawing: Drawing = DRAWING) -> list[Any]:
        """Generate behind a prompt of two tokens."""
        return [step async for step in self.engine.generate((1, 2), drawing)]


@pytest.fixture
async def llama() -> AsyncIterator[Llama]:
    """Start a server that stands for llama.cpp's."""
    async with Loopback({}) as hosts, HttpClient(resolver=hosts) as client:
        found = Llama(LlamaEngine("http://llama", client))
        route = Route("/{path:path}", found.respond, methods=["POST"])
        hosts.hosts["llama"] = Starlette(routes=[route])
        yield found


def made(*tokens: int, logprobs: tuple[float, ...] = ()) -> dict[str, Any]:
    """Return an event with tokens."""
    listed = [{"logprob": one} for one in logprobs]
    return {"tokens": [*tokens], "completion_probabilities": listed, "stop": False}


async def test_a_prompt_is_rendered_from_messages_and_tools(llama: Llama) -> None:
    """Nothing else of a request changes the text."""
    llama.answer = b'{"prompt": "<user>Hi"}'
    message = JsonObject({"role": "user", "content": "Hi"})
    body = {"messages": JsonArray([message]), "tools": JsonArray(), "seed": 5}

    assert "<user>Hi" == await llama.engine.render(JsonObject(body))
    asked = {"messages": [{"role": "user", "content": "Hi"}]}
    assert [("/apply-template", asked)] == llama.asked


async def test_text_is_split_without_marks_of_its_own(llama: Llama) -> None:
    """No beginning is added: the tokens go behind others."""
    llama.answer = b'{"tokens": [3, 4]}'

    assert (3, 4) == await llama.engine.tokens("a b")
    asked = {"content": "a b", "add_special": False, "parse_special": True}
    assert [("/tokenize", asked)] == llama.asked


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Hi<|im_end|>", "Hi"),
        ("Hi<|im_end|><|endoftext|>", "Hi"),
        ("<|a|> is a mark", "<|a|> is a mark"),
        ("Hi", "Hi"),
    ],
)
async def test_what_is_spoken_has_no_final_mark(
    llama: Llama, text: str, spoken: str
) -> None:
    """Which one ends a reply is the model's choice, and no word of it."""
    llama.answer = json.dumps({"content": text}).encode()

    assert text == await llama.engine.text((1,))
    assert spoken == await llama.engine.spoken((1,))


async def test_tokens_come_with_their_logprobs(llama: Llama) -> None:
    """And in the end the reason; the last event adds no token."""
    last = {"tokens": [9], "stop": True, "stop_type": "eos"}
    llama.says(made(3, logprobs=(-0.5,)), made(4, 5, logprobs=(-1.0,)), last)
    steps = await llama.steps()

    assert [
        EngineToken(3, -0.5),
        EngineToken(4, -1.0),
        EngineToken(5, 0.0),
        EngineEnd("stop"),
    ] == steps
    llama.says({"stop": True, "stop_type": "limit"})
    assert [EngineEnd("length")] == await llama.steps()


async def test_a_drawing_is_asked_for_as_it_is(llama: Llama) -> None:
    """Without a cache; what the caller leaves open is left to the server."""
    llama.says({"stop": True})
    await llama.steps(Drawing(limit=5, temperature=0.0, seed=7))
    ((path, body),) = llama.asked

    assert ("/completion", [1, 2], 5) == (path, body["prompt"], body["n_predict"])
    assert (False, True, 0.0, 7) == tuple(
        body[name] for name in ("cache_prompt", "stream", "temperature", "seed")
    )
    assert not {"top_p", "json_schema"} & body.keys()


@pytest.mark.parametrize(
    ("answer", "status"),
    [(b'{"tokens": []}', 500), (b"{}", 200), (b"[]", 200), (b"no JSON", 200)],
)
async def test_answers_that_are_none(llama: Llama, answer: bytes, status: int) -> None:
    """The worker hears that its engine has failed, and of nothing else."""
    llama.answer, llama.status = answer, status
    with pytest.raises(EngineFailedError) as caught:
        await llama.engine.tokens("a")

    assert "engine_failed" == caught.value.code


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"{}", 503),
        (b"data: no JSON\n\n", 200),
        (b"data: []\n\n", 200),
        (b"data: {}\n\n", 200),
        (b'data: {"tokens": [3], "stop": false}\n\n', 200),
    ],
)
async def test_streams_that_break(llama: Llama, answer: bytes, status: int) -> None:
    """A status, events that are none, and a stream that ends before the reply."""
    llama.answer, llama.status = answer, status
    with pytest.raises(EngineFailedError):
        await llama.steps()
