"""The same over real sockets: what only a network can do."""

from __future__ import annotations

import asyncio
import json

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import stub

from ipistate.agents.items import input_messages
from ipistate.agents.policy import PolicyError
from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject
from ipistate.policies import Api, Patience, openai
from ipistate.policies.endpoint import Endpoint
from ipistate.policies.refusals import EndpointError
from ipistate.scoring.verifier import verify


if TYPE_CHECKING:
    from tests.policies.conftest import Pauses


pytestmark = pytest.mark.anyio
TASK = builtin.rows()[4]
MESSAGES = input_messages(TASK.responses_create_params)
TOOLS: Any = TASK.responses_create_params["tools"]


@pytest.fixture
def policy(
    endpoint: Callable[..., Endpoint], pauses: Pauses
) -> Callable[..., openai.OpenAIPolicy]:
    """Return a function that makes a policy of an address."""

    def made(url: str, **changes: Any) -> openai.OpenAIPolicy:
        return openai.OpenAIPolicy(endpoint(url=url, **changes), sleep=pauses)

    return made


@asynccontextmanager
async def peer(answer: Callable[..., Awaitable[None]]) -> AsyncGenerator[str]:
    """Serve whoever connects by a function of the streams; yields the base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def sending(*parts: bytes) -> Callable[..., Awaitable[None]]:
    """Return a peer that reads the head of a request, sends bytes, and hangs up."""

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
        await writer.drain()

    return answer


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read all there is, and answer nothing."""
    await reader.read()


@pytest.mark.parametrize("api", [*Api])
async def test_an_episode_over_the_network(
    api: Api,
    policy: Callable[..., openai.OpenAIPolicy],
    play: Callable[..., Awaitable[tuple[list[JsonObject], int]]],
) -> None:
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


async def failed(asking: openai.OpenAIPolicy) -> EndpointError:
    """Ask once, and return the error."""
    async with asking:
        with pytest.raises(PolicyError) as caught:
            await asking.respond(MESSAGES, TOOLS)
    assert isinstance(caught.value, EndpointError)
    return caught.value


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CLOSING = b"connection: close\r\n"


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
        (sending(HEAD + CLOSING + b"content-length: 0\r\n\r\n"), "malformed_reply"),
    ],
    ids=["length", "chunks", "nothing", "foreign", "cut", "empty"],
)
async def test_broken_replies(
    answer: Callable[..., Awaitable[None]],
    code: str,
    policy: Callable[..., openai.OpenAIPolicy],
) -> None:
    """A reply that ends too early, or is none, is a failure with a name."""
    async with peer(answer) as url:
        error = await failed(policy(url, patience=Patience(tries=2)))

    assert code == error.code


async def test_nobody_listens(
    policy: Callable[..., openai.OpenAIPolicy], pauses: Pauses
) -> None:
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
async def test_an_endpoint_that_is_silent(
    limits: dict[str, float], policy: Callable[..., openai.OpenAIPolicy]
) -> None:
    """An answer that does not come is given up after the time that patience says."""
    async with peer(silent) as url:
        error = await failed(policy(url, patience=Patience(tries=1, **limits)))

    assert "endpoint_timeout" == error.code


async def test_an_endpoint_that_dribbles(
    policy: Callable[..., openai.OpenAIPolicy],
) -> None:
    """Bytes that keep coming do not extend the time for the whole reply."""

    async def dribble(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0)

    patience = Patience(tries=1, read=5.0, total=0.1)
    async with peer(dribble) as url:
        error = await failed(policy(url, patience=patience))

    assert "endpoint_timeout" == error.code


async def test_cookies_are_not_kept(policy: Callable[..., openai.OpenAIPolicy]) -> None:
    """What an endpoint sets in one turn does not come back in the next."""
    fault = stub.saying(stub.SAID, headers={"set-cookie": "a=1"})
    served = stub.Stub(faults=[fault] * 2)
    with served.serving() as url:
        async with policy(url) as asking:
            await asking.respond(MESSAGES, TOOLS)
            await asking.respond(MESSAGES, TOOLS)

    assert 2 == len(served.requests)
    assert not any("cookie" in headers for _, headers, _ in served.requests)


async def test_chunks_that_make_no_sense(
    policy: Callable[..., openai.OpenAIPolicy],
) -> None:
    """Chunks that cannot be read are a failure that may pass."""
    chunked = HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n{"
    async with peer(sending(chunked)) as url:
        error = await failed(policy(url, patience=Patience(tries=1, read=0.5)))

    assert error.code in {"endpoint_timeout", "endpoint_unreachable"}


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that names a proxy in the environment."""

    def named(url: str, **others: str) -> None:
        monkeypatch.setenv("http_proxy", url.replace("//", "//me:hunter2@"))
        for name, value in others.items():
            monkeypatch.setenv(name, value)

    return named


async def test_the_proxy_of_the_environment_is_asked(
    policy: Callable[..., openai.OpenAIPolicy], proxy: Callable[..., None]
) -> None:
    """A request for another host goes to the proxy, with the proxy's own password."""
    heads: list[bytes] = []

    async def forward(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        content = json.dumps(stub.SAID).encode()
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(content) + content)

    async with peer(forward) as url:
        proxy(url.removesuffix("/v1"))
        async with policy("http://model.test/v1", key="sk-1") as asking:
            reply = await asking.respond(MESSAGES, TOOLS)
    head = heads[0].lower()

    assert ["message"] == [one["type"] for one in reply.items]
    assert head.startswith(b"post http://model.test/v1/responses http/1.1\r\n")
    assert b"\r\nproxy-authorization: basic bwu6ahvudgvymg==\r\n" in head
    assert b"\r\nauthorization: bearer sk-1\r\n" in head


async def test_a_proxy_does_not_see_the_key(
    policy: Callable[..., openai.OpenAIPolicy],
    proxy: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What only tunnels to the endpoint is told where to, and nothing else."""
    heads: list[bytes] = []

    async def refuse(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")

    async with peer(refuse) as url:
        monkeypatch.setenv("https_proxy", url.removesuffix("/v1"))
        await failed(policy("https://model.test/v1", key="sk-1"))

    assert heads[0].startswith(b"CONNECT model.test:443 HTTP/1.1\r\n")
    assert not any(b"sk-1" in head or b"uthorization" in head for head in heads)


async def test_hosts_without_a_proxy(
    policy: Callable[..., openai.OpenAIPolicy], proxy: Callable[..., None]
) -> None:
    """What the environment exempts is asked directly."""
    served = stub.Stub()
    proxy("http://127.0.0.1:9", no_proxy="127.0.0.1")
    with served.serving() as url:
        async with policy(url) as asking:
            await asking.respond(MESSAGES, TOOLS)

    assert 1 == len(served.requests)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_fails_keeps_its_password(
    scheme: str,
    policy: Callable[..., openai.OpenAIPolicy],
    proxy: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a refusal by a proxy nor its absence shows the password."""
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
    codes: set[EndpointError] = set()
    async with peer(sending(refusal)) as url:
        proxy(url)
        monkeypatch.setenv("https_proxy", url.replace("//", "//me:hunter2@"))
        codes.add(await failed(policy(f"{scheme}://model.test/v1")))
    codes.add(
        await failed(policy(f"{scheme}://model.test/v1", patience=Patience(tries=1)))
    )

    assert not any("hunter2" in str(one) + repr(one) for one in codes)


async def test_no_password_file_is_read(
    policy: Callable[..., openai.OpenAIPolicy],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a netrc file has for the host is not sent in the place of a key."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    served = stub.Stub()
    with served.serving() as url:
        async with policy(url) as asking:
            await asking.respond(MESSAGES, TOOLS)

    assert not any("authorization" in headers for _, headers, _ in served.requests)
