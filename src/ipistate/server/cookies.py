"""Session cookies, interchangeable with the reference's (docs/reference/control-plane.md, 1.4).

Every request gets a session with an id, and every response sends it back, newly signed.
"""

from __future__ import annotations

import binascii
import json
import time

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import attrs

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import cookie_parser

from ipistate.protocol import COOKIE_MAX_AGE, SESSION_MEMBER, is_session_id


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

REMEMBERED: Final = 5_000
"""Cookies that are remembered, twice as many at the most."""

LONGEST_REMEMBERED: Final = 1_024
"""Bytes of a ``Cookie`` header beyond which it is not remembered."""

VARY: Final = (b"vary", b"Cookie")
"""Goes with every cookie, so that caches tell sessions apart."""

# What a signed but odd value can make the signer and the parsers raise.
_UNREADABLE: Final = (
    BadSignature,
    binascii.Error,
    ValueError,
    OverflowError,
    OSError,
    RecursionError,
)


class _Signer(TimestampSigner):
    """The reference's signer with a given clock; the key is derived only once."""

    def __init__(self, secret: str, clock: Callable[[], float]) -> None:
        super().__init__(secret)
        self._clock = clock
        self._key = super().derive_key()

    def derive_key(self, secret_key: str | bytes | None = None) -> bytes:  # noqa: ARG002
        return self._key

    def get_timestamp(self) -> int:
        return int(self._clock())


@attrs.frozen
class _Known:
    at: int
    """When the cookie was signed, in seconds since the epoch."""
    session: dict[str, Any]


class _Verified:
    """Cookies with a good signature, by their exact bytes; forgets the older half."""

    def __init__(self) -> None:
        self._young: dict[bytes, _Known] = {}
        self._old: dict[bytes, _Known] = {}

    def get(self, header: bytes) -> _Known | None:
        return self._young.get(header) or self._old.get(header)

    def put(self, header: bytes, known: _Known) -> None:
        if len(header) > LONGEST_REMEMBERED:
            return
        if len(self._young) >= REMEMBERED:
            self._old, self._young = self._young, {}
        self._young[header] = known


class SessionCookie:
    """Reads and writes one server's cookie.

    Clients send back what they got, so what was verified or signed is remembered. A
    signature stays good as long as the secret, but an age does not: it is looked at
    each time.
    """

    def __init__(
        self, name: str, secret: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._name = name
        self._signer = _Signer(secret, clock)
        self._head = f"{name}=".encode()
        tail = f"; path=/; Max-Age={COOKIE_MAX_AGE}; httponly; samesite=lax"
        self._tail = tail.encode()
        self._verified = _Verified()
        self._signed: dict[str, bytes] = {}
        self._second = 0

    def read(self, scope: Scope) -> dict[str, Any]:
        """Return the session that a request carries, empty if it carries none."""
        headers = [value for name, value in scope["headers"] if name == b"cookie"]
        return self.session(headers)

    def session(self, headers: Sequence[bytes]) -> dict[str, Any]:
        """Return the session of these ``Cookie`` headers; the last good one counts.

        A bad signature, an old timestamp and a payload that is no object are all the
        same as no cookie.
        """
        for header in reversed(headers):
            known = self._verified.get(header)
            if known is None:
                known = self._verify(header)
            if (
                known is not None
                and 0 <= self._signer.get_timestamp() - known.at <= COOKIE_MAX_AGE
            ):
                return {**known.session}
        return {}

    def _verify(self, header: bytes) -> _Known | None:
        value = cookie_parser(header.decode("latin-1")).get(self._name)
        if value is None:
            return None
        try:
            payload, at = self._signer.unsign(
                value, max_age=COOKIE_MAX_AGE, return_timestamp=True
            )
            session = json.loads(b64decode(payload))
        except _UNREADABLE:
            return None
        if not isinstance(session, dict):
            return None
        known = _Known(int(at.timestamp()), cast("dict[str, Any]", session))
        self._verified.put(header, known)
        return known

    def write(self, session: dict[str, Any]) -> bytes:
        """Return the ``Set-Cookie`` header that keeps a session, signed now."""
        return self._pair(session) + self._tail

    def pair(self, session: dict[str, Any]) -> str:
        """Return ``name=value``, as a client sends it back."""
        return self._pair(session).decode("ascii")

    def _pair(self, session: dict[str, Any]) -> bytes:
        second = self._signer.get_timestamp()
        if second != self._second or len(self._signed) >= REMEMBERED:
            self._second, self._signed = second, {}
        text = json.dumps(session)
        known = self._signed.get(text)
        if known is None:
            known = self._head + self._signer.sign(b64encode(text.encode()))
            self._signed[text] = known
            self._verified.put(known, _Known(second, json.loads(text)))
        return known


def new_session_id() -> str:
    """Return an id for a session that begins with this request."""
    return str(uuid4())


class SessionLayer:
    """ASGI middleware: ``scope["session"]`` in, ``Set-Cookie`` out.

    ``scope["session_is_new"]`` tells that the request named no session.
    """

    def __init__(self, app: ASGIApp, cookie: SessionCookie) -> None:
        self._app = app
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = self._cookie.read(scope)
        scope["session"] = session
        scope["session_is_new"] = not is_session_id(session.get(SESSION_MEMBER))
        if scope["session_is_new"]:
            session[SESSION_MEMBER] = new_session_id()

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = (b"set-cookie", self._cookie.write(session))
                message["headers"] = [*message.get("headers", ()), VARY, cookie]
            await send(message)

        await self._app(scope, receive, send_with_cookie)
