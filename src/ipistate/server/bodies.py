"""Request bodies: what counts as JSON, and how long they may be."""

from __future__ import annotations

import re

from math import inf
from typing import TYPE_CHECKING, Final

from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonArray, JsonObject, decode


if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ipistate.kernel import JsonValue

_JSON: Final = re.compile(
    r"application/(?:json|[^;\s/]+\+json)\s*(?:;.*)?", re.IGNORECASE | re.DOTALL
)
_LENGTH_DIGITS: Final = 18


class BodyLimitLayer(RequestBodyLimitMiddleware):
    """Starlette's limit, without its cost for bodies that declare a length within it.

    The HTTP parser holds a body to its declared length. A transfer coding overrides
    that length, so then the bytes are counted.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _declared(scope) <= self.max_body_size:
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def _declared(scope: Scope) -> float:
    length = inf
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            length = int(value[:_LENGTH_DIGITS])
        elif name == b"transfer-encoding":
            return inf
    return length


class ArgumentsError(SchemaError):
    """The body of a tool call that is no object; the model that made it reads the reply.

    Args:
        found: What it is; None for null and for an empty body.
        size: How many bytes it has.
    """

    def __init__(self, found: JsonValue, size: int) -> None:
        super().__init__("wrong_type", "expected an object", preview=preview(found))
        self.found = found
        self.size = size


async def json_body(request: Request) -> bytes:
    """Receive a whole body that is declared to be JSON.

    Raises:
        SchemaError: Its content type is another one (docs/reference/tools.md, section 2.4).
        ClientDisconnect: The client went away before it was complete.
    """
    body = await request.body()
    declared = request.headers.get("content-type", "")
    if _JSON.fullmatch(declared.strip()) is None:
        message = "expected a body of type application/json"
        raise SchemaError("wrong_content_type", message, preview=preview(body))
    return body


async def json_object(request: Request) -> JsonObject:
    """Receive a JSON body that has to be an object.

    Raises:
        DecodeError: It is not acceptable JSON.
        SchemaError: Its content type is another one, or it is no object.
        ClientDisconnect: The client went away before it was complete.
    """
    return frozen_object(await json_body(request))


def frozen_object(body: bytes) -> JsonObject:
    """Decode a body that has to be an object.

    Raises:
        DecodeError: It is not acceptable JSON.
        SchemaError: It is something else.
    """
    document = decode(body)
    if isinstance(document, JsonObject):
        return document
    shown = preview(document)
    raise SchemaError("wrong_type", "expected an object", preview=shown)


async def tool_arguments(request: Request) -> JsonObject:
    """Receive the arguments of a tool call.

    Raises:
        ArgumentsError: They are no object, or there are none.
        DecodeError: They are not acceptable JSON.
        SchemaError: Their content type is another one.
        ClientDisconnect: The client went away before they were complete.
    """
    # Agents send null as no body at all, which has no type.
    body = await request.body()
    return arguments_of(await json_body(request) if body else body)


def arguments_of(body: bytes) -> JsonObject:
    """Decode the arguments of a tool call.

    Raises:
        ArgumentsError: They are no object, or there are none.
        DecodeError: They are not acceptable JSON.
    """
    document = decode(body) if body else None
    if isinstance(document, JsonObject):
        return document
    raise ArgumentsError(document, len(body))


def count_ids(document: JsonValue, limit: int) -> None:
    """Refuse a body that names too many ids, before each of them is looked at.

    Raises:
        SchemaError: ``too_many_ids``.
    """
    if not isinstance(document, JsonObject):
        return
    for name in ("episode_ids", "rollout_ids"):
        ids = document.get(name)
        if isinstance(ids, JsonArray) and len(ids) > limit:
            message = f"a call names at most {limit:,} ids"
            raise SchemaError("too_many_ids", message, f"$.{name}", preview(ids))
