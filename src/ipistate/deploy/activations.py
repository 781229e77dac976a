"""Activations: the turn loop of an agent, from boundary to boundary.

The conversation says what comes next (``agents``), the part when the loop may go on. The
state at a boundary is a value, so a loop that is cut there goes on in another process.
"""

from __future__ import annotations

import asyncio

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from ipistate.agents import (
    AgentState,
    Ask,
    Over,
    PolicyError,
    RefuseCall,
    Send,
    input_messages,
    offered_tools,
    response,
)
from ipistate.clients import JSON, Bounds, HttpError
from ipistate.deploy.effects import texts_of
from ipistate.kernel import JsonObject, encode, trusted_object, unstructure
from ipistate.policies import for_episode, for_row
from ipistate.protocol import (
    ActivationEnded,
    CancelActivation,
    LoopProceeds,
    LoopReached,
    ModelAsked,
    ModelReplied,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ipistate.agents import Conversation, Policy
    from ipistate.clients import HttpClient
    from ipistate.protocol import PartEvent

_BOUNDS: Final = Bounds(size=64 * 2**20, total=600.0, connect=10.0)


@attrs.frozen(kw_only=True)
class ToolGrant:
    """Where a tool is served, and what its calls carry."""

    base_url: str
    headers: JsonObject


@attrs.frozen(kw_only=True)
class Activation:
    """One execution of the turn loop in a session."""

    key: str
    """Of the session."""
    name: str
    """Names the response: equal activations have equal ones."""
    params: JsonObject
    """What the model is asked, with the tools that it is offered."""
    state: AgentState
    grants: Mapping[str, ToolGrant]
    """By the name of a tool; the empty name stands for all others."""
    prefix: str = ""
    """Of the paths of its calls to the model; empty for a model that knows no episodes."""


OTHER_TOOLS: Final = ""


@attrs.frozen
class ActivationEnd:
    """What an activation comes to."""

    response: JsonObject
    state: AgentState


Kept: TypeAlias = "Callable[[ActivationEnd], JsonObject | None]"


class ActivationFailedError(Exception):
    """The model or a tool cannot be reached, and the loop cannot go on."""


@attrs.define(eq=False)
class _Running:
    proceeds: asyncio.Future[None]
    task: asyncio.Task[AgentState] | None = None


class Activations:
    """The activations that run, by the key of their session.

    Args:
        feed: Takes events for the machine.
        policy: Plays the model's part.
        client: Connections to the servers of tools.
        max_steps: Most turns of the model.
    """

    def __init__(
        self,
        feed: Callable[[PartEvent], None],
        policy: Policy,
        client: HttpClient,
        max_steps: int,
    ) -> None:
        self._feed = feed
        self._policy = policy
        self._client = client
        self._max_steps = max_steps
        self._running: dict[str, _Running] = {}

    def start(
        self,
        activation: Activation,
        kept: Kept,
    ) -> asyncio.Future[ActivationEnd]:
        """Start a loop, and return what it comes to.

        The future is cancelled with the activation; it fails with an
        ``ActivationFailedError``.

        Args:
            activation: What to play.
            kept: Says what the session keeps of its end.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[ActivationEnd] = loop.create_future()
        running = _Running(loop.create_future())
        self._running[activation.key] = running
        running.task = loop.create_task(self._played(activation, running))
        running.task.add_done_callback(partial(self._over, activation, kept, result))
        return result

    def perform(self, action: LoopProceeds | CancelActivation) -> None:
        """Let a loop go on, or cancel it; one that has ended does not mind."""
        running = self._running.get(action.key)
        if running is None or running.task is None:
            return
        if isinstance(action, CancelActivation):
            running.task.cancel()
        elif not running.proceeds.done():
            running.proceeds.set_result(None)

    def _over(
        self,
        activation: Activation,
        kept: Kept,
        result: asyncio.Future[ActivationEnd],
        task: asyncio.Task[AgentState],
    ) -> None:
        del self._running[activation.key]
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._feed(ActivationEnded(activation.key))
            if error is None:
                result.cancel()
            elif not result.done():
                result.set_exception(_failure(error))
            return
        state = task.result()
        end = ActivationEnd(self._response(activation, state.conversation), state)
        # Before the caller hears of it: what it sends next must find the session idle.
        self._feed(ActivationEnded(activation.key, kept(end)))
        if not result.done():
            result.set_result(end)

    async def _played(self, activation: Activation, running: _Running) -> AgentState:
        state, key = activation.state, activation.key
        while True:
            said = state.conversation
            match said.next_step(self._max_steps):
                case Over():
                    return state
                case Ask():
                    await self._reach(running, key, state)
                    await self._goes_on(running, ModelAsked(key))
                    said = await self._asked(activation, said)
                    await self._goes_on(running, ModelReplied(key))
                    state = attrs.evolve(state, conversation=said)
                    if not isinstance(said.next_step(self._max_steps), Over | Ask):
                        await self._reach(running, key, state)
                case Send() as call:
                    state = await self._sent(activation, state, call)
                case RefuseCall(call_id=call_id, output=output):
                    said = said.answered(call_id, output)
                    state = attrs.evolve(state, conversation=said)

    async def _reach(self, running: _Running, key: str, state: AgentState) -> None:
        await self._goes_on(running, LoopReached(key, unstructure(state)))

    async def _goes_on(
        self, running: _Running, event: LoopReached | ModelAsked | ModelReplied
    ) -> None:
        # Before the event: the machine may answer it at once.
        running.proceeds = asyncio.get_running_loop().create_future()
        self._feed(event)
        await running.proceeds

    async def _asked(self, activation: Activation, said: Conversation) -> Conversation:
        params = activation.params
        messages = (*input_messages(params), *said.output)
        policy = for_episode(for_row(self._policy, params), activation.prefix)
        return said.replied(await policy.respond(messages, offered_tools(params)))

    async def _sent(
        self, activation: Activation, state: AgentState, call: Send
    ) -> AgentState:
        grants = activation.grants
        grant = grants.get(call.name) or grants[OTHER_TOOLS]
        answer = await self._client.send(
            "POST",
            grant.base_url,
            f"/{call.name}",
            encode(call.arguments),
            bounds=_BOUNDS,
            headers={**JSON, **texts_of(grant.headers)},
            cookies=texts_of(state.cookies),
        )
        # The whole body, whatever the status: that is what models are trained on.
        text = answer.content.decode("utf-8", "replace")
        return attrs.evolve(
            state,
            conversation=state.conversation.answered(call.call_id, text),
            cookies=trusted_object({**state.cookies, **answer.cookies}),
        )

    def _response(self, activation: Activation, said: Conversation) -> JsonObject:
        return response(said, activation.name, activation.params, self._policy.name)


def _failure(error: BaseException) -> BaseException:
    if isinstance(error, PolicyError | HttpError):
        return ActivationFailedError(f"{error.message} [{error.code}]")
    return error
