"""Requests to an endpoint: one at a time, bounded in time and size, read or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import attrs

from ipistate.clients import (
    JSON,
    BearerKey,
    Bounds,
    HttpClient,
    HttpError,
    environment_proxy,
)
from ipistate.errors import DecodeError, SchemaError, preview
from ipistate.kernel import JsonObject, decode, encode
from ipistate.policies.endings import BROKEN_OFF
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

    from ipistate.clients import Resolver
    from ipistate.policies.endpoint import Endpoint

R = TypeVar("R")

MAX_REPLY_BYTES: Final = 16 * 2**20
"""Size from which on a reply is not read further."""


class Wire:
    """Connections to one endpoint.

    What an endpoint says about the type of its answers is not believed. Redirects are
    not followed, because they would carry the key elsewhere; cookies are not kept.
    Proxies are those of the environment, as for other programs.

    Args:
        endpoint: Where it is, and how long to wait.
        path: Where below its base requests go.
        now: Tells the seconds since 1970.
        resolver: Finds hosts instead of the system, for tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        path: str,
        now: Callable[[], float],
        resolver: Resolver | None = None,
    ) -> None:
        # A prefix comes before everything that the endpoint's URL has after its host.
        parts = urlsplit(endpoint.url)
        self._base, self._path = f"{parts.scheme}://{parts.netloc}", parts.path + path
        self._url = f"{endpoint.url}{path}"
        self._key = BearerKey(endpoint.key, "[API key]")
        self._now = now
        patience = endpoint.patience
        self._bounds = Bounds(
            size=MAX_REPLY_BYTES,
            total=patience.total,
            connect=patience.connect,
            read=patience.read,
        )
        self._client = HttpClient(
            key=self._key, proxy=environment_proxy(endpoint.url), resolver=resolver
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def ask(
        self, body: JsonObject, read: Callable[[JsonObject], R], prefix: str = ""
    ) -> R:
        """Send a request once, and read its reply.

        Args:
            body: The request.
            read: Reads the reply's document.
            prefix: Comes first in the path.

        Raises:
            EndpointError: There is none, and will be none.
            PassingError: There is none that can be read, but there may be one later.
        """
        try:
            answer = await self._sent(encode(body), prefix)
        except HttpError as error:
            raise self._failure(error) from None
        if not 200 <= answer.status < 300:
            raise refusal(self._without_key(answer), self._now())
        try:
            return read(self._document(answer))
        except SchemaError as error:
            hide = self._key.hide
            seen = None if error.preview is None else hide(error.preview)
            told = answer.told(hide(error.message))
            broken = error.code == BROKEN_OFF
            code = "endpoint_failed" if broken else "malformed_reply"
            raise PassingError(code, told, hide(error.path), seen) from None

    async def _sent(self, content: bytes, prefix: str) -> EndpointAnswer:
        answer = await self._client.send(
            "POST",
            self._base,
            prefix + self._path,
            content,
            bounds=self._bounds,
            headers=JSON,
        )
        headers = {
            name.lower(): self._key.hide(value)
            for name, value in answer.headers.items()
        }
        return EndpointAnswer(self._url, answer.status, headers, answer.content)

    def _failure(self, error: HttpError) -> EndpointError:
        said = shown(error.message)
        match error.code:
            case "timed_out":
                told = f"no reply in time ({said})"
                return PassingError("endpoint_timeout", self._told(told))
            case "not_unpacked":
                told = f"a reply that cannot be unpacked ({said})"
                return PassingError("malformed_reply", self._told(told))
            case "too_large":
                told = f"a reply of over {MAX_REPLY_BYTES:,} bytes"
                return EndpointError("reply_too_large", self._told(told))
            case _:
                told = f"no connection, or it broke ({said})"
                return PassingError("endpoint_unreachable", self._told(told))

    def _document(self, answer: EndpointAnswer) -> JsonObject:
        said = detail(self._without_key(answer).content) or "nothing"
        try:
            document = decode(answer.content)
        except DecodeError as error:
            told = answer.told(f"a reply that is not JSON ({error.code}): {said}")
            raise PassingError("malformed_reply", told) from None
        if not isinstance(document, JsonObject):
            told = answer.told("a reply that is not an object")
            seen = self._key.hide(preview(document))
            raise PassingError("malformed_reply", told, preview=seen)
        if document.get("error"):
            told = answer.told(f"an error where a reply should be: {said}")
            raise PassingError("endpoint_failed", told)
        return document

    def _told(self, text: str) -> str:
        return f"{shown(self._url)}: {text}"

    def _without_key(self, answer: EndpointAnswer) -> EndpointAnswer:
        return attrs.evolve(answer, content=self._key.hide_in(answer.content))
