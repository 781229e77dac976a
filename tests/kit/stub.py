"""An endpoint that speaks both APIs, for tests: it plays a policy, and fails on demand.

Its translations are its own, so that a mistake of the policy's would not pass here. It is on the
path of the tests: ``import stub``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import uvicorn

from documents import at
from loopback import Loopback
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ipistate.agents.policy import Policy
from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject
from ipistate.policies import ScriptedPolicy, Scripts
from ipistate.scoring.trajectories import by_row


if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send


MODEL = "stub-1"

SAID: dict[str, Any] = {
    "output": [{"type": "message", "role": "assistant", "content": "Done."}],
    "choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}],
}
"""The shortest reply that is whole, in both APIs."""


def scripted(name: Literal["careful", "gullible"] = "careful") -> ScriptedPolicy:
    """Return a policy that plays the built-in rows."""
    rows = builtin.rows()
    return ScriptedPolicy(
        name, Scripts.of(rows, by_row(builtin.trajectories(), len(rows)))
    )


def refusing(
    status: int,
    message: str = "no",
    headers: Mapping[str, str] | None = None,
    **members: str,
) -> Callable[..., JSONResponse]:
    """Return a fault: an answer with an error, in the usual form."""
    error = {"message": message, **members}
    return lambda: JSONResponse({"error": error}, status, headers=headers)


def saying(
    content: Any,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Callable[..., Response]:
    """Return a fault: an answer of whatever bytes, text or JSON value."""
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    return lambda: Response(content, status, headers, media_type)


class Broken(Response):
    """An answer that never comes to its end, in a way of its own."""

    def __init__(self, way: ASGIApp) -> None:
        super().__init__()
        self.way = way

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        await self.way(scope, receive, send)


async def _cut(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"99")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{"})


async def _reset(scope: Scope, receive: Receive, send: Send) -> None:
    scope["transport"].abort()


async def _silence(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def cut() -> Broken:
    """Fault: the answer ends before its length is reached."""
    return Broken(_cut)


def reset() -> Broken:
    """Fault: the connection ends without an answer."""
    return Broken(_reset)


def silent() -> Broken:
    """Fault: there is no answer."""
    return Broken(_silence)


def garbling(line: str) -> Callable[..., Broken]:
    """Return a fault: an answer that is no HTTP."""

    async def garble(scope: Scope, receive: Receive, send: Send) -> None:
        scope["transport"].write(f"{line}\r\n\r\n".encode())
        scope["transport"].close()

    return lambda: Broken(garble)


class Unconnected:
    """A fault before there is a connection.

    Args:
        refused: Nothing listens; otherwise the host is not found in any time.
    """

    def __init__(self, *, refused: bool) -> None:
        self.refused = refused

    async def place(self, network: StubNetwork, host: str) -> list[Any]:
        """Find a host where it cannot be reached."""
        if not self.refused:
            await asyncio.Event().wait()
        with socket.socket() as unheard:
            unheard.bind(("127.0.0.1", 0))
            return network.place(host, unheard.getsockname()[1])


class StubNetwork(Loopback):
    """Leads from the model's host to a stub, and has the stub's faults of connecting."""

    def __init__(self, stub: Stub) -> None:
        super().__init__({"model.test": stub.app})
        self.stub = stub

    async def resolve(self, host: str, *_: Any, **__: Any) -> list[Any]:
        """Find the stub, or be the next fault."""
        faults = self.stub.faults
        if faults and isinstance(faults[0], Unconnected):
            found: list[Any] = await faults.pop(0).place(self, host)
            return found
        return await super().resolve(host)


class Stub:
    """An endpoint that answers each request by the next fault, or else plays a policy.

    Args:
        policy: Whoever answers; the careful one on the built-in rows by default.
        faults: Functions that make a response, used up one by one.
        key: The API key that requests need, if any.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        faults: list[Callable[..., Any]] | tuple[Any, ...] = (),
        key: str | None = None,
    ) -> None:
        self.policy: Policy = policy or scripted()
        self.faults = [*faults]
        self.key = key
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        """Path, headers and body of every request that came."""
        self.app = Starlette(
            routes=[
                Route("/v1/responses", self._responses, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ]
        )

    def network(self) -> StubNetwork:
        """Return a network of one test, in which the host ``model.test`` leads here."""
        return StubNetwork(self)

    @contextmanager
    def serving(self) -> Generator[str]:
        """Serve on a free port of the loopback in a thread; yields the base URL."""
        config = uvicorn.Config(self.app, log_config=None, lifespan="off", ws="none")
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=server.run, args=([listening],))
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
            finally:
                server.should_exit = True
                thread.join()

    async def _responses(self, request: Request) -> Response:
        body, refused = await self._received(request)
        if refused is not None:
            return refused
        reply = await self.policy.respond(frozen(body["input"]), frozen(body["tools"]))
        document = {
            "id": "resp_stub",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": MODEL,
            "output": [dict(item) for item in reply.items],
            "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
        }
        return JSONResponse(document, headers={"x-request-id": "req_stub"})

    async def _chat(self, request: Request) -> Response:
        body, refused = await self._received(request)
        if refused is not None:
            return refused
        tools = [{"type": "function", **one["function"]} for one in body["tools"]]
        reply = await self.policy.respond([*items_of(body["messages"])], frozen(tools))
        message = message_of(reply.items)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        document = {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }
        return JSONResponse(document, headers={"x-request-id": "req_stub"})

    async def _received(
        self, request: Request
    ) -> tuple[dict[str, Any], Response | None]:
        body = await request.json()
        self.requests.append((request.url.path, dict(request.headers), body))
        if self.faults:
            return body, self.faults.pop(0)()
        given = request.headers.get("authorization")
        if self.key is not None and given != f"Bearer {self.key}":
            return body, refusing(401, f"Incorrect API key provided: {given}")()
        if body["model"] != MODEL:
            return body, refusing(404, f"there is no model {body['model']}")()
        return body, None


def frozen(documents: list[dict[str, Any]]) -> list[JsonObject]:
    """Return documents as policies take them."""
    return [JsonObject(one) for one in documents]


def items_of(messages: list[dict[str, Any]]) -> Iterator[JsonObject]:
    """Read a chat as items."""
    for message in messages:
        if message["role"] == "tool":
            yield JsonObject(
                {
                    "type": "function_call_output",
                    "call_id": message["tool_call_id"],
                    "output": message["content"],
                }
            )
            continue
        if message["content"] is not None:
            yield JsonObject({"role": message["role"], "content": message["content"]})
        for call in message.get("tool_calls", ()):
            yield JsonObject(
                {"type": "function_call", "call_id": call["id"], **call["function"]}
            )


def message_of(items: tuple[JsonObject, ...]) -> dict[str, Any]:
    """Write items as one message of a chat."""
    calls = [
        {
            "id": one["call_id"],
            "type": "function",
            "function": {"name": one["name"], "arguments": one["arguments"]},
        }
        for one in items
        if one["type"] == "function_call"
    ]
    texts: list[str] = [
        at(part, "text")
        for one in items
        if one["type"] == "message"
        for part in at(one, "content")
    ]
    message = {"role": "assistant", "content": "".join(texts) or None}
    return {**message, "tool_calls": calls} if calls else message
