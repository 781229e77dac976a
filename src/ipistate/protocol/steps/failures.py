"""What becomes of a reply that a protocol cannot go on with.

A checkpoint's refusal is passed on as the HTTP error that it is: the caller sends its
request again. Everything else ends the episode with a failure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from ipistate.errors import DecodeError
from ipistate.kernel import JsonObject, decode
from ipistate.protocol.actions import STATUS_OF
from ipistate.protocol.steps.exchange import EffectFault, EffectReply, FaultKind


MAX_REASON: Final = 2000
"""Characters of a failure's reason; the rest is cut off."""

RETRYABLE: Final = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that another attempt may not meet again."""

_SHOWN: Final = 500


class Stage(StrEnum):
    """Where an episode failed."""

    ADMISSION = "admission"
    SEED = "seed"
    AGENT = "agent"
    VERIFICATION = "verification"
    CLEANUP = "cleanup"


def _clipped(reason: str) -> str:
    return reason[:MAX_REASON]


@attrs.frozen(kw_only=True)
class EpisodeFailure:
    """Why an episode has no result (docs/reference/control-plane.md, section 6)."""

    failure_reason: str = attrs.field(converter=_clipped)
    terminal: bool
    """Another attempt would fail as well."""
    stage: Stage
    failure_kind: str | None = None

    def to_document(self) -> JsonObject:
        """Write the failure as a ``/run`` reply shows it."""
        kind = self.failure_kind
        named = {} if kind is None else {"failure_kind": kind}
        return JsonObject(
            {
                "failure_reason": self.failure_reason,
                "terminal": self.terminal,
                **named,
                "stage": self.stage.value,
            }
        )


@attrs.frozen
class EpisodeRefusal:
    """An HTTP error of the protocol, not a failure: the caller sends its request again."""

    status: int
    code: str
    detail: str


class StepFailedError(Exception):
    """A step cannot go on; ``outcome`` is what becomes of the episode."""

    def __init__(self, outcome: EpisodeFailure | EpisodeRefusal) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def failed(
    stage: Stage, kind: str, reason: str, *, terminal: bool = True
) -> StepFailedError:
    """Make the error of a step that ends its episode with a failure."""
    return StepFailedError(
        EpisodeFailure(
            failure_reason=reason, terminal=terminal, stage=stage, failure_kind=kind
        )
    )


def received(answer: EffectReply | EffectFault, stage: Stage) -> EffectReply:
    """Return the successful reply that an answer is.

    Raises:
        StepFailedError: There is no reply, or it is an error.
    """
    if isinstance(answer, EffectFault):
        reason = f"no reply ({answer.kind.value}): {answer.detail}"
        is_final = answer.kind is FaultKind.DEADLINE
        raise failed(stage, answer.kind.value, reason, terminal=is_final)
    if not 200 <= answer.status < 300:
        raise _refused(answer, stage)
    return answer


def document_of(reply: EffectReply, stage: Stage) -> JsonObject:
    """Return the JSON object that a reply carries.

    Raises:
        StepFailedError: It carries none.
    """
    try:
        document = decode(reply.body)
    except DecodeError as error:
        # As good as none: what is no JSON was cut short, or came from something between.
        reason = f"the reply is not JSON: {error}"
        kind = FaultKind.PAYLOAD.value
        raise failed(stage, kind, reason, terminal=False) from None
    if not isinstance(document, JsonObject):
        raise failed(stage, "invalid_reply", "the reply is not a JSON object")
    return document


def _refused(answer: EffectReply, stage: Stage) -> StepFailedError:
    passed = _passed(answer)
    if passed is not None:
        return StepFailedError(passed)
    shown = answer.body[:_SHOWN].decode("utf-8", "replace")
    reason = f"HTTP status {answer.status}: {shown}"
    is_final = answer.status not in RETRYABLE
    return failed(stage, "http_status", reason, terminal=is_final)


def _passed(answer: EffectReply) -> EpisodeRefusal | None:
    if answer.status != 409:
        return None
    try:
        document = decode(answer.body)
    except DecodeError:
        return None
    error = document.get("error") if isinstance(document, JsonObject) else None
    if not isinstance(error, JsonObject):
        return None
    code, detail = error.get("code"), error.get("detail")
    if not isinstance(code, str) or STATUS_OF.get(code) != answer.status:
        return None
    return EpisodeRefusal(
        answer.status, code, detail if isinstance(detail, str) else ""
    )


def check_echo(document: JsonObject, name: str, expected: str, stage: Stage) -> None:
    """Check that a reply repeats what it was asked for.

    Raises:
        StepFailedError: It does not.
    """
    if document.get(name) != expected:
        reason = f"the reply does not repeat {name}"
        raise failed(stage, "invalid_reply", reason)
