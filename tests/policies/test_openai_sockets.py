"""The same over real sockets: what only a network can do."""

from __future__ import annotations

import asyncio

from contextlib import asynccontextmanager, suppress

import pytest
import stub

from ipistate.agents.items import input_messages
from ipistate.agents.policy import PolicyError
from ipistate.generate import builtin
from ipistate.policies import Api, Patience, openai
from ipistate.scoring.verifier import verify


pytestmark = pytest.mark.anyio
TASK = builtin.rows()[4]
MESSAGES = input_messages(TASK.responses_create_params)
TOOLS = TASK.responses_create_params["tools"]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    # Loopback is reached directly, wherever the tests run.
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def policy(endpoint, pauses):
    """Return a function that makes a policy of an address."""

    def made(url, **changes):
        return openai.OpenAIPolicy(endpoint(url=url, **changes), sleep=pauses)

    return made


@asynccontextmanager
async def peer(answer):
    """Serve whoever connects by a function of the streams; yields the base URL."""

    async def serve(reader, writer):
        with suppress(ConnectionError):
            await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def sending(*parts):
    """Return a peer that reads the head of a request, sends bytes, and hangs up."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
        await writer.drain()

    return answer


async def silent(reader, writer):
    """Read all there is, and answer nothing."""
    await reader.read()


@pytest.mark.parametrize("api", [*Api])
async def test_an_episode_over_the_network(api, policy, play):
    """Against a real server, with a key, an episode earns its reward."""
    served = stub.Stub(key="sk-1")
    with served.serving() as url:
        async with policy(url, api=api, key="sk-1") as asking:
            items, start = await play(asking, TASK)
    verdict = verify(items[start:], TASK.injection, TASK.required_tools)

    assert 1.0 == verdict.reward
    assert len(served.requests) == 1 + sum(
        one.get("type") == "function_call" for one in items
    )


async def failed(asking):
    """Ask once, and return the error."""
    async with asking:
        with pytest.raises(PolicyError) as caught:
            await asking.respond(MESSAGES, TOOLS)
    return caught.value


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (sending(HEAD + b"content-length: 99\r\n\r\n", b"{"), "endpoint_unreachable"),
        (
            sending(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"5\r\n{"),
            "endpoint_unreachable",
        ),
        (sending(b""), "endpoint_unreachable"),
        (sending(b"SSH-2.0-stub\r\n"), "endpoint_unreachable"),
        (sending(HEAD + b"\r\n", b'{"output": ['), "malformed_reply"),
        (sending(HEAD + b"content-length: 0\r\n\r\n"), "malformed_reply"),
    ],
    ids=["length", "chunks", "nothing", "foreign", "cut", "empty"],
)
async def test_broken_replies(answer, code, policy):
    """A reply that ends too early, or is none, is a failure with a name."""
    async with peer(answer) as url:
        error = await failed(policy(url, patience=Patience(tries=2)))

    assert code == error.code


async def test_nobody_listens(policy, pauses):
    """A port where nobody listens is asked as often as patience says."""
    async with peer(silent) as url:
        pass
    error = await failed(policy(url, patience=Patience(tries=3)))

    assert "endpoint_unreachable" == error.code
    assert url in error.message
    assert 2 == len(pauses.seconds)


@pytest.mark.parametrize(
    "limits", [{"read": 0.05}, {"total": 0.05}], ids=["read", "total"]
)
async def test_an_endpoint_that_is_silent(limits, policy):
    """An answer that does not come is given up after the time that patience says."""
    async with peer(silent) as url:
        error = await failed(policy(url, patience=Patience(tries=1, **limits)))

    assert "endpoint_timeout" == error.code


async def test_an_endpoint_that_dribbles(policy):
    """Bytes that keep coming do not extend the time for the whole reply."""

    async def dribble(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0)

    patience = Patience(tries=1, read=5.0, total=0.1)
    async with peer(dribble) as url:
        error = await failed(policy(url, patience=patience))

    assert "endpoint_timeout" == error.code


async def test_cookies_are_not_kept(policy):
    """What an endpoint sets in one turn does not come back in the next."""
    fault = stub.saying({"output": []}, headers={"set-cookie": "a=1"})
    served = stub.Stub(faults=[fault] * 2)
    with served.serving() as url:
        async with policy(url) as asking:
            await asking.respond(MESSAGES, TOOLS)
            await asking.respond(MESSAGES, TOOLS)

    assert 2 == len(served.requests)
    assert not any("cookie" in headers for _, headers, _ in served.requests)
