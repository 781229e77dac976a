"""What names an episode, and what can name a session.

An ``EpisodeId`` is one attempt of one rollout; its capture key says it in one string. A
session id fits unquoted into a short signed cookie.
"""

from __future__ import annotations

import re

from collections.abc import Callable
from typing import Any, Final, Self, TypeAlias

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import refuse


SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What ids and file name parts consist of; to be matched in full."""

MAX_SESSION_ID: Final = 96
"""Characters of a session id, so that a cookie stays below 300 bytes."""

_ATTEMPT_SUFFIX: Final = re.compile(r"-a([1-9][0-9]*)\Z")


def _rollout_problem(rollout_id: str) -> str | None:
    if SAFE_NAME.fullmatch(rollout_id) is None:
        return f"a rollout id matches ^{SAFE_NAME.pattern}$"
    if _ATTEMPT_SUFFIX.search(rollout_id):
        return "a rollout id does not end like an attempt (-a1, -a2, ...)"
    return None


Validator: TypeAlias = "Callable[[object, attrs.Attribute[Any], Any], None]"


def rule(code: str, message: str, holds: Callable[[Any], bool]) -> Validator:
    """Return the validator of a field: what does not hold is refused with this code."""

    def check(_: object, field: attrs.Attribute[Any], value: Any) -> None:
        if not holds(value):
            raise refuse(code, message, value, field)

    return check


def _check_rollout_id(_: object, field: attrs.Attribute[Any], value: str) -> None:
    problem = _rollout_problem(value)
    if problem is not None:
        raise refuse("invalid_rollout_id", problem, value, field)


_check_attempt: Final = rule(
    "invalid_attempt",
    "an attempt is an integer from 0",
    lambda attempt: type(attempt) is int and attempt >= 0,
)


@attrs.frozen
class EpisodeId:
    """One physical execution of a rollout (docs/reference/control-plane.md, section 1.2).

    Raises:
        SchemaError: ``invalid_rollout_id`` or ``invalid_attempt``: a part breaks its
            rule.
    """

    rollout_id: str = attrs.field(validator=_check_rollout_id)
    attempt: int = attrs.field(default=0, validator=_check_attempt)

    @property
    def capture_key(self) -> str:
        """The one-string form: ``ipi-7`` for attempt 0, then ``ipi-7-a1``."""
        return f"{self.rollout_id}-a{self.attempt}" if self.attempt else self.rollout_id

    @property
    def next_attempt(self) -> EpisodeId:
        """The episode that continues this one after a restore."""
        return EpisodeId(self.rollout_id, self.attempt + 1)

    @classmethod
    def from_capture_key(cls, key: str) -> Self:
        """Read a capture key, the exact inverse of ``capture_key``.

        Raises:
            SchemaError: ``invalid_rollout_id``: no episode has this key.
        """
        suffix = _ATTEMPT_SUFFIX.search(key)
        rollout_id = key[: suffix.start()] if suffix else key
        problem = _rollout_problem(rollout_id)
        try:
            attempt = int(suffix[1]) if suffix else 0
        except ValueError:
            # CPython refuses to read integers of more than 4,300 digits.
            attempt, problem = 0, "the attempt is too large"
        if problem is not None:
            raise SchemaError("invalid_rollout_id", problem, preview=preview(key))
        return cls(rollout_id, attempt)


def is_session_id(value: object) -> bool:
    """Tell whether a value can name a session: short, printable ASCII, no quotes."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_SESSION_ID
        and value.isascii()
        and value.isprintable()
        and not {" ", '"', "\\"}.intersection(value)
    )


check_session_id: Final = rule(
    "invalid_session_id",
    f"1 to {MAX_SESSION_ID} printable ASCII characters, no quotes",
    is_session_id,
)
"""Validates a field that names a session; what no cookie can carry is refused."""
