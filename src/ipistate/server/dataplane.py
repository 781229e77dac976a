"""The data plane's routes (docs/reference/control-plane.md, section 1.5).

Every handler waits for its body and then runs to its end without a pause, so calls of a
session never mix, and each takes effect whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from starlette.routing import Route

from ipistate.errors import SchemaError, preview
from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    decode,
    structure,
    trusted_object,
)
from ipistate.protocol import (
    CLOSE_PATH,
    HINT_HEADER,
    LIVENESS_PATHS,
    METRICS_PATH,
    REVERIFY_PATH,
    SEED_PATH,
    SESSION_MEMBER,
    VERIFY_PATH,
)
from ipistate.scoring import metrics_report
from ipistate.server.bodies import json_body, object_of
from ipistate.server.replies import detail, json_reply
from ipistate.server.scoring import scoring_of
from ipistate.server.seed_cache import SeedCache
from ipistate.server.seeds import NativeSession


if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ipistate.server.keeping import Keeping
    from ipistate.server.sessions import Sessions
    from ipistate.server.settings import ServerSettings

S = TypeVar("S")

_NOT_SEEDED: Final = "Session not initialized. Please call seed_session first."
_ALIVE: Final = JsonObject({"status": "ok"})


class DataPlane(Generic[S]):
    """Handlers over the live sessions."""

    def __init__(
        self, settings: ServerSettings, sessions: Sessions[S], keeping: Keeping[S]
    ) -> None:
        self._sessions = sessions
        self._keeping = keeping
        self._pool = SeedCache(settings.seed_pool_bytes)
        self._max_metrics = settings.max_metrics_bytes
        self._read_exchange = scoring_of(settings)

    def routes(self) -> list[Route]:
        """Return the routes in the order in which they are matched.

        Tools come after the fixed POST routes, whose names they cannot have, and before
        the GET routes, because their calls are most of the traffic.
        """
        metrics = Route(
            METRICS_PATH,
            aggregate_metrics,
            methods=["POST"],
            max_body_size=self._max_metrics,
        )
        return [
            Route(SEED_PATH, self.seed_session, methods=["POST"]),
            Route(VERIFY_PATH, self.verify, methods=["POST"]),
            Route(CLOSE_PATH, self.close_session, methods=["POST"]),
            metrics,
            Route("/{tool_name}", self.call, methods=["POST"]),
            Route(REVERIFY_PATH, reverify_mode, methods=["GET"]),
            *[Route(path, alive, methods=["GET"]) for path in LIVENESS_PATHS],
        ]

    async def seed_session(self, request: Request) -> Response:
        """Start a session; a task row replaces the session's earlier world."""
        seed = self._pool.seed(await json_body(request))
        state = self._keeping.begin(seed.world)
        if seed.native is None:
            self._sessions.start({request.session[SESSION_MEMBER]: state})
            return json_reply(EMPTY_OBJECT)
        self._sessions.open(seed.native, state)
        name = seed.native.resources_session_id
        request.session[SESSION_MEMBER] = name
        members = {"resources_tools": None, "sandbox_access": None}
        return json_reply(JsonObject({"resources_session_id": name, **members}))

    async def call(self, request: Request) -> Response:
        """Run one tool on the session's world."""
        arguments = decode(await json_body(request))
        object_of(arguments)
        session_id = request.session[SESSION_MEMBER]
        state = self._sessions.get(session_id)
        if state is None:
            return not_seeded(request, self._sessions)
        name = request.path_params["tool_name"]
        after, output = self._keeping.call(state, name, arguments)  # type: ignore[arg-type]
        self._sessions.put(session_id, after)
        return json_reply(trusted_object({"output": output}))

    async def verify(self, request: Request) -> Response:
        """Score the episode; a valid request ends the session whatever comes of it."""
        score = self._read_exchange(await json_body(request))
        session_id = request.session[SESSION_MEMBER]
        state = self._sessions.get(session_id)
        self._sessions.drop(session_id)
        history = None if state is None else self._keeping.history(state)
        return json_reply(score(history))

    async def close_session(self, request: Request) -> Response:
        """Free the session; there need not be one."""
        body = decode(await json_body(request))
        native = structure(body, NativeSession)
        ended = self._sessions.close(native, request.session[SESSION_MEMBER])
        request.session[SESSION_MEMBER] = ended
        name = native.resources_session_id
        return json_reply(JsonObject({"resources_session_id": name}))


async def aggregate_metrics(request: Request) -> Response:
    """Compute the metrics of verify responses."""
    body = object_of(decode(await json_body(request)))
    responses = body.get("verify_responses")
    if "verify_responses" not in body:
        message = "required member is missing"
        raise SchemaError("missing_member", message, "$.verify_responses")
    if not isinstance(responses, JsonArray):
        where, shown = "$.verify_responses", preview(responses)
        raise SchemaError("wrong_type", "expected an array", where, shown)
    return json_reply(metrics_report(responses))  # type: ignore[arg-type]


async def reverify_mode(_: Request) -> Response:
    """Tell offline tools that nothing is known about verifying again."""
    return json_reply("unknown")


async def alive(_: Request) -> Response:
    """Answer that the process serves requests."""
    return json_reply(_ALIVE)


def not_seeded(request: Request, sessions: Sessions[Any]) -> Response:
    """Answer a request that needs a session and has none."""
    return detail(400, _NOT_SEEDED, {HINT_HEADER: _hint(request, sessions)})


def _hint(request: Request, sessions: Sessions[Any]) -> str:
    # The body's text is fixed, because models read it; clients need to know more.
    if request.scope["session_is_new"]:
        return "no valid session cookie came with the request"
    if sessions.was_swept(request.session[SESSION_MEMBER]):
        return "the cookie's session was unused for too long and has been freed"
    return "the cookie's session has no world"
