"""The protocol ``single_agent_turn`` as a reducer: state and reply in, next state out.

A state says which request to make (``SingleTurn.request``), and ``advance`` takes the
answer. All states but one are boundaries, so what a checkpoint records is the state.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    JsonValue,
    trusted_object,
    unstructure,
)
from ipistate.protocol.steps.boundaries import is_cookies
from ipistate.protocol.steps.events import StepMode
from ipistate.protocol.steps.exchange import EffectFault, EffectReply
from ipistate.protocol.steps.failures import (
    EpisodeFailure,
    EpisodeRefusal,
    Stage,
    StepFailedError,
    check_echo,
    document_of,
    failed,
    received,
)
from ipistate.protocol.steps.outcomes import (
    Advanced,
    marks_restart,
    merged,
    verify_mode,
)
from ipistate.protocol.steps.tasks import RunBody
from ipistate.protocol.steps.turn_boundaries import (
    SessionHandles,
    TurnClose,
    TurnInvoke,
    TurnReturn,
    TurnSeed,
    TurnVerify,
)
from ipistate.protocol.steps.turn_requests import (
    TurnRequests,
    TurnSeedAgent,
    TurnState,
    direct_grants,
)


TurnOutcome: TypeAlias = Advanced[TurnState] | EpisodeFailure | EpisodeRefusal


@attrs.frozen(kw_only=True)
class SingleTurn(TurnRequests):
    """One episode of the protocol."""

    def mode(self, state: TurnState) -> StepMode | None:
        """Return what a checkpoint does about a state's step; None without a step."""
        match state:
            case TurnReturn():
                return None
            case TurnClose():
                return StepMode.WAIT
            case TurnVerify():
                return StepMode(state.handles.resources_verify)
            case _:
                return StepMode.REPLAY

    def is_boundary(self, state: TurnState) -> bool:
        """Tell whether a checkpoint can record a state."""
        return not isinstance(state, TurnSeedAgent)

    def advance(
        self, state: TurnState, answer: EffectReply | EffectFault
    ) -> TurnOutcome:
        """Take the answer to a state's request.

        Returns:
            The next state, the failure that ends the episode, or the refusal of a
            checkpoint, which is passed on to the caller.
        """
        stage = _stage(state)
        try:
            reply = received(answer, stage)
            return _advanced(self, state, reply, document_of(reply, stage))
        except StepFailedError as error:
            return error.outcome


def _stage(state: TurnState) -> Stage:
    match state:
        case TurnSeed() | TurnSeedAgent():
            return Stage.SEED
        case TurnInvoke() | TurnClose():
            return Stage.AGENT
        case _:
            return Stage.VERIFICATION


def _advanced(
    turn: TurnRequests, state: TurnState, reply: EffectReply, document: JsonObject
) -> Advanced[TurnState]:
    handles = state.handles
    match state:
        case TurnSeed():
            return _resources_seeded(turn, handles, reply, document)
        case TurnSeedAgent():
            _check_agent(handles, document, Stage.SEED)
            found = _with_agent(handles, reply)
            return Advanced(TurnInvoke(handles=found), marks_restart(reply))
        case TurnInvoke():
            found = _with_agent(handles, reply)
            return Advanced(TurnClose(handles=found, response=document))
        case TurnClose():
            return Advanced(_closed(state, document))
        case TurnVerify(observations=observed):
            after = TurnReturn(handles=handles, result=document, observations=observed)
            return Advanced(after)
        case _:
            raise TypeError("a state that is to be returned has no answer")


def _resources_seeded(
    turn: TurnRequests,
    handles: SessionHandles,
    reply: EffectReply,
    document: JsonObject,
) -> Advanced[TurnState]:
    named = handles.resources_session_id
    check_echo(document, "resources_session_id", named, Stage.SEED)
    if not reply.cookies:
        reason = "the reply sets no cookie, so nothing finds the session"
        raise failed(Stage.SEED, "invalid_reply", reason)
    seeded = attrs.evolve(
        handles,
        resources_cookies=merged(handles.resources_cookies, reply),
        resources_verify=verify_mode(reply),
    )
    after = TurnSeedAgent(
        handles=seeded,
        tool_accesses=_tool_accesses(turn, seeded, document.get("resources_tools")),
        sandbox_access=document.get("sandbox_access"),
    )
    return Advanced(after, marks_restart(reply))


def _tool_accesses(
    turn: TurnRequests, handles: SessionHandles, granted: JsonValue
) -> JsonArray:
    # A server that grants nothing itself serves the tools that its rows name.
    if granted is None:
        return direct_grants(turn, handles.resources_cookies)
    if isinstance(granted, JsonArray) and all(
        isinstance(one, JsonObject) for one in granted
    ):
        return granted
    reason = "resources_tools is neither null nor an array of grants"
    raise failed(Stage.SEED, "invalid_reply", reason)


def _check_agent(handles: SessionHandles, document: JsonObject, stage: Stage) -> None:
    check_echo(document, "agent_session_id", handles.agent_session_id, stage)


def _with_agent(handles: SessionHandles, reply: EffectReply) -> SessionHandles:
    return attrs.evolve(handles, agent_cookies=merged(handles.agent_cookies, reply))


def _closed(state: TurnClose, document: JsonObject) -> TurnVerify:
    handles = state.handles
    _check_agent(handles, document, Stage.AGENT)
    kept = document.get("resources_cookies") or EMPTY_OBJECT
    if not is_cookies(kept):
        reason = "resources_cookies does not give each cookie a string"
        raise failed(Stage.AGENT, "invalid_reply", reason)
    cookies = handles.resources_cookies | kept
    return TurnVerify(
        handles=attrs.evolve(handles, resources_cookies=cookies),
        response=state.response,
        observations=document.get("agent_observations"),
    )


def turn_reply(run: RunBody, ended: TurnReturn | EpisodeFailure) -> JsonObject:
    """Write the reply of ``/run``: a result or a failure."""
    result = ended.result if isinstance(ended, TurnReturn) else None
    failure = ended.to_document() if isinstance(ended, EpisodeFailure) else None
    return trusted_object(
        {
            "episode_id": unstructure(run.episode_id),
            "task_id": unstructure(run.task.task_id),
            "result": result,
            "failure": failure,
        }
    )
