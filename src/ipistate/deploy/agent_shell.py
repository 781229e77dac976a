"""The shell of an agent: starts episodes and activations, and answers their callers.

See docs/reference/control-plane.md, section 6. What may run when is the part's to say.
"""

from __future__ import annotations

import asyncio

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from ipistate.agents import AgentState, AgentStateCodec
from ipistate.deploy.activations import (
    OTHER_TOOLS,
    Activation,
    ActivationEnd,
    ActivationFailedError,
    Activations,
    ToolGrant,
)
from ipistate.deploy.effects import EffectSender
from ipistate.deploy.episode_tasks import EpisodeTasks
from ipistate.deploy.native_sessions import KeptSession
from ipistate.kernel import EMPTY_OBJECT, JsonObject, encode, freeze
from ipistate.protocol import (
    ROLLOUT_PREFIX,
    RUN_BOUNDARIES,
    STATUS_OF,
    ActivationArrived,
    Admit,
    AgentPart,
    AgentRun,
    AgentRunArrived,
    AgentSessionRecords,
    ArmDeadline,
    Cancel,
    CancelActivation,
    CloseArrived,
    EffectFault,
    EffectReply,
    EffectRequest,
    EpisodeFailure,
    EpisodeId,
    EpisodeRefusal,
    EpisodeTask,
    Expire,
    Export,
    Exported,
    Free,
    Freed,
    LoopProceeds,
    ParticipantState,
    Proceed,
    Refuse,
    RequestLeft,
    RunSeed,
    SeedArrived,
    SeedEnded,
    ServerRole,
    SessionClosed,
    SessionOpened,
    Settings,
    StartActivation,
    StartEpisode,
    Wake,
    refusal,
    run_key,
)
from ipistate.server import (
    CheckpointFiles,
    LeaseClock,
    Observer,
    ParticipantShell,
    ServerSettings,
)


if TYPE_CHECKING:
    from collections.abc import Callable

    from ipistate.agents import Policy
    from ipistate.clients import HttpClient
    from ipistate.protocol import Action, PartAction, RunBoundary

RunEnd: TypeAlias = "RunBoundary | EpisodeFailure | EpisodeRefusal"
Started: TypeAlias = "asyncio.Future[ActivationEnd]"

_RETIRED: Final = "this attempt was retired while it ran"
_STATES: Final = AgentStateCodec()

Requesting: TypeAlias = (
    AgentRunArrived | SeedArrived | SeedEnded | ActivationArrived | CloseArrived
)


@attrs.frozen(kw_only=True)
class AgentSettings:
    """What the operator of an agent decides."""

    server: ServerSettings
    """Name, token, lease and limits."""
    resources_url: str
    max_steps: int = 50
    """Most turns of the model in an activation."""
    episode_seconds: float | None = None
    """Time of a ``/run``, without what a checkpoint takes; None for no limit."""
    captures_tokens: bool = False
    names_episodes: bool = False
    """Calls to the model have the episode's prefix, as a participant needs it."""

    def prefix(self, episode: EpisodeId) -> str:
        """Return what comes first in the paths of calls to the model."""
        return ROLLOUT_PREFIX + episode.capture_key if self.names_episodes else ""


class AgentShell:
    """Starts episodes and activations, and answers their callers.

    Args:
        settings: What the operator has decided.
        policy: Plays the model's part.
        client: Connections to the other servers.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set.
    """

    def __init__(
        self,
        settings: AgentSettings,
        policy: Policy,
        client: HttpClient,
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._settings = settings
        server, observer = settings.server, Observer()
        files = CheckpointFiles(
            server.instance_name,
            AgentSessionRecords(RUN_BOUNDARIES),
            server.checkpoint_root,
            observer,
        )
        start = ParticipantState(
            Settings(
                instance=server.instance_name,
                lease_grace_seconds=server.lease_grace_seconds,
            ),
            AgentPart(),
        )
        self.machine: ParticipantShell[AgentPart] = ParticipantShell(
            start, self, files, observer.refused, LeaseClock(clock, steady)
        )
        self.sender: EffectSender = EffectSender(
            client, {ServerRole.RESOURCES: settings.resources_url}
        )
        self._tasks: EpisodeTasks[RunBoundary] = EpisodeTasks(
            self.machine.feed, self._send, self.machine.time
        )
        self._activations = Activations(
            self.machine.feed, policy, client, settings.max_steps
        )
        self._asked: dict[int, Callable[[PartAction], None]] = {}

    async def _ask(
        self, event: Requesting, become: Callable[[PartAction], Any] | None = None
    ) -> Any:
        # What starts has to start with the answer: what follows it may be its cancel.
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def take(action: PartAction) -> None:
            if not answer.done():
                answer.set_result(action if become is None else become(action))

        self._asked[event.request] = take
        self.machine.feed(event)
        try:
            return await answer
        except asyncio.CancelledError:
            self.machine.feed(RequestLeft(event.request))
            raise
        finally:
            self._asked.pop(event.request, None)

    def perform(self, action: PartAction) -> None:
        """Answer a request, or hand on what concerns a task."""
        match action:
            case (
                Admit(request)
                | SessionOpened(request)
                | SessionClosed(request)
                | Refuse(request=request)
                | StartActivation(request=request)
                | StartEpisode(request=request)
            ):
                take = self._asked.get(request)
                if take is not None:
                    take(action)
            case LoopProceeds() | CancelActivation():
                self._activations.perform(action)
            case Proceed() | Wake() | Cancel() | Expire() | ArmDeadline():
                self._tasks.perform(action)
            case _:
                raise TypeError(f"not an agent's: {type(action).__name__}")

    # Runs

    async def run(self, row: JsonObject) -> RunEnd:
        """Play a flat row, from its restored boundary if it has one."""
        run = AgentRun.of(row, captures_tokens=self._settings.captures_tokens)

        def start(action: PartAction) -> Refuse | asyncio.Future[RunEnd]:
            if isinstance(action, Refuse):
                return action
            boundary = cast("StartEpisode", action).boundary
            state = RunSeed() if boundary is None else cast("RunBoundary", boundary)
            task = EpisodeTask(key=run.session_key, protocol=run, state=state)
            return self._tasks.start(task)

        arrived = AgentRunArrived(
            self.machine.number(), run.episode_id, self._settings.episode_seconds
        )
        answer = await self._ask(arrived, start)
        if isinstance(answer, Refuse):
            return EpisodeRefusal(answer.status, answer.code, answer.detail)
        await asyncio.wait((answer,))
        if answer.cancelled():
            return _refusal("stale_attempt", _RETIRED)
        ended: RunEnd = answer.result()
        return ended

    async def _send(self, request: EffectRequest) -> EffectReply | EffectFault:
        # The turns of a run are played here; everything else is another server's.
        if request.server is not ServerRole.AGENT:
            return await self.sender.send(request)
        key, _, _ = request.path.removeprefix(ROLLOUT_PREFIX).partition("/")
        episode = EpisodeId.from_capture_key(key)
        start = partial(self._of_run, episode, request)
        ended = await self._activate(run_key(episode), episode, start)
        if isinstance(ended, ActivationEnd):
            cookies = ended.state.cookies
            return EffectReply(status=200, body=encode(ended.response), cookies=cookies)
        document = refusal(ended.code, ended.detail)
        return EffectReply(status=ended.status, body=encode(document))

    def _of_run(
        self, episode: EpisodeId, request: EffectRequest, start: StartActivation
    ) -> Started:
        base = self._settings.resources_url + ROLLOUT_PREFIX + episode.capture_key
        fresh = AgentState(cookies=request.cookies)
        activation = Activation(
            key=start.key,
            name=episode.rollout_id,
            params=request.body,
            state=_state(start, fresh),
            grants={OTHER_TOOLS: ToolGrant(base_url=base, headers=EMPTY_OBJECT)},
            prefix=self._settings.prefix(episode),
        )
        return self._activations.start(activation, lambda _: None)

    async def _activate(
        self,
        key: str,
        episode: EpisodeId,
        started: Callable[[StartActivation], Started],
    ) -> ActivationEnd | EpisodeRefusal:
        def start(action: PartAction) -> Refuse | Started:
            if isinstance(action, Refuse):
                return action
            return started(cast("StartActivation", action))

        arrived = ActivationArrived(self.machine.number(), key, episode)
        answer = await self._ask(arrived, start)
        if isinstance(answer, Refuse):
            return EpisodeRefusal(answer.status, answer.code, answer.detail)
        await asyncio.wait((answer,))
        if answer.cancelled():
            return _refusal("stale_attempt", _RETIRED)
        try:
            ended: ActivationEnd = answer.result()
        except ActivationFailedError as error:
            return _refusal("activation_failed", str(error))
        return ended

    # Native sessions

    async def seed(
        self, key: str, episode: EpisodeId, body: JsonObject
    ) -> Refuse | None:
        """Open a session, if need be after the resume; None if it is open."""
        number = self.machine.number()
        admitted = await self._ask(SeedArrived(number, key, episode))
        if isinstance(admitted, Refuse):
            return admitted
        own = KeptSession(request=body).to_document()
        opened = await self._ask(SeedEnded(number, own))
        return opened if isinstance(opened, Refuse) else None

    async def respond(
        self, key: str, episode: EpisodeId, params: JsonObject, index: str | None
    ) -> JsonObject | EpisodeRefusal:
        """Run an activation of a native session, or repeat the last one's reply."""
        session = self.machine.participant.part.sessions.get(key)
        if session is not None and not session.is_active:
            taken = KeptSession.of(session.own).log.take(index)
            if not isinstance(taken, int):
                return taken
        start = partial(self._of_session, episode, params)
        ended = await self._activate(key, episode, start)
        return ended.response if isinstance(ended, ActivationEnd) else ended

    def _of_session(
        self, episode: EpisodeId, params: JsonObject, start: StartActivation
    ) -> Started:
        native = KeptSession.of(start.own)
        activation = Activation(
            key=start.key,
            name=episode.rollout_id,
            params=params,
            state=_state(start, AgentState(cookies=native.cookies)),
            grants=native.grants(),
            prefix=self._settings.prefix(episode),
        )
        return self._activations.start(
            activation, lambda end: native.after(end).to_document()
        )

    async def close(self, key: str, episode: EpisodeId) -> Refuse | JsonObject:
        """Free a session; returns the cookies that its tools have left."""
        session = self.machine.participant.part.sessions.get(key)
        closed = await self._ask(CloseArrived(self.machine.number(), key, episode))
        if isinstance(closed, Refuse):
            return closed
        own = EMPTY_OBJECT if session is None else session.own
        return KeptSession.of(own).cookies if own else EMPTY_OBJECT

    # What the machine has its shell do

    def changed(
        self,
        before: ParticipantState[AgentPart],
        after: ParticipantState[AgentPart],
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


def _state(start: StartActivation, fresh: AgentState) -> AgentState:
    if start.continuation is None:
        return fresh
    return _STATES.decode(start.continuation, freeze)


def _refusal(code: str, detail: str) -> EpisodeRefusal:
    return EpisodeRefusal(STATUS_OF[code], code, detail)
