"""The requests of the protocol ``single_agent_turn``: one for each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    JsonValue,
    trusted_object,
    unstructure,
)
from ipistate.protocol.steps.exchange import EffectRequest, ServerRole, captured
from ipistate.protocol.steps.tasks import RunBody
from ipistate.protocol.steps.turn_boundaries import (
    SessionHandles,
    TurnBoundary,
    TurnClose,
    TurnInvoke,
    TurnReturn,
    TurnSeed,
    TurnVerify,
)
from ipistate.protocol.wire import (
    ACTIVATION_HEADER,
    AGENT_CLOSE_PATH,
    AGENT_SESSIONS_PATH,
    CLOSE_PATH,
    RESPONSES_PATH,
    SEED_PATH,
    VERIFY_PATH,
    prefixed,
)


@attrs.frozen(kw_only=True)
class TurnSeedAgent:
    """Inside the seed: the resources session stands, the agent's does not.

    No boundary; after a crash both are seeded again.
    """

    handles: SessionHandles
    tool_accesses: JsonArray
    sandbox_access: JsonValue


TurnState: TypeAlias = TurnBoundary | TurnSeedAgent

FIRST_ACTIVATION: Final = JsonObject({ACTIVATION_HEADER: "1"})
"""With it a repeated request gets the recorded reply instead of a second run."""


@attrs.frozen(kw_only=True)
class TurnRequests:
    """What does not change while an episode runs, and what it sends."""

    run: RunBody
    resources_url: str
    """Where the agent sends its tool calls."""
    captures_tokens: bool = False

    def request(self, state: TurnState) -> EffectRequest:
        """Return the request that a state makes.

        Raises:
            TypeError: The state is to be returned and makes none.
        """
        match state:
            case TurnSeed(handles=handles):
                return self._to_resources(SEED_PATH, handles, self._native_seed())
            case TurnSeedAgent(handles=handles):
                return self._to_agent(AGENT_SESSIONS_PATH, handles, self._grants(state))
            case TurnInvoke(handles=handles):
                return self._invocation(handles)
            case TurnClose(handles=handles):
                return self._to_agent(AGENT_CLOSE_PATH, handles)
            case TurnVerify():
                return self._verification(state)
            case _:
                raise TypeError("a state that is to be returned makes no request")

    def cleanup(self, state: TurnState) -> tuple[EffectRequest, ...]:
        """Return the requests that close what may still be open, whatever happened."""
        handles = state.handles
        closing = self._to_resources(CLOSE_PATH, handles)
        if isinstance(state, TurnVerify | TurnReturn):
            return (closing,)
        return self._to_agent(AGENT_CLOSE_PATH, handles), closing

    def _to_resources(
        self,
        path: str,
        handles: SessionHandles,
        more: Mapping[str, JsonValue] = EMPTY_OBJECT,
    ) -> EffectRequest:
        episode = self.run.episode_id
        named: dict[str, JsonValue] = {
            "resources_session_id": handles.resources_session_id,
            "episode_id": unstructure(episode),
        }
        return EffectRequest(
            server=ServerRole.RESOURCES,
            path=prefixed(path, episode),
            body=trusted_object({**named, **more}),
            cookies=handles.resources_cookies,
        )

    def _to_agent(
        self,
        path: str,
        handles: SessionHandles,
        more: Mapping[str, JsonValue] = EMPTY_OBJECT,
    ) -> EffectRequest:
        episode = self.run.episode_id
        named: dict[str, JsonValue] = {
            "agent_session_id": handles.agent_session_id,
            "episode_id": unstructure(episode),
        }
        return EffectRequest(
            server=ServerRole.AGENT,
            path=prefixed(path, episode),
            body=trusted_object({**named, **more}),
            cookies=handles.agent_cookies,
        )

    def _native_seed(self) -> Mapping[str, JsonValue]:
        task = self.run.task
        task_id = unstructure(task.task_id)
        return {"task_id": task_id, "task_data": task.task_input.task_data}

    def _grants(self, state: TurnSeedAgent) -> Mapping[str, JsonValue]:
        return {
            "task_id": unstructure(self.run.task.task_id),
            "tool_accesses": state.tool_accesses,
            "sandbox_access": state.sandbox_access,
        }

    def _invocation(self, handles: SessionHandles) -> EffectRequest:
        return EffectRequest(
            server=ServerRole.AGENT,
            path=captured(
                RESPONSES_PATH,
                self.run.episode_id,
                captures_tokens=self.captures_tokens,
            ),
            body=self.run.task.task_input.responses_create_params,
            cookies=handles.agent_cookies,
            headers=FIRST_ACTIVATION,
        )

    def _verification(self, state: TurnVerify) -> EffectRequest:
        # The flat row that an agent would send, so that both ways give equal results.
        given = self.run.task.task_input
        observed = state.observations
        more = {} if observed is None else {"agent_observations": observed}
        return EffectRequest(
            server=ServerRole.RESOURCES,
            path=prefixed(VERIFY_PATH, self.run.episode_id),
            body=trusted_object(
                {
                    **given.task_data,
                    "responses_create_params": given.responses_create_params,
                    "response": state.response,
                    **more,
                }
            ),
            cookies=state.handles.resources_cookies,
        )


def direct_grants(turn: TurnRequests, cookies: JsonObject) -> JsonArray:
    """Grant the agent the tools that the task's row offers the model."""
    offered = turn.run.task.task_input.responses_create_params.get("tools")
    tools = offered if isinstance(offered, JsonArray) else ()
    names = [one.get("name") for one in tools if isinstance(one, JsonObject)]
    return JsonArray(
        {
            "kind": "direct_http",
            "name": name,
            "required": True,
            "base_url": turn.resources_url,
            "cookies": cookies,
            "headers": {},
        }
        for name in names
        if isinstance(name, str)
    )
