"""An agent server: ``/run`` of flat rows, and native sessions with their activations.

See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import time

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from ipistate.clients import HttpClient
from ipistate.deploy.agent_shell import AgentSettings, AgentShell
from ipistate.deploy.effects import forwarded
from ipistate.deploy.native_sessions import CloseBody, SeedBody
from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonObject, structure
from ipistate.protocol import (
    ACTIVATION_HEADER,
    AGENT_CLOSE_PATH,
    AGENT_SESSIONS_PATH,
    CAPTURE_SEGMENT,
    METRICS_PATH,
    RESPONSES_PATH,
    RUN_PATH,
    EpisodeFailure,
    EpisodeRefusal,
    Refuse,
    RunReturn,
    is_session_id,
    refusal,
)
from ipistate.server import (
    SessionCookie,
    json_object,
    json_reply,
    participant_app,
    refused,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ipistate.agents import Policy
    from ipistate.deploy.agent_shell import RunEnd

SESSION: Final = "agent_session_id"


class AgentRoutes:
    """What an agent serves.

    Args:
        shell: Plays.
        cookie: Finds the session of an activation.
    """

    def __init__(self, shell: AgentShell, cookie: SessionCookie) -> None:
        self._shell = shell
        self._cookie = cookie

    def routes(self) -> list[Route]:
        """Return the routes; paths are without their rollout prefix."""
        handlers = {
            RUN_PATH: self.run,
            RESPONSES_PATH: self.respond,
            CAPTURE_SEGMENT + RESPONSES_PATH: self.respond,
            AGENT_SESSIONS_PATH: self.seed,
            AGENT_CLOSE_PATH: self.close,
            METRICS_PATH: self.metrics,
        }
        return [Route(p, handler, methods=["POST"]) for p, handler in handlers.items()]

    async def run(self, request: Request) -> Response:
        """Play a flat row."""
        return _reply(await self._shell.run(await json_object(request)))

    async def respond(self, request: Request) -> Response:
        """Run an activation of the cookie's session."""
        params, episode = await json_object(request), request.scope["episode"]
        if episode is None:
            return refused("rollout_id_required", "the path names no rollout")
        key = str(self._cookie.read(request.scope).get(SESSION, ""))
        index = request.headers.get(ACTIVATION_HEADER)
        ended = await self._shell.respond(key, episode, params, index)
        if isinstance(ended, EpisodeRefusal):
            return _refused(ended)
        return json_reply(ended)

    async def seed(self, request: Request) -> Response:
        """Open a native session."""
        document = await json_object(request)
        body = structure(document, SeedBody)
        _check_key(body.agent_session_id)
        problem = await self._shell.seed(
            body.agent_session_id, body.episode_id, document
        )
        if problem is not None:
            return refused(problem.code, problem.detail)
        reply = json_reply(JsonObject({SESSION: body.agent_session_id}))
        cookie = self._cookie.write({SESSION: body.agent_session_id})
        reply.headers["set-cookie"] = cookie.decode("ascii")
        return reply

    async def close(self, request: Request) -> Response:
        """Free a native session."""
        body = structure(await json_object(request), CloseBody)
        _check_key(body.agent_session_id)
        closed = await self._shell.close(body.agent_session_id, body.episode_id)
        if isinstance(closed, Refuse):
            return refused(closed.code, closed.detail)
        members = {
            SESSION: body.agent_session_id,
            "agent_observations": None,
            "resources_cookies": closed,
        }
        return json_reply(JsonObject(members))

    async def metrics(self, request: Request) -> Response:
        """Have the resources server answer."""
        return await forwarded(
            self._shell.sender, METRICS_PATH, await json_object(request)
        )


def _check_key(key: str) -> None:
    # The sessions of runs have names of their own, which no caller may give.
    if is_session_id(key) and not key.startswith("run:"):
        return
    message = "expected the id of a native session"
    raise SchemaError("invalid_session_key", message, f"$.{SESSION}", preview(key))


def _refused(problem: EpisodeRefusal) -> Response:
    return json_reply(refusal(problem.code, problem.detail), problem.status)


def _reply(ended: RunEnd) -> Response:
    match ended:
        case RunReturn(result=result):
            return json_reply(result)
        case EpisodeRefusal():
            return _refused(ended)
        case EpisodeFailure():
            return json_reply(JsonObject({"detail": ended.to_document()}), 502)
        case _:
            raise TypeError(f"a run cannot end in {type(ended).__name__}")


def create_agent_app(  # noqa: PLR0913 - one parameter for each choice
    settings: AgentSettings,
    policy: Policy,
    *,
    beside: Sequence[AbstractAsyncContextManager[object]] = (),
    client: HttpClient | None = None,
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
) -> Starlette:
    """Build an agent with no sessions.

    ``app.state.shell`` is its shell.

    Args:
        settings: What the operator has decided.
        policy: Plays the model's part; kept open by the caller, or ``beside``.
        beside: Open while it serves.
        client: Connections to the other servers; without them it makes its own.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set.
    """
    connections = client or HttpClient()
    shell = AgentShell(settings, policy, connections, clock, steady)
    name = f"Agent___{settings.server.instance_name}"
    secret = str(settings.server.cookie_secret or name)
    routes = AgentRoutes(shell, SessionCookie(name, secret, clock))
    app = participant_app(
        settings.server, shell.machine, routes.routes(), [connections, *beside]
    )
    app.state.shell = shell
    return app
