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

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import cookie_parser

from ipistate.protocol import COOKIE_MAX_AGE, SESSION_MEMBER, is_session_id


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_VARY: Final = (b"vary", b"Cookie")
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
    """Reads and writes one server's cookie."""

    def __init__(
        self, name: str, secret: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._name = name
        self._signer = _Signer(secret, clock)
        self._head = f"{name}="
        self._tail = f"; path=/; Max-Age={COOKIE_MAX_AGE}; httponly; samesite=lax"

    def read(self, scope: Scope) -> dict[str, Any]:
        """Return the session that a request carries, empty if it carries none.

        A bad signature, an old timestamp and a payload that is no object are all the
        same as no cookie.
        """
        for value in self._values(scope):
            try:
                payload = self._signer.unsign(value, max_age=COOKIE_MAX_AGE)
                session = json.loads(b64decode(payload))
            except _UNREADABLE:
                continue
            if isinstance(session, dict):
                return cast("dict[str, Any]", session)
        return {}

    def _values(self, scope: Scope) -> list[str]:
        headers = [value for name, value in scope["headers"] if name == b"cookie"]
        jars = [cookie_parser(header.decode("latin-1")) for header in headers]
        return [jar[self._name] for jar in reversed(jars) if self._name in jar]

    def write(self, session: dict[str, Any]) -> bytes:
        """Return the ``Set-Cookie`` header that keeps a session, signed now."""
        return f"{self.pair(session)}{self._tail}".encode("latin-1")

    def pair(self, session: dict[str, Any]) -> str:
        """Return ``name=value``, as a client sends it back."""
        payload = b64encode(json.dumps(session).encode())
        signed = self._signer.sign(payload).decode("ascii")
        return f"{self._head}{signed}"


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
            session[SESSION_MEMBER] = str(uuid4())

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = (b"set-cookie", self._cookie.write(session))
                message["headers"] = [*message.get("headers", ()), _VARY, cookie]
            await send(message)

        await self._app(scope, receive, send_with_cookie)
