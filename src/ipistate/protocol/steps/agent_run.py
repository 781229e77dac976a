"""An agent's ``/run`` as a reducer: seed, loop, verify, return.

A state says which request to make (``AgentRun.request``), and ``advance`` takes the
answer. The loop is a request of the agent to itself; every state is a boundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel import JsonObject, trusted_object
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.steps.boundaries import (
    BoundaryCodec,
    check_cookies,
    check_verify_mode,
)
from ipistate.protocol.steps.events import StepMode
from ipistate.protocol.steps.exchange import (
    EffectFault,
    EffectReply,
    EffectRequest,
    ServerRole,
    captured,
)
from ipistate.protocol.steps.failures import (
    EpisodeFailure,
    EpisodeRefusal,
    Stage,
    StepFailedError,
    document_of,
    received,
)
from ipistate.protocol.steps.outcomes import (
    Advanced,
    marks_restart,
    merged,
    verify_mode,
)
from ipistate.protocol.steps.tasks import episode_of
from ipistate.protocol.wire import RESPONSES_PATH, SEED_PATH, VERIFY_PATH, prefixed


@attrs.frozen
class RunSeed:
    """Next, the resources session is seeded."""


@attrs.frozen(kw_only=True)
class RunLoop:
    """Next, the turns are played."""

    cookies: JsonObject = attrs.field(validator=check_cookies)
    """Those of the resources server, which find the restored session."""
    verify_mode: str = attrs.field(validator=check_verify_mode)


@attrs.frozen(kw_only=True)
class RunVerify:
    """Next, the response is scored."""

    response: JsonObject
    cookies: JsonObject = attrs.field(validator=check_cookies)
    verify_mode: str = attrs.field(validator=check_verify_mode)


@attrs.frozen(kw_only=True)
class RunReturn:
    """Next, the caller is answered with the result."""

    response: JsonObject
    result: JsonObject


RunBoundary: TypeAlias = RunSeed | RunLoop | RunVerify | RunReturn
RunAdvance: TypeAlias = Advanced[RunBoundary] | EpisodeFailure | EpisodeRefusal

_KINDS: Final[Mapping[str, type[Any]]] = {
    "seed": RunSeed,
    "loop": RunLoop,
    "verify": RunVerify,
    "return": RunReturn,
}

RUN_BOUNDARIES: Final[BoundaryCodec[RunBoundary]] = BoundaryCodec(_KINDS)

_STAGES: Final[Mapping[type[Any], Stage]] = {
    RunSeed: Stage.SEED,
    RunLoop: Stage.AGENT,
    RunVerify: Stage.VERIFICATION,
    RunReturn: Stage.VERIFICATION,
}

_PARAMS: Final = "responses_create_params"


@attrs.frozen(kw_only=True)
class AgentRun:
    """What does not change while an agent's ``/run`` goes on."""

    episode_id: EpisodeId
    row: JsonObject
    """As the caller sent it."""
    params: JsonObject
    """The row's ``responses_create_params``."""
    captures_tokens: bool = False

    @classmethod
    def of(cls, row: JsonObject, *, captures_tokens: bool = False) -> AgentRun:
        """Read a flat row.

        Raises:
            SchemaError: It names no episode, or has no ``responses_create_params``.
        """
        params = row.get(_PARAMS)
        if not isinstance(params, JsonObject):
            is_missing = _PARAMS not in row
            code = "missing_member" if is_missing else "wrong_type"
            where, shown = json_path([_PARAMS]), preview(params)
            raise SchemaError(code, "expected an object", where, shown)
        return cls(
            episode_id=episode_of(row),
            row=row,
            params=params,
            captures_tokens=captures_tokens,
        )

    @property
    def session_key(self) -> str:
        """The key of the session and of the episode's steps, the same for attempts."""
        return f"run:{self.episode_id.rollout_id}"

    def request(self, state: RunBoundary) -> EffectRequest:
        """Return the request that a state makes.

        Raises:
            TypeError: The state is to be returned and makes none.
        """
        episode = self.episode_id
        match state:
            case RunSeed():
                path = prefixed(SEED_PATH, episode)
                return EffectRequest(
                    server=ServerRole.RESOURCES, path=path, body=self.row
                )
            case RunLoop(cookies=cookies):
                captures = self.captures_tokens
                path = captured(RESPONSES_PATH, episode, captures_tokens=captures)
                return EffectRequest(
                    server=ServerRole.AGENT,
                    path=path,
                    body=self.params,
                    cookies=cookies,
                )
            case RunVerify(response=response, cookies=cookies):
                return EffectRequest(
                    server=ServerRole.RESOURCES,
                    path=prefixed(VERIFY_PATH, episode),
                    body=trusted_object({**self.row, "response": response}),
                    cookies=cookies,
                )
            case _:
                raise TypeError("a state that is to be returned makes no request")

    def mode(self, state: RunBoundary) -> StepMode | None:
        """Return what a checkpoint does about a state's step; None without a step."""
        match state:
            case RunReturn():
                return None
            case RunVerify():
                return StepMode(state.verify_mode)
            case _:
                return StepMode.REPLAY

    def is_boundary(self, state: RunBoundary) -> bool:
        """Tell whether a checkpoint can record a state: every one."""
        del state
        return True

    def advance(
        self, state: RunBoundary, answer: EffectReply | EffectFault
    ) -> RunAdvance:
        """Take the answer to a state's request.

        Returns:
            The next state, the failure that ends the episode, or the refusal of a
            checkpoint, which is passed on to the caller.
        """
        stage = _STAGES[type(state)]
        try:
            reply = received(answer, stage)
            return _advanced(state, reply, document_of(reply, stage))
        except StepFailedError as error:
            return error.outcome

    def cleanup(self, state: RunBoundary) -> tuple[EffectRequest, ...]:
        """Return no request: a flat row's session has no close, its verify ends it."""
        del state
        return ()


def _advanced(
    state: RunBoundary, reply: EffectReply, document: JsonObject
) -> Advanced[RunBoundary]:
    match state:
        case RunSeed():
            seeded = RunLoop(cookies=reply.cookies, verify_mode=verify_mode(reply))
            return Advanced(seeded, marks_restart(reply))
        case RunLoop(cookies=cookies, verify_mode=mode):
            cookies = merged(cookies, reply)
            return Advanced(
                RunVerify(response=document, cookies=cookies, verify_mode=mode)
            )
        case RunVerify(response=response):
            return Advanced(RunReturn(response=response, result=document))
        case _:
            raise TypeError("a state that is to be returned has no answer")
