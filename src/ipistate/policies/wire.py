"""HTTP to an endpoint: one request at a time, bounded in time and size, read or refused."""

from __future__ import annotations

import asyncio

from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import httpx

from ipistate.errors import DecodeError, SchemaError, preview
from ipistate.kernel import JsonObject, decode, encode
from ipistate.policies.refusals import (
    EndpointAnswer,
    EndpointError,
    PassingError,
    detail,
    refusal,
    shown,
)


if TYPE_CHECKING:
    from collections.abc import Callable

    from ipistate.policies.endpoint import Endpoint

R = TypeVar("R")

MAX_REPLY_BYTES: Final = 16 * 2**20
"""Size from which on a reply is not read further."""

_HIDDEN: Final = "[API key]"

# Everything that a broken peer makes the library raise.
_UNREACHABLE: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)
_CONTENT_TYPE: Final = {"content-type": "application/json"}


class Wire:
    """Connections to one endpoint.

    What an endpoint says about the type of its answers is not believed. Redirects are
    not followed, because they would carry the key elsewhere; cookies are not kept.
    Proxies are those of the environment, as for other programs.

    Args:
        endpoint: Where it is, and how long to wait.
        path: Where below its base requests go.
        now: Tells the seconds since 1970.
        transport: Sends the requests instead of the network, for tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        path: str,
        now: Callable[[], float],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = f"{endpoint.url}{path}"
        self._key = endpoint.key
        self._now = now
        self._total = endpoint.patience.total
        self._client = httpx.AsyncClient(
            transport=transport,
            headers=_CONTENT_TYPE | _authorization(endpoint.key),
            # What an endpoint sets in one episode is no business of the others.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=httpx.Timeout(
                endpoint.patience.read, connect=endpoint.patience.connect, pool=None
            ),
            limits=httpx.Limits(max_keepalive_connections=endpoint.concurrency),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def ask(self, body: JsonObject, read: Callable[[JsonObject], R]) -> R:
        """Send a request once, and read its reply.

        Raises:
            EndpointError: There is none, and will be none.
            PassingError: There is none that can be read, but there may be one later.
        """
        try:
            async with asyncio.timeout(self._total):
                answer = await self._sent(encode(body))
        except (TimeoutError, httpx.TimeoutException) as error:
            told = f"no reply in time ({self._named(error)})"
            raise PassingError("endpoint_timeout", self._told(told)) from None
        except httpx.DecodingError as error:
            told = f"a reply that cannot be unpacked ({self._named(error)})"
            raise PassingError("malformed_reply", self._told(told)) from None
        except _UNREACHABLE as error:
            told = f"no connection, or it broke ({self._named(error)})"
            raise PassingError("endpoint_unreachable", self._told(told)) from None
        if not 200 <= answer.status < 300:
            raise refusal(self._without_key(answer), self._now())
        try:
            return read(self._document(answer))
        except SchemaError as error:
            seen = None if error.preview is None else self._hidden(error.preview)
            told = answer.told(self._hidden(error.message))
            path = self._hidden(error.path)
            raise PassingError("malformed_reply", told, path, seen) from None

    async def _sent(self, content: bytes) -> EndpointAnswer:
        received = bytearray()
        async with self._client.stream("POST", self._url, content=content) as response:
            async for part in response.aiter_bytes():
                received += part
                if len(received) > MAX_REPLY_BYTES:
                    told = f"a reply of over {MAX_REPLY_BYTES:,} bytes"
                    raise EndpointError("reply_too_large", self._told(told))
        headers = {
            name: self._hidden(value) for name, value in response.headers.items()
        }
        return EndpointAnswer(self._url, response.status_code, headers, bytes(received))

    def _document(self, answer: EndpointAnswer) -> JsonObject:
        said = detail(self._without_key(answer).content) or "nothing"
        try:
            document = decode(answer.content)
        except DecodeError as error:
            told = answer.told(f"a reply that is not JSON ({error.code}): {said}")
            raise PassingError("malformed_reply", told) from None
        if not isinstance(document, JsonObject):
            told = answer.told("a reply that is not an object")
            seen = self._hidden(preview(document))
            raise PassingError("malformed_reply", told, preview=seen)
        if document.get("error"):
            told = answer.told(f"an error where a reply should be: {said}")
            raise PassingError("endpoint_failed", told)
        return document

    def _told(self, text: str) -> str:
        return f"{shown(self._url)}: {text}"

    def _without_key(self, answer: EndpointAnswer) -> EndpointAnswer:
        if self._key is None:
            return answer
        content = answer.content.replace(self._key.encode(), _HIDDEN.encode())
        return attrs.evolve(answer, content=content)

    def _hidden(self, text: str) -> str:
        # Some endpoints repeat the key that they refuse, and not only in the body.
        return text if self._key is None else text.replace(self._key, _HIDDEN)

    def _named(self, error: Exception) -> str:
        said = self._hidden(str(error))
        return shown(f"{type(error).__name__}: {said}".removesuffix(": "))


def _authorization(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}
