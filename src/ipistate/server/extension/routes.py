"""Sessions as values over HTTP: fork, history, rewind, diff, export, import, call once.

Every route is for the holder of the token only, and addressed by a session's cookie or
its rollout prefix. POST requests pass the gate like any data request, GET never waits.
"""

from __future__ import annotations

import asyncio
import re

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from starlette.responses import Response
from starlette.routing import Route

from ipistate.errors import preview
from ipistate.kernel import (
    JsonObject,
    diff,
    freeze,
    structure,
    trusted_array,
    trusted_object,
    unstructure,
)
from ipistate.protocol import EXTENSION_PATH, KEY_HEADER, SESSION_MEMBER, rule
from ipistate.server.adapter.gate import PASSAGE
from ipistate.server.adapter.token import authorized
from ipistate.server.bodies import count_ids, json_body, json_object
from ipistate.server.extension.new_sessions import (
    MAX_FORKS,
    ForkBody,
    NewSession,
    read_import,
)
from ipistate.server.live.aside import Aside
from ipistate.server.live.scoring import scoring_of
from ipistate.server.replies import KeyHeaderError, QueryError, json_reply, refused
from ipistate.sessions import SessionCodec, written_error


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from starlette.requests import Request

    from ipistate.server.adapter.cookies import SessionCookie
    from ipistate.server.adapter.token import Handler
    from ipistate.server.live.shell import Shell
    from ipistate.server.operating.observer import CallTool
    from ipistate.server.operating.settings import ServerSettings
    from ipistate.sessions import Session, Step

    Answer: TypeAlias = Callable[[Request, Session], Awaitable[Response]]

MAX_KEY: Final = 255
"""Characters of an idempotency key."""

MAX_STEPS: Final = 1_000
"""Most steps of a history in one answer."""

_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_NUMBER: Final = "expected a number without a sign"


class Extension:
    """Handlers over sessions that are kept with their histories."""

    def __init__(
        self,
        settings: ServerSettings,
        shell: Shell,
        run: CallTool,
        cookie: SessionCookie,
    ) -> None:
        self._shell = shell
        self._sessions = shell.sessions
        self._tools = settings.tools
        self._run = run
        self._cookie = cookie
        self._codec = SessionCodec(settings.tools)
        self._read_exchange = scoring_of(settings)
        self._aside = Aside(effects=settings.effects)

    def routes(self) -> list[Route]:
        """Return the routes; a tool's name has no slash, so it cannot be one of them."""
        posts = {
            "fork": self._of_session(self.fork),
            "rewind": self._of_session(self.rewind),
            "import": self.import_session,
            "verify": self.verify,
            "call/{tool_name}": self._of_session(self.call_once),
        }
        gets = {"history": self.history, "diff": self.diff, "export": self.export}
        return [
            *(_route(name, handler, "POST") for name, handler in posts.items()),
            *(_route(name, self._of_session(one), "GET") for name, one in gets.items()),
        ]

    def _of_session(self, answer: Answer) -> Handler:
        # Bodies are received first: from then on, nothing else happens to the session.
        async def handler(request: Request) -> Response:
            if request.method == "POST":
                await request.body()
            session_id = request.session[SESSION_MEMBER]
            is_new = request.scope["session_is_new"]
            session = self._sessions.require(session_id, is_new=is_new)
            return await answer(request, session)

        return handler

    async def fork(self, request: Request, session: Session) -> Response:
        """Start sessions that share everything with this one until now."""
        document = await json_object(request)
        count_ids(document, MAX_FORKS)
        births = structure(document, ForkBody).births
        refusal = self._begin(request, dict.fromkeys(births, session))
        if refusal is not None:
            return refusal
        told = [one.to_document(self._cookie, request.session) for one in births]
        return json_reply(trusted_object({"sessions": freeze(told)}))

    async def import_session(self, request: Request) -> Response:
        """Start a session from a document; the caller's own one is left alone."""
        body = await json_body(request)
        # A long log takes its time, in which others are served.
        birth, session = await asyncio.to_thread(read_import, body, self._codec)
        refusal = self._begin(request, {birth: session})
        return refusal or json_reply(birth.to_document(self._cookie, request.session))

    def _begin(
        self, request: Request, sessions: Mapping[NewSession, Session]
    ) -> Response | None:
        late = self._shell.make(
            request.scope[PASSAGE],
            {birth.session_id: session for birth, session in sessions.items()},
            {b.session_id: b.episode for b in sessions if b.episode is not None},
        )
        return None if late is None else refused(late.code, late.detail, late.status)

    async def rewind(self, request: Request, session: Session) -> Response:
        """Take back the last calls, and the idempotency keys that they used."""
        body = structure(await json_object(request), RewindBody)
        before = session.rewind(body.count)
        self._sessions.put(request.session[SESSION_MEMBER], before)
        return json_reply(JsonObject({"length": len(before.log)}))

    async def call_once(self, request: Request, session: Session) -> Response:
        """Make a call, unless it was made under this key; a refusal uses up no key."""
        arguments = await json_object(request)
        key, name = _key(request), request.path_params["tool_name"]
        tools, run = self._tools, self._run
        after, step = session.once(key, name, arguments, tools=tools, run=run)
        self._sessions.put(request.session[SESSION_MEMBER], after)
        return json_reply(trusted_object({"output": step.output}))

    async def verify(self, request: Request) -> Response:
        """Score an episode and leave its session as it is."""
        body = await json_body(request)
        exchange = self._aside.exchange
        score = await exchange(partial(self._read_exchange, body), body)
        state = self._sessions.get(request.session[SESSION_MEMBER])
        return json_reply(await exchange(partial(score, state), body))

    async def history(self, request: Request, session: Session) -> Response:
        """List the calls of a session, all or a part of them."""
        first = _number(request, "from", 0)
        limit = _number(request, "limit", MAX_STEPS)
        shown = session.log[first:][: min(limit, MAX_STEPS)]
        # Arguments may be as deep as they can be, so nothing is checked again.
        steps = trusted_array(map(_described, shown))
        length = len(session.log)
        return json_reply(
            trusted_object({"length": length, "from": first, "steps": steps})
        )

    async def diff(self, _: Request, session: Session) -> Response:
        """Compare the world now with the seed."""
        found = diff(session.seed, session.environment)
        counts = {str(name): unstructure(n) for name, n in found.counts().items()}
        document = {"patch": found.to_patch(), "counts": freeze(counts)}
        return json_reply(trusted_object(document))

    async def export(self, _: Request, session: Session) -> Response:
        """Write the session with its history: version 2 of the state."""
        content = self._codec.encode(session)
        return Response(content, media_type="application/json")


@attrs.frozen(kw_only=True)
class RewindBody:
    """How many calls are taken back."""

    count: int = attrs.field(
        validator=rule("invalid_number", _NUMBER, lambda count: count >= 0)
    )


def _route(name: str, handler: Handler, method: str) -> Route:
    return Route(f"{EXTENSION_PATH}/{name}", authorized(handler), methods=[method])


def _key(request: Request) -> str:
    given = request.headers.getlist(KEY_HEADER)
    if not given:
        message = f"a call that is made once needs the header {KEY_HEADER}"
        raise KeyHeaderError("missing_idempotency_key", message)
    key = given[0]
    if (
        len(given) > 1
        or not (key.isascii() and key.isprintable())
        or (not 1 <= len(key) <= MAX_KEY)
    ):
        message = f"{KEY_HEADER} is one text of 1 to {MAX_KEY} printable characters"
        raise KeyHeaderError("invalid_idempotency_key", message, preview=preview(key))
    return key


def _number(request: Request, name: str, default: int) -> int:
    given = request.query_params.get(name)
    if given is None:
        return default
    if _DIGITS.fullmatch(given) is None:
        raise QueryError("invalid_number", _NUMBER, f"$.{name}", preview(given))
    return int(given)


def _described(step: Step) -> JsonObject:
    error = written_error(step.error)
    return trusted_object(
        {
            "name": step.call.name,
            "arguments": step.call.arguments,
            "output": step.output,
            "error": None if error is None else unstructure(error),
            "key": step.key,
        }
    )
