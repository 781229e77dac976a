"""What stands in a recording as text: written arguments, and what an agent read."""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Final

from ipistate.errors import DecodeError, EncodeError
from ipistate.kernel import (
    JsonObject,
    decode,
    freeze,
    is_array,
    is_object,
    render,
    whole_text,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_NOT_READABLE: Final = frozenset({"integer_too_large", "not_finite", "too_deep"})
_BODY: Final = re.compile(r'\s*\{\s*"output"\s*:')


def written(value: object) -> str:
    """Return a text as it is, and any other JSON as its text.

    Raises:
        EncodeError: It is not JSON, for example an SDK's object.
    """
    if isinstance(value, str):
        return value
    try:
        return render(freeze(value))
    except EncodeError as error:
        if error.code not in _NOT_READABLE:
            raise
        return f"not JSON: {error.message}"  # which no rule reads as arguments


def said(content: object) -> tuple[str | None, str | None]:
    """Return what the agent read, and the body around it if that was recorded."""
    if content is None:
        return None, None
    parts = list(_texts(content)) if is_array(content) else []
    text = whole_text("".join(parts) if parts else written(content))
    output = _inner(text)
    return (text, None) if output is None else (output, text)


def _texts(content: Iterable[object]) -> Iterator[str]:
    # Of content parts; those that are not text cannot be compared.
    for part in content:
        if is_object(part) and part.get("type") in _TEXT_PARTS:
            text = part.get("text", part.get("content"))
            yield text if isinstance(text, str) else ""


def _inner(text: str) -> str | None:
    # Agents record the whole body of the reply, {"output": "..."}; some only its text.
    if _BODY.match(text) is None:
        return None
    try:
        document = decode(text)
    except DecodeError:
        return None
    if not isinstance(document, JsonObject) or len(document) != 1:
        return None
    output = document["output"]
    return output if isinstance(output, str) else None
