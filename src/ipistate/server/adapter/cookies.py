"""Session cookies, interchangeable with the reference's (docs/reference/control-plane.md, 1.4).

Every request gets a session with an id, and every response sends it back, newly signed.
"""

from __future__ import annotations

import binascii
import json
import time

from base64 import b64decode, b64encode
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import cookie_parser

from ipistate.protocol import (
    COOKIE_MAX_AGE,
    SEED_PATH,
    SESSION_MEMBER,
    is_session_id,
)
from ipistate.server.live.recent import Recent


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

REMEMBERED_BYTES: Final = 8 * 2**20
"""Size of the cookies that are remembered, about 10,000 of them."""

_ENTRY_BYTES: Final = 600
"""Size of what is remembered beside a cookie's own bytes."""

_UNVERIFIED: Final = (-inf, dict[str, Any]())

CLOCK_SKEW: Final = 300
"""Seconds by which the clock of a cookie's signer may be ahead of ours.

Another machine may have signed it, or this one before its clock was set back.
"""

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


class SessionCookie:
    """Reads and writes one server's cookie.

    Clients send back what they got, so what was verified or signed is remembered. A
    signature stays good as long as the secret does, but not for ever: how old it is
    is looked at each time.
    """

    def __init__(
        self, name: str, secret: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._name = name
        self._signer = _Signer(secret, clock)
        self._head = f"{name}=".encode()
        tail = f"; path=/; Max-Age={COOKIE_MAX_AGE}; httponly; samesite=lax"
        self._tail = tail.encode()
        self._verified: Recent[tuple[float, dict[str, Any]]] = Recent(REMEMBERED_BYTES)
        self._signed: Recent[tuple[int, bytes]] = Recent(REMEMBERED_BYTES)

    def read(self, scope: Scope) -> dict[str, Any]:
        """Return the session that a request carries, empty if it carries none."""
        return self.session([v for name, v in scope["headers"] if name == b"cookie"])

    def session(self, headers: Sequence[bytes]) -> dict[str, Any]:
        """Return the session of these ``Cookie`` headers; the last good one counts.

        A bad signature, an old timestamp and a payload that
        is no object are all the same as no cookie.
        """
        now = self._signer.get_timestamp()
        for header in reversed(headers):
            at, session = self._verified.get(header) or self._verify(header)
            if -CLOCK_SKEW <= now - at <= COOKIE_MAX_AGE:
                return {**session}
        return {}

    def stands_in(self, scope: Scope) -> bool:
        """Tell whether a request carries a cookie of this name, readable or not."""
        return any(
            name == b"cookie" and self._name in cookie_parser(value.decode("latin-1"))
            for name, value in scope["headers"]
        )

    def _verify(self, header: bytes) -> tuple[float, dict[str, Any]]:
        value = cookie_parser(header.decode("latin-1")).get(self._name, "")
        try:
            payload, at = self._signer.unsign(value, return_timestamp=True)
            session = json.loads(b64decode(payload))
        except _UNREADABLE:
            return _UNVERIFIED
        if not isinstance(session, dict):
            return _UNVERIFIED
        known = int(at.timestamp()), cast("dict[str, Any]", session)
        self._verified.put(header, known, _ENTRY_BYTES)
        return known

    def write(self, session: dict[str, Any]) -> bytes:
        """Return the ``Set-Cookie`` header that keeps a session, signed now."""
        return self._pair(session) + self._tail

    def pair(self, session: dict[str, Any]) -> str:
        """Return ``name=value``, as a client sends it back."""
        return self._pair(session).decode("ascii")

    def _pair(self, session: dict[str, Any]) -> bytes:
        payload, now = json.dumps(session).encode(), self._signer.get_timestamp()
        at, pair = self._signed.get(payload) or (None, b"")
        if at != now:
            # It may be the next second by now, but no other secret.
            pair = self._head + self._signer.sign(b64encode(payload))
            self._signed.put(payload, (now, pair), _ENTRY_BYTES)
            self._verified.put(pair, (now, json.loads(payload)), _ENTRY_BYTES)
        return pair


class SessionLayer:
    """ASGI middleware: ``scope["session"]`` in, ``Set-Cookie`` out.

    ``scope["session_is_new"]`` tells that the request named no session. A cookie that
    cannot be used is replaced by a seed only: it may be the client's one way back to a
    session, for a server that can read it.
    """

    def __init__(self, app: ASGIApp, cookie: SessionCookie) -> None:
        self._app = app
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = self._cookie.read(scope)
        scope["session"] = session
        scope["session_is_new"] = not is_session_id(session.get(SESSION_MEMBER))
        minted = None if session else str(uuid4())
        if scope["session_is_new"]:
            session[SESSION_MEMBER] = minted or str(uuid4())

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), VARY]
                if session[SESSION_MEMBER] != minted or self._may_replace(scope):
                    headers.append((b"set-cookie", self._cookie.write(session)))
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, send_with_cookie)

    def _may_replace(self, scope: Scope) -> bool:
        return scope["path"] == SEED_PATH or not self._cookie.stands_in(scope)
