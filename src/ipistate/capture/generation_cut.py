"""Where a generation was cut for a checkpoint, so that it goes on instead of over."""

from __future__ import annotations

from typing import Any

import attrs

from ipistate.kernel import JsonValue, refuse


def _check_reason(_: object, field: attrs.Attribute[Any], reason: JsonValue) -> None:
    if reason is not None and type(reason) not in {str, int}:
        message = "a stop reason is a text or an integer"
        raise refuse("wrong_type", message, reason, field)


@attrs.frozen(kw_only=True)
class CutContinuation:
    """What a worker needs to continue a call after the tokens that are staged."""

    source_capture_key: str
    source_model_call_id: str
    staging_keys: tuple[str, ...]
    prefix_token_count: int
    prefix_digest: str
    effective_output_limit: int
    """Tokens that the whole reply may have."""
    terminal_finish_reason: str | None = None
    """``stop`` or ``length`` of a call that had ended when it was cut."""
    terminal_stop_reason: JsonValue = attrs.field(default=None, validator=_check_reason)
    """A text or an integer, as the engine gives it."""


@attrs.frozen(kw_only=True)
class GenerationCutRecord:
    """The cut of a call that was not delivered."""

    model_call_id: str
    request_digest: str
    """Of the request's items: another request is not continued."""
    continuation: CutContinuation
