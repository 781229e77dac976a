"""The data plane's routes (docs/reference/control-plane.md, section 1.5).

Every handler waits for its body and then runs to its end without a pause, so calls of a
session never mix, and each takes effect whole or not at all. Only what large bodies say
is found out aside: a seed before it takes effect, a verdict after the session has ended.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route

from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonObject,
    encode,
    structure,
    trusted_object,
)
from ipistate.protocol import (
    CLOSE_PATH,
    LIVENESS_PATHS,
    METRICS_PATH,
    REVERIFY_PATH,
    SEED_PATH,
    SESSION_MEMBER,
    VERIFY_PATH,
)
from ipistate.server.bodies import json_body, json_object, tool_arguments
from ipistate.server.live.aside import Aside
from ipistate.server.live.known_worlds import KnownWorlds
from ipistate.server.live.scoring import aggregated, reverify_mode_of, scoring_of
from ipistate.server.live.seeds import NativeSession, read_seed
from ipistate.server.replies import json_reply
from ipistate.sessions import Session, UnloggedSession


if TYPE_CHECKING:
    from starlette.requests import Request

    from ipistate.server.live.prefixes import Prefixes
    from ipistate.server.live.sessions import Sessions
    from ipistate.server.operating.observer import CallTool
    from ipistate.server.operating.settings import ServerSettings

_ALIVE: Final = JsonObject({"status": "ok"})


class DataPlane:
    """Handlers over the live sessions.

    Args:
        settings: What the operator has decided.
        sessions: The live sessions.
        prefixes: Which session a rollout prefix leads to.
        run: What executes a tool call.
    """

    def __init__(
        self,
        settings: ServerSettings,
        sessions: Sessions,
        prefixes: Prefixes,
        run: CallTool,
    ) -> None:
        self._prefixes = prefixes
        self._sessions = sessions
        self._tools = settings.tools
        self._run = run
        self._start = Session if settings.extension else UnloggedSession
        self._known = KnownWorlds(settings.seed_pool_bytes)
        self._read_exchange = scoring_of(settings, self._known.read)
        self._reverify_mode = reverify_mode_of(settings)
        self._aside = Aside(effects=settings.effects)

    def routes(self) -> list[Route]:
        """Return the routes in the order in which they are matched.

        Tools come after the fixed POST routes, whose names they cannot have, and before
        the GET routes, because their calls are most of the traffic.
        """
        return [
            Route(SEED_PATH, self.seed_session, methods=["POST"]),
            Route(VERIFY_PATH, self.verify, methods=["POST"]),
            Route(CLOSE_PATH, self.close_session, methods=["POST"]),
            Route(METRICS_PATH, self.aggregate_metrics, methods=["POST"]),
            Route("/{tool_name}", self.call, methods=["POST"]),
            Route(REVERIFY_PATH, self.reverify_mode, methods=["GET"]),
            *[Route(path, alive, methods=["GET"]) for path in LIVENESS_PATHS],
        ]

    async def seed_session(self, request: Request) -> Response:
        """Start a session; a task row replaces the session's earlier world."""
        body = await json_body(request)
        seed = await self._aside.seed(partial(read_seed, body, self._known), body)
        # While a large one was read, the same seed may have come and gone.
        self._prefixes.join(request.scope)
        state = self._start(seed.world)
        if seed.native is None:
            self._sessions.start({_session_id(request): state})
            return json_reply(EMPTY_OBJECT)
        self._sessions.open(seed.native, state)
        name = seed.native.resources_session_id
        request.session[SESSION_MEMBER] = name
        members = {"resources_tools": None, "sandbox_access": None}
        return json_reply(JsonObject({"resources_session_id": name, **members}))

    async def call(self, request: Request) -> Response:
        """Run one tool on the session's world."""
        arguments = await tool_arguments(request)
        session_id, name = _session_id(request), request.path_params["tool_name"]
        is_new = request.scope["session_is_new"]
        body = self.called(session_id, name, arguments, is_new=is_new)
        return Response(body, media_type="application/json")

    def called(
        self, session_id: str, name: str, arguments: JsonObject, *, is_new: bool
    ) -> bytes:
        """Run a tool and return the reply's body.

        Raises:
            NotSeededError: There is no such session.
        """
        state = self._sessions.require(session_id, is_new=is_new)
        after, output = state.call(name, arguments, tools=self._tools, run=self._run)
        self._sessions.put(session_id, after)
        return encode(trusted_object({"output": output}))

    async def verify(self, request: Request) -> Response:
        """Score the episode; a valid request ends the session, for any verdict."""
        body = await json_body(request)
        exchange = self._aside.exchange
        score = await exchange(partial(self._read_exchange, body), body)
        session_id = _session_id(request)
        state = self._sessions.get(session_id)
        self._sessions.drop(session_id)
        return json_reply(await exchange(partial(score, state), body))

    async def close_session(self, request: Request) -> Response:
        """Free the session; there need not be one."""
        native = structure(await json_object(request), NativeSession)
        ended = self._sessions.close(native, _session_id(request))
        request.session[SESSION_MEMBER] = ended
        name = native.resources_session_id
        return json_reply(JsonObject({"resources_session_id": name}))

    async def reverify_mode(self, _: Request) -> Response:
        """Tell offline tools whether a request can be verified again."""
        return json_reply(self._reverify_mode)

    async def aggregate_metrics(self, request: Request) -> Response:
        """Compute the metrics of verify responses."""
        body = await json_body(request)
        return json_reply(await self._aside.metrics(partial(aggregated, body), body))


def _session_id(request: Request) -> str:
    return request.session[SESSION_MEMBER]  # type: ignore[no-any-return]


async def alive(_: Request) -> Response:
    """Answer that the process serves requests."""
    return json_reply(_ALIVE)
