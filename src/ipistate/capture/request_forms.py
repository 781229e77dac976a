"""What is read of requests and replies in the forms of both APIs."""

from __future__ import annotations

from typing import Final

from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonArray, JsonObject


def request_items(body: JsonObject) -> tuple[JsonObject, ...]:
    """Return the items of a request, in the form of either API.

    Raises:
        SchemaError: ``wrong_type``: it has none that can be read.
    """
    given = body.get("messages", body.get("input"))
    if isinstance(given, str):
        return (JsonObject({"role": "user", "content": given}),)
    if not isinstance(given, JsonArray):
        message = "a request has messages, or input"
        raise SchemaError("wrong_type", message, preview=preview(given))
    return tuple(one for one in given if isinstance(one, JsonObject))


def reply_items(reply: JsonObject) -> tuple[JsonObject, ...]:
    """Return what a reply adds to the conversation, in the form of either API."""
    output = reply.get("output")
    if isinstance(output, JsonArray):
        return tuple(one for one in output if isinstance(one, JsonObject))
    choices = reply.get("choices")
    first = choices[0] if isinstance(choices, JsonArray) and choices else None
    message = first.get("message") if isinstance(first, JsonObject) else None
    return (message,) if isinstance(message, JsonObject) else ()


_GUIDES: Final = (
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "guided_whitespace_pattern",
    "structural_tag",
    "structured_outputs",
)


def is_constrained(body: JsonObject) -> bool:
    """Tell whether a request constrains the reply's form; such a call is never cut."""
    choice, form = body.get("tool_choice"), body.get("response_format")
    if choice is not None and choice not in ("auto", "none"):
        return True
    if form is not None and not (
        isinstance(form, JsonObject) and form.get("type") == "text"
    ):
        return True
    return any(body.get(name) is not None for name in _GUIDES)
