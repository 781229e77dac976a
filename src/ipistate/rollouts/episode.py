"""The agent loop: seed, turns of the policy, tool calls, verify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs

from ipistate.agents import (
    AgentState,
    Ask,
    Over,
    RefuseCall,
    Send,
    input_messages,
    offered_tools,
    response,
)
from ipistate.errors import IpiStateError
from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonObject,
    JsonValue,
    decode,
    encode,
    trusted_object,
)
from ipistate.policies import for_row
from ipistate.rollouts.connection import EpisodeClient, ServerError


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ipistate.agents import Policy
    from ipistate.rollouts.boundary import Boundary
    from ipistate.rollouts.connection import Channel
    from ipistate.rollouts.rollout import Rollout
    from ipistate.rollouts.tasks import TaskFile

_ECHOED = frozenset({"responses_create_params", "response"})


@attrs.frozen(kw_only=True)
class RunContext:
    """What all episodes of a run share."""

    tasks: TaskFile
    policies: Sequence[Policy]
    """Who plays the first repeat of a row, the second, and so on, in turn."""
    max_steps: int
    boundary: Boundary[AgentState]
    finished: Callable[[JsonObject], None]
    """Takes the row of an episode that has been scored."""

    def policy(self, rollout: Rollout) -> Policy:
        """Return the policy that plays a rollout."""
        return self.policies[rollout.place.repeat % len(self.policies)]


@attrs.define(eq=False)
class Play:
    """One attempt of a rollout, from its seed or from where it is held."""

    stage: RunContext
    rollout: Rollout
    client: EpisodeClient
    held: AgentState
    task: JsonObject
    policy: Policy
    began: bool = False

    @classmethod
    def of(
        cls,
        stage: RunContext,
        rollout: Rollout,
        channel: Channel,
        held: AgentState | None,
    ) -> Play:
        """Prepare an attempt.

        Args:
            stage: What it shares with the others.
            rollout: Which one.
            channel: Where its requests go.
            held: What a checkpoint has kept of it; None to start from its seed.
        """
        cookies = cast("dict[str, str]", held.cookies if held else {})
        task = stage.tasks.document(rollout.place.task)
        return cls(
            stage,
            rollout,
            EpisodeClient(channel, rollout.episode, cookies),
            held or AgentState(),
            task,
            for_row(stage.policy(rollout), _params(task)),
            began=held is not None,
        )

    async def play(self) -> None:
        """Play to the end and hand the row to the stage.

        Raises:
            PolicyError: The policy cannot reply.
            ServerError: The server cannot do what it is asked.
        """
        if not self.began:
            await self._request("seed_session", self._line())
            self.began = True
        while not isinstance(await self._turn(), Over):
            pass
        await self._verify()

    def _line(self) -> bytes:
        return self.stage.tasks.line(self.rollout.place.task)

    async def _turn(self) -> Ask | Send | RefuseCall | Over:
        said = self.held.conversation
        step = said.next_step(self.stage.max_steps)
        if isinstance(step, Ask):
            params = _params(self.task)
            reply = await self.policy.respond(
                (*input_messages(params), *said.output), offered_tools(params)
            )
            self._hold(attrs.evolve(self.held, conversation=said.replied(reply)))
        elif isinstance(step, Send):
            await self._call(step)
        elif isinstance(step, RefuseCall):
            answered = said.answered(step.call_id, step.output)
            self._hold(attrs.evolve(self.held, conversation=answered))
        return step

    async def _call(self, call: Send) -> None:
        def answered(body: bytes) -> AgentState:
            text = body.decode("utf-8", "replace")
            said = self.held.conversation.answered(call.call_id, text)
            return attrs.evolve(self.held, conversation=said)

        await self._request(call.name, encode(call.arguments), answered)

    async def _request(
        self,
        route: str,
        body: bytes,
        answered: Callable[[bytes], AgentState] | None = None,
    ) -> None:
        boundary = self.stage.boundary
        await boundary.opened()
        with boundary.moving():
            answer = await self.client.post(route, body)
            held = self.held if answered is None else answered(answer)
            self._hold(attrs.evolve(held, cookies=JsonObject(self.client.cookies)))

    def _hold(self, held: AgentState) -> None:
        self.held = held
        self.stage.boundary.keep(self.rollout.episode, held)

    def response(self) -> JsonObject:
        """Return what has been said so far as a Responses object."""
        return response(
            self.held.conversation,
            self.rollout.episode.rollout_id,
            _params(self.task),
            self.policy.name,
        )

    async def _verify(self) -> None:
        boundary = self.stage.boundary
        row = trusted_object({**self.task, "response": self.response()})
        body = encode(row)
        await boundary.opened()
        with boundary.moving():
            verdict = _verdict(await self.client.post("verify", body))
            self.stage.finished(trusted_object({**row, **verdict, **self.labels()}))
            boundary.drop(self.rollout.episode)

    def labels(self) -> dict[str, JsonValue]:
        """Return the members that say which attempt of which rollout a row is."""
        place, episode = self.rollout.place, self.rollout.episode
        return {
            "_ng_task_index": place.task,
            "_ng_rollout_index": place.repeat,
            "_ng_rollout_id": episode.rollout_id,
            "attempt": episode.attempt,
        }

    async def give_up(self) -> None:
        """Let the server free the session; whether it does is its own business."""
        boundary, episode = self.stage.boundary, self.rollout.episode
        named = JsonObject(attrs.asdict(episode))
        body = {"resources_session_id": f"run-{episode.capture_key}"[:96]}
        await boundary.opened()
        with boundary.moving():
            boundary.drop(episode)
            try:
                closing = encode(JsonObject({**body, "episode_id": named}))
                await self.client.post("close_session", closing)
            except ServerError:
                return


def _params(task: JsonObject) -> JsonObject:
    params = task.get("responses_create_params")
    return params if isinstance(params, JsonObject) else EMPTY_OBJECT


def _verdict(body: bytes) -> dict[str, JsonValue]:
    try:
        verdict: Any = decode(body)
    except IpiStateError as error:
        message = f"the reply to verify cannot be read: {error}"
        raise ServerError("server_refused", message) from error
    reward = verdict.get("reward") if isinstance(verdict, JsonObject) else None
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise ServerError("server_refused", "the reply to verify has no reward")
    return {name: part for name, part in verdict.items() if name not in _ECHOED}
