"""An environment server: plays the episodes of ``/run`` against an agent and resources.

See docs/reference/control-plane.md, section 6. It keeps nothing that its part does not
know: an episode is a value that goes from boundary to boundary.
"""

from __future__ import annotations

import asyncio
import time

from typing import TYPE_CHECKING, Final, TypeAlias, cast
from uuid import uuid4

import attrs

from starlette.routing import Route

from ipistate.clients import HttpClient
from ipistate.deploy.effects import EffectSender, forwarded
from ipistate.deploy.episode_tasks import EpisodeTasks
from ipistate.kernel import structure
from ipistate.protocol import (
    METRICS_PATH,
    RUN_PATH,
    TURN_BOUNDARIES,
    ArmDeadline,
    Cancel,
    EnvironmentPart,
    EnvironmentRecords,
    EpisodeFailure,
    EpisodeRefusal,
    EpisodeTask,
    Expire,
    Export,
    Exported,
    Free,
    Freed,
    ParticipantState,
    Proceed,
    Refuse,
    RunArrived,
    RunBody,
    ServerRole,
    SessionHandles,
    Settings,
    SingleTurn,
    StartEpisode,
    TurnReturn,
    TurnSeed,
    Wake,
    refusal,
    turn_reply,
)
from ipistate.server import (
    CheckpointFiles,
    LeaseClock,
    Observer,
    ParticipantShell,
    ServerSettings,
    json_object,
    json_reply,
    participant_app,
    refused,
)


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ipistate.protocol import Action, PartAction, TurnState

TurnOutcome: TypeAlias = "TurnState | EpisodeFailure | EpisodeRefusal"

_GONE: Final = "this attempt was retired while it ran"


@attrs.frozen(kw_only=True)
class EnvironmentSettings:
    """What the operator of an environment server decides."""

    server: ServerSettings
    """Name, token, lease and limits."""
    resources_url: str
    agent_url: str
    episode_seconds: float | None = None
    """Time of an episode, without what a checkpoint takes; None for no limit."""
    captures_tokens: bool = False
    """The agent's calls to the model are captured."""


class EnvironmentShell:
    """Starts episodes, and answers their callers.

    Args:
        settings: What the operator has decided.
        client: Connections to the other servers.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set.
    """

    def __init__(
        self,
        settings: EnvironmentSettings,
        client: HttpClient,
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._settings = settings
        server, observer = settings.server, Observer()
        records = EnvironmentRecords(TURN_BOUNDARIES)
        files = CheckpointFiles(
            server.instance_name, records, server.checkpoint_root, observer
        )
        start = ParticipantState(
            Settings(
                instance=server.instance_name,
                lease_grace_seconds=server.lease_grace_seconds,
            ),
            EnvironmentPart(),
        )
        self.machine: ParticipantShell[EnvironmentPart] = ParticipantShell(
            start, self, files, observer.refused, LeaseClock(clock, steady)
        )
        bases = {
            ServerRole.RESOURCES: settings.resources_url,
            ServerRole.AGENT: settings.agent_url,
        }
        self.sender: EffectSender = EffectSender(client, bases)
        self._tasks: EpisodeTasks[TurnState] = EpisodeTasks(
            self.machine.feed, self.sender.send, self.machine.time
        )
        self._arriving: dict[int, RunBody] = {}
        self._answers: dict[int, Refuse | asyncio.Future[TurnOutcome]] = {}

    async def run(self, body: RunBody) -> Response:
        """Play an episode, from its restored boundary if it has one.

        A caller that goes away leaves it running: its sessions are closed in the end.
        """
        number = self.machine.number()
        self._arriving[number] = body
        arrived = RunArrived(
            request=number,
            episode=body.episode_id,
            task_digest=body.task.digest,
            budget=self._settings.episode_seconds,
        )
        # Whether it may start is known when this returns.
        self.machine.feed(arrived)
        del self._arriving[number]
        answer = self._answers.pop(number)
        if isinstance(answer, Refuse):
            return refused(answer.code, answer.detail)
        await asyncio.wait((answer,))
        if answer.cancelled():
            return refused("stale_attempt", _GONE)
        return _reply(body, answer.result())

    def perform(self, action: PartAction) -> None:
        """Start an episode or refuse it; hand everything else to the tasks."""
        match action:
            case Refuse(request=request):
                self._answers[request] = action
            case StartEpisode(request, key, boundary):
                started = self._task(key, self._arriving[request], boundary)
                self._answers[request] = self._tasks.start(started)
            case Proceed() | Wake() | Cancel() | Expire() | ArmDeadline():
                self._tasks.perform(action)
            case _:
                raise TypeError(f"not an environment's: {type(action).__name__}")

    def _task(
        self, key: str, body: RunBody, boundary: object
    ) -> EpisodeTask[TurnState]:
        protocol = SingleTurn(
            run=body,
            resources_url=self._settings.resources_url,
            captures_tokens=self._settings.captures_tokens,
        )
        fresh = TurnSeed(handles=SessionHandles.of(uuid4().hex, uuid4().hex))
        state = fresh if boundary is None else cast("TurnState", boundary)
        return EpisodeTask(key=key, protocol=protocol, state=state)

    def changed(
        self,
        before: ParticipantState[EnvironmentPart],
        after: ParticipantState[EnvironmentPart],
        now: float,
        todo: tuple[Action, ...],
    ) -> None:
        """Take no notice."""

    def export(self, action: Export) -> Exported:
        """Hand over nothing: the part knows every record."""
        return Exported(action.write, {})

    def free(self, action: Free) -> Freed:
        """Hold nothing."""
        return Freed(action.removal)


def _reply(body: RunBody, outcome: TurnOutcome) -> Response:
    if isinstance(outcome, EpisodeRefusal):
        return json_reply(refusal(outcome.code, outcome.detail), outcome.status)
    if isinstance(outcome, EpisodeFailure | TurnReturn):
        return json_reply(turn_reply(body, outcome))
    raise TypeError(f"an episode cannot end in {type(outcome).__name__}")


def create_environment_app(
    settings: EnvironmentSettings,
    *,
    client: HttpClient | None = None,
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
) -> Starlette:
    """Build an environment server with no episodes.

    ``app.state.shell`` is its shell.

    Args:
        settings: What the operator has decided.
        client: Connections to the other servers; without them it makes its own.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set.
    """
    connections = client or HttpClient()
    shell = EnvironmentShell(settings, connections, clock, steady)

    async def run(request: Request) -> Response:
        return await shell.run(structure(await json_object(request), RunBody))

    async def metrics(request: Request) -> Response:
        return await forwarded(shell.sender, METRICS_PATH, await json_object(request))

    routes = [
        Route(RUN_PATH, run, methods=["POST"]),
        Route(METRICS_PATH, metrics, methods=["POST"]),
    ]
    app = participant_app(settings.server, shell.machine, routes, [connections])
    app.state.shell = shell
    return app
