"""What can name a session: texts that fit unquoted into a short signed cookie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ipistate.kernel import refuse


if TYPE_CHECKING:
    import attrs


MAX_SESSION_ID: Final = 96
"""Characters of a session id, so that a cookie stays below 300 bytes."""


def is_session_id(value: object) -> bool:
    """Tell whether a value can name a session: short, printable ASCII, no quotes."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_SESSION_ID
        and value.isascii()
        and value.isprintable()
        and not {" ", '"', "\\"}.intersection(value)
    )


def check_session_id(_: object, field: attrs.Attribute[Any], value: str) -> None:
    """Validate a field that names a session.

    Raises:
        SchemaError: ``invalid_session_id``: no cookie can carry it.
    """
    if not is_session_id(value):
        message = f"1 to {MAX_SESSION_ID} printable ASCII characters, no quotes"
        raise refuse("invalid_session_id", message, value, field)
