"""How ``/verify`` scores: the trace alone, or the trace and what it did to its world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonArray, JsonObject
from ipistate.scoring import (
    SeededRequest,
    VerifyRequest,
    calls_of_items,
    metrics_report,
    verify_reply,
)
from ipistate.sessions import Session


if TYPE_CHECKING:
    from ipistate.kernel import Environment
    from ipistate.server.operating.settings import ServerSettings

Score: TypeAlias = Callable[[Session | None], JsonObject]
"""Gives the reply, perhaps with the help of the session's history."""

ReadExchange: TypeAlias = Callable[[bytes], Score]
"""Reads a verify request; raises ``DecodeError`` or ``SchemaError`` if it is none."""


def scoring_of(settings: ServerSettings) -> ReadExchange:
    """Return the scoring that an operator has chosen."""
    return _with_effects(settings) if settings.effects else _by_trace


def aggregated(body: JsonObject) -> JsonObject:
    """Return the metrics of the verify responses of a request.

    Raises:
        SchemaError: It has none.
    """
    responses = body.get("verify_responses")
    if "verify_responses" not in body:
        message = "required member is missing"
        raise SchemaError("missing_member", message, "$.verify_responses")
    if not isinstance(responses, JsonArray):
        where, shown = "$.verify_responses", preview(responses)
        raise SchemaError("wrong_type", "expected an array", where, shown)
    return metrics_report(responses)  # type: ignore[arg-type]


def _by_trace(body: bytes) -> Score:
    exchange = VerifyRequest.from_json(body)
    return lambda _: verify_reply(exchange, exchange.verdict())


def _with_effects(settings: ServerSettings) -> ReadExchange:
    def read(body: bytes) -> Score:
        given = SeededRequest.from_json(body)

        def score(session: Session | None) -> JsonObject:
            exchange = given
            if given.seed is None and session is not None:
                seed = _seed_of(session, given.request)
                exchange = attrs.evolve(given, seed=seed)
            return verify_reply(
                exchange.request, exchange.verdict(tools=settings.tools)
            )

        return score

    return read


def _seed_of(session: Session, request: VerifyRequest) -> Environment | None:
    if not session.is_logged:
        return None
    # A history that began with a restore does not lead back to the episode's seed; its
    # log is shorter than the trace then.
    calls = calls_of_items(request.output_items)
    traced = [call.name for call in calls if call.arguments is not None]
    logged = [step.call.name for step in session.log]
    return session.seed if traced == logged else None
