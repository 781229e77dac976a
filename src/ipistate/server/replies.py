"""JSON responses, and what a request is answered whose handler raised an error.

See docs/reference/control-plane.md, sections 1.7 and 2.15.
"""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ipistate.errors import (
    PREVIEW_LIMIT,
    BottomlessError,
    DecodeError,
    IpiStateError,
    Problem,
    SchemaError,
)
from ipistate.kernel import JsonArray, encode, freeze, trusted_array, trusted_object
from ipistate.protocol import HINT_HEADER, STATUS_OF, refusal
from ipistate.server.bodies import ArgumentsError
from ipistate.server.live.sessions import (
    NotSeededError,
    SessionConflictError,
    SessionsFullError,
)
from ipistate.server.uploads import UploadsFullError
from ipistate.sessions import IdempotencyError, SessionRangeError


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

    from ipistate.kernel import JsonValue
    from ipistate.server.operating.observer import Observer

_SEGMENT: Final = re.compile(r'\.(\w+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')
_BEYOND_PARSERS: Final = frozenset({"not_utf8", "integer_too_large"})
_NOT_SEEDED: Final = "Session not initialized. Please call seed_session first."
_BODY: Final = JsonArray(["body"])
_NO_OBJECT: Final = (
    "Input should be a valid dictionary or object to extract fields from"
)
_ECHOED: Final = 4_096
"""Bytes of a tool call's body up to which its refusal repeats it."""
_UNPARSED: Final = "There was an error parsing the body"


def json_reply(
    document: JsonValue, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a frozen document as compact UTF-8 JSON."""
    content = encode(document)
    return Response(content, status, headers, media_type="application/json")


def detail(
    status: int, text: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with the framework's form of an error."""
    return json_reply(freeze({"detail": text}), status, headers)


def refused(code: str, text: str, status: int | None = None) -> Response:
    """Answer with the protocol's form of an error, by default with the code's status."""
    return json_reply(refusal(code, text), status or STATUS_OF[code])


def invalid(problems: Iterable[Problem], part: str = "body") -> Response:
    """Answer 422 with what is wrong with a part of the request, and where."""
    listed = [_finding(problem, part) for problem in problems]
    return json_reply(freeze({"detail": listed}), 422)


def _finding(problem: Problem, part: str) -> dict[str, Any]:
    return {
        "type": problem.code,
        "loc": [part, *_segments(problem.path)],
        "msg": problem.message[: 4 * PREVIEW_LIMIT],
        "input": problem.preview,
    }


def _segments(path: str) -> Iterable[str | int]:
    for name, index, quoted in _SEGMENT.findall(path):
        yield int(index) if index else name or quoted


class KeyHeaderError(IpiStateError):
    """A call that is to be made once, without a usable key."""


class QueryError(SchemaError):
    """A query whose parts are not what they should be."""


_COUNTED: Final = (
    *(DecodeError, SchemaError, SessionConflictError),
    *(SessionsFullError, UploadsFullError),
    *(IdempotencyError, KeyHeaderError, SessionRangeError),
)

ANSWERED: Final = (*_COUNTED, NotSeededError, ClientDisconnect)
"""What handlers raise on purpose; all other exceptions are faults of the server."""


def answer(error: Exception) -> Response:
    """Return the reply to a request that ended with this error."""
    match error:
        case HTTPException():
            return detail(error.status_code, error.detail, error.headers)
        case ClientDisconnect():
            return _NoResponse()
        case NotSeededError():
            return detail(400, _NOT_SEEDED, {HINT_HEADER: error.hint})
        case DecodeError():
            return _undecodable(error)
        case SchemaError():
            return _unfit(error)
        case SessionConflictError():
            return detail(409, error.message)
        case KeyHeaderError() | IdempotencyError() | SessionRangeError():
            status = 400 if isinstance(error, KeyHeaderError) else 409
            return refused(error.code, error.message, status)
        case SessionsFullError() | UploadsFullError():
            return refused(error.code, error.message, 503)
        case _:
            return json_reply(repr(error), 500)


def _undecodable(error: DecodeError) -> Response:
    # What no parser takes is 400 with a fixed text (docs/reference/tools.md, section
    # 2.4): bad UTF-8, an integer beyond all limits, more than 1,024 levels.
    if error.code in _BEYOND_PARSERS or isinstance(error, BottomlessError):
        return detail(400, _UNPARSED)
    return invalid([Problem(error.code, error.path, error.message, error.preview)])


def _unfit(error: SchemaError) -> Response:
    if isinstance(error, ArgumentsError):
        return _no_arguments(error)
    return invalid(error.problems, "query" if isinstance(error, QueryError) else "body")


def _no_arguments(error: ArgumentsError) -> Response:
    # Models read this, so its words are the reference's. A long value is shown as
    # elsewhere: what came in megabytes is not sent back.
    if error.found is None:
        kind, message = "missing", "Field required"
    else:
        kind, message = "model_attributes_type", _NO_OBJECT
    shown = error.found if error.size <= _ECHOED else error.preview
    finding = {"type": kind, "loc": _BODY, "msg": message, "input": shown}
    # An echo as deep as a body may be has three levels more around it.
    document = trusted_object({"detail": trusted_array([trusted_object(finding)])})
    return json_reply(document, 422)


class _NoResponse(Response):
    """Do not answer: the client is gone."""

    async def __call__(self, *_: object) -> None:
        pass


class Answers:
    """Answers errors and counts them.

    Args:
        observer: Is told the codes of refusals.
        hints: Whether replies say why a request has no session.
    """

    def __init__(self, observer: Observer, *, hints: bool = True) -> None:
        self._observer = observer
        self._hints = hints

    async def __call__(self, _: Request, error: Exception) -> Response:
        return self.to(error)

    def to(self, error: Exception) -> Response:
        """Return the reply to an error."""
        if isinstance(error, _COUNTED):
            self._observer.refused(error.code)
        reply = answer(error)
        if not self._hints and HINT_HEADER in reply.headers:
            del reply.headers[HINT_HEADER]
        return reply
