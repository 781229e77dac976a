"""How ``/verify`` scores: the trace alone, or the trace and what it did to its world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import Adopt, JsonArray, JsonObject, decode_as
from ipistate.scoring import (
    SeededRequest,
    VerifyRequest,
    metrics_report,
    verify_reply,
)
from ipistate.server.bodies import frozen_object
from ipistate.sessions import Session


if TYPE_CHECKING:
    from ipistate.kernel import Environment
    from ipistate.scoring import Trace
    from ipistate.server.operating.settings import ServerSettings

MAX_RESPONSES: Final = 1_000_000
"""Verify responses that one request for metrics may have."""

T = TypeVar("T")
Score: TypeAlias = Callable[[Session | None], JsonObject]
"""Gives the reply, perhaps with the help of the session's history."""

ReadExchange: TypeAlias = Callable[[bytes], Score]
"""Reads a verify request; raises ``DecodeError`` or ``SchemaError`` if it is none."""


class ReadBody(Protocol):
    """Reads a body as ``decode_as`` does."""

    def __call__(self, body: bytes, build: Callable[[Any, Adopt], T], /) -> T: ...


def scoring_of(settings: ServerSettings, read: ReadBody = decode_as) -> ReadExchange:
    """Return the scoring that an operator has chosen."""
    return _with_effects(settings, read) if settings.effects else _by_trace(read)


def reverify_mode_of(settings: ServerSettings) -> str:
    """Say whether a verdict depends on the request alone.

    The verdict always does. Effects of a request without its row's world depend on the
    session, which the first verification has ended.
    """
    return "unknown" if settings.effects else "stateless"


def aggregated(body: bytes) -> JsonObject:
    """Return the metrics of the verify responses of a request.

    Raises:
        DecodeError: It is not acceptable JSON.
        SchemaError: It has none, or too many (``too_many_responses``).
    """
    document = frozen_object(body)
    responses = document.get("verify_responses")
    if "verify_responses" not in document:
        message = "required member is missing"
        raise SchemaError("missing_member", message, "$.verify_responses")
    if not isinstance(responses, JsonArray):
        where, shown = "$.verify_responses", preview(responses)
        raise SchemaError("wrong_type", "expected an array", where, shown)
    if len(responses) > MAX_RESPONSES:
        message = f"a call names at most {MAX_RESPONSES:,} verify responses"
        where, shown = "$.verify_responses", preview(responses)
        raise SchemaError("too_many_responses", message, where, shown)
    return metrics_report(responses)  # type: ignore[arg-type]


def _by_trace(read: ReadBody) -> ReadExchange:
    def read_exchange(body: bytes) -> Score:
        exchange = read(body, VerifyRequest.built)
        return lambda _: verify_reply(exchange, exchange.verdict())

    return read_exchange


def _with_effects(settings: ServerSettings, read: ReadBody) -> ReadExchange:
    def read_exchange(body: bytes) -> Score:
        given = read(body, SeededRequest.built)

        def score(session: Session | None) -> JsonObject:
            exchange = given
            if given.seed is None and session is not None:
                seed = _seed_of(session, given.request.trace(settings.tools))
                exchange = attrs.evolve(given, seed=seed)
            return verify_reply(
                exchange.request, exchange.verdict(tools=settings.tools)
            )

        return score

    return read_exchange


def _seed_of(session: Session, trace: Trace) -> Environment | None:
    if not session.is_logged:
        return None
    # A history that began with a restore does not lead back to the episode's seed; its
    # log is shorter than the trace then.
    calls = [call for call in trace.calls if not call.is_cut_off]
    traced = [call.name for call in calls if call.arguments is not None]
    logged = [step.call.name for step in session.log]
    return session.seed if traced == logged else None
