"""What a request is answered whose handler raised an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ipistate.errors import (
    BottomlessError,
    DecodeError,
    IpiStateError,
    Problem,
    SchemaError,
)
from ipistate.protocol import HINT_HEADER, refusal
from ipistate.server.live.sessions import (
    NotSeededError,
    SessionConflictError,
    SessionsFullError,
)
from ipistate.server.replies import detail, invalid, json_reply
from ipistate.sessions import IdempotencyError, SessionRangeError


if TYPE_CHECKING:
    from starlette.requests import Request

    from ipistate.server.operating.observer import Observer

_BEYOND_PARSERS: Final = frozenset({"not_utf8", "integer_too_large"})
_NOT_SEEDED: Final = "Session not initialized. Please call seed_session first."
_UNPARSED: Final = "There was an error parsing the body"


class KeyHeaderError(IpiStateError):
    """A call that is to be made once, without a usable key."""


class QueryError(SchemaError):
    """A query whose parts are not what they should be."""


_COUNTED: Final = (
    *(DecodeError, SchemaError, SessionConflictError, SessionsFullError),
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
        case QueryError():
            return invalid(error.problems, "query")
        case SchemaError():
            return invalid(error.problems)
        case SessionConflictError():
            return detail(409, error.message)
        case KeyHeaderError() | IdempotencyError() | SessionRangeError():
            status = 400 if isinstance(error, KeyHeaderError) else 409
            return json_reply(refusal(error.code, error.message), status)
        case SessionsFullError():
            return json_reply(refusal(error.code, error.message), 503)
        case _:
            return json_reply(repr(error), 500)


def _undecodable(error: DecodeError) -> Response:
    # What no parser takes is 400 with a fixed text (docs/reference/tools.md, section
    # 2.4): bad UTF-8, an integer beyond all limits, more than 1,024 levels.
    if error.code in _BEYOND_PARSERS or isinstance(error, BottomlessError):
        return detail(400, _UNPARSED)
    return invalid([Problem(error.code, error.path, error.message, error.preview)])


class _NoResponse(Response):
    """Nobody is left to answer."""

    async def __call__(self, *_: object) -> None:
        pass


class Answers:
    """Answers errors and counts them.

    Args:
        observer: Is told the codes of refusals.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    async def __call__(self, _: Request, error: Exception) -> Response:
        return self.to(error)

    def to(self, error: Exception) -> Response:
        """Return the reply to an error."""
        if isinstance(error, _COUNTED):
            self._observer.refused(error.code)
        return answer(error)
