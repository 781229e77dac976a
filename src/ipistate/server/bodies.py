"""Request bodies: what counts as JSON, and how many ids they may name."""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Final

from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonArray, JsonObject, decode


if TYPE_CHECKING:
    from starlette.requests import Request

    from ipistate.kernel import JsonValue

_JSON: Final = re.compile(
    r"application/(?:json|[^;\s/]+\+json)\s*(?:;.*)?", re.IGNORECASE | re.DOTALL
)


class ArgumentsError(SchemaError):
    """The body of a tool call that is no object; the model that made it reads the reply."""

    found: JsonValue = None
    """What it is; None for null and for an empty body."""
    size: int = 0
    """How many bytes it has."""


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
    shown = preview(document)
    error = ArgumentsError("wrong_type", "expected an object", preview=shown)
    error.found, error.size = document, len(body)
    raise error


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
