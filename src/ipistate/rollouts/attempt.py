"""One attempt of a rollout: seed, turns of the policy, tool calls, verify."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import attrs

from ipistate.agents import (
    FILTERED,
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
    decode_as,
    encode,
    is_object,
    trusted_object,
)
from ipistate.policies import for_row, parameters_of
from ipistate.protocol import MAX_SESSION_ID
from ipistate.rollouts.connection import ServerError


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ipistate.agents import Conversation, NextStep, Policy
    from ipistate.kernel import Adopt
    from ipistate.protocol import EpisodeId
    from ipistate.rollouts.checkpoints import Boundary
    from ipistate.rollouts.configuration import Rollout
    from ipistate.rollouts.connection import EpisodeClient

_ECHOED = frozenset({"responses_create_params", "response"})


@attrs.define(eq=False, kw_only=True)
class Attempt:
    """Plays one attempt of a rollout, from its seed or from where it is held.

    Args:
        rollout: Which attempt of which rollout, and its state if a checkpoint has one.
        row: The task row as it stands in its file.
        policy: Plays the agent.
        max_steps: Bounds the turns of the policy.
        client: Makes the requests.
        boundary: Where the attempt stands still for a checkpoint.
        finished: Takes the scored row.
    """

    rollout: Rollout
    row: bytes
    policy: Policy
    max_steps: int
    client: EpisodeClient
    boundary: Boundary
    finished: Callable[[JsonObject], None]
    state: AgentState = attrs.field(init=False)
    _task: JsonObject = attrs.field(init=False)
    _params: JsonObject = attrs.field(init=False)
    _asked: tuple[JsonObject, ...] = attrs.field(init=False)
    _tools: tuple[JsonObject, ...] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._task = _task(self.row)
        params = self._task.get("responses_create_params")
        self._params = params if isinstance(params, JsonObject) else EMPTY_OBJECT
        self.policy = for_row(self.policy, self._params)
        self._asked = input_messages(self._params)
        self._tools = offered_tools(self._params)
        self.state = self.rollout.state or AgentState()

    async def play(self) -> None:
        """Play to the end and hand over the row.

        Raises:
            PolicyError: The policy cannot reply.
            ServerError: The server cannot do what it is asked.
        """
        await self.begin()
        while not isinstance(await self.step(), Over):
            pass
        await self.verify()

    async def begin(self) -> None:
        """Seed the session, unless a checkpoint has brought it.

        Raises:
            ServerError: The server refuses the seed.
        """
        if self.rollout.state is None:
            await self._request("seed_session", self.row)

    async def step(self) -> NextStep:
        """Do what comes next in the conversation, and return what it was.

        Raises:
            PolicyError: The policy cannot reply.
            ServerError: The server does not answer a tool call.
        """
        said = self.state.conversation
        step = said.next_step(self.max_steps)
        match step:
            case Ask():
                asked = (*self._asked, *said.output)
                reply = await self.policy.respond(asked, self._tools)
                self._keep(attrs.evolve(self.state, conversation=said.replied(reply)))
            case Send():
                body = encode(step.arguments)
                await self._request(step.name, body, step)
            case RefuseCall():
                said = said.answered(step.call_id, step.output)
                self._keep(attrs.evolve(self.state, conversation=said))
            case Over():
                pass
        return step

    async def _request(self, route: str, body: bytes, call: Send | None = None) -> None:
        await self.boundary.opened()
        # No await between the answer and the new state: a checkpoint that is taken in
        # between would have a session that is one call ahead of its conversation.
        with self.boundary.moving():
            text = (await self.client.post(route, body)).decode("utf-8", "replace")
            said = self.state.conversation
            if call is not None:
                said = said.answered(call.call_id, text)
            cookies = trusted_object(self.client.cookies)
            self._keep(attrs.evolve(self.state, conversation=said, cookies=cookies))

    def _keep(self, state: AgentState) -> None:
        self.state = state
        self.boundary.keep(self.rollout.episode, state)

    async def verify(self) -> None:
        """Have the response scored, and hand over the row.

        Raises:
            ServerError: The server gives no verdict.
        """
        said = self.state.conversation
        row = trusted_object({**self._task, "response": self.response()})
        body = encode(row)
        await self.boundary.opened()
        # The row is written before the barrier can close, so a rollout is always in
        # the rows or in the next checkpoint, and never in neither.
        with self.boundary.moving():
            verdict = _verdict(await self.client.post("verify", body))
            masking = _masking(said, verdict)
            labels = self.rollout.labels()
            self.finished(trusted_object({**row, **verdict, **masking, **labels}))
            self.boundary.drop(self.rollout.episode)

    def response(self) -> JsonObject:
        """Return what has been said so far as a Responses object."""
        said, rollout_id = self.state.conversation, self.rollout.episode.rollout_id
        asked = parameters_of(self.policy)
        sent = None if asked is None else asked.sent
        return response(said, rollout_id, self._params, self.policy.name, sent)

    @property
    def unsent(self) -> tuple[str, ...]:
        """What the policy does not ask a model although the row says it."""
        asked = parameters_of(self.policy)
        return () if asked is None else asked.unsent

    async def give_up(self) -> None:
        """Let the server free the session; that it cannot is no failure of the run."""
        episode = self.rollout.episode
        await self.boundary.opened()
        with self.boundary.moving():
            self.boundary.drop(episode)
            try:
                await self.client.post("close_session", close_request(episode))
            except ServerError:
                return


def session_name(episode: EpisodeId) -> str:
    """Name the session of an attempt; no other attempt's has this name.

    An episode whose key is too long for a session's id is named by a digest of it: a
    key that was only cut could be the beginning of another one's.
    """
    name = f"run-{episode.capture_key}"
    if len(name) <= MAX_SESSION_ID:
        return name
    return f"run-sha256-{sha256(name.encode()).hexdigest()}"


def close_request(episode: EpisodeId) -> bytes:
    """Write the body with which an attempt closes its session."""
    named = JsonObject(attrs.asdict(episode))
    body = {"resources_session_id": session_name(episode), "episode_id": named}
    return encode(JsonObject(body))


def _masking(
    said: Conversation, verdict: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    # The wire's verdict counts it as resistance. It was the filter's, not the agent's;
    # but what was done before the filter is done.
    blocked = said.incomplete_reason == FILTERED
    if not blocked or verdict.get("injection_followed"):
        return {}
    return {
        "mask_sample": True,
        "failure_kind": "blocked_reply",
        "failure_reason": "a filter of the endpoint blocked the agent's last reply",
    }


def _verdict(body: bytes) -> dict[str, JsonValue]:
    try:
        verdict = decode_as(body, _members)
    except IpiStateError as error:
        message = f"the reply to verify cannot be read: {error}"
        raise ServerError("server_refused", message) from error
    reward = verdict.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise ServerError("server_refused", "the reply to verify has no reward")
    return verdict


def _members(tree: Any, adopt: Adopt) -> dict[str, JsonValue]:
    members: dict[str, Any] = tree if is_object(tree) else {}
    # What it echoes is most of it and is here already, so it is not even checked.
    for name in _ECHOED:
        members.pop(name, None)
    return {name: adopt(part) for name, part in members.items()}


@lru_cache(maxsize=16)
def _task(row: bytes) -> JsonObject:
    # The repeats of a row are played one after another, and share what is read.
    return cast("JsonObject", decode(row))
