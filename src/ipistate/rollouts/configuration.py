"""What the rows of a run depend on; a run is only continued with the same. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import attrs

from ipistate.errors import preview
from ipistate.kernel import (
    JsonObject,
    JsonValue,
    decode,
    encode,
    identical,
    structure,
    unstructure,
)


RUN_VERSION: Final = 1
_NAME_LENGTH: Final = 10


@attrs.frozen(kw_only=True)
class Configuration:
    """Everything that decides what the rows are."""

    run_version: int = RUN_VERSION
    tasks_sha256: str
    tasks: int
    """How many rows the task file has."""
    num_repeats: int
    max_steps: int
    policy: str
    policy_options: JsonObject
    """Whatever the policy's replies depend on; no secrets."""
    seed: int
    effects: bool

    @property
    def name(self) -> str:
        """A short name for runs of this configuration: the beginning of its digest."""
        return sha256(encode(unstructure(self))).hexdigest()[:_NAME_LENGTH]

    def to_json(self) -> bytes:
        """Write the configuration as its file has it."""
        return encode(unstructure(self)) + b"\n"


def read_configuration(data: bytes) -> Configuration:
    """Read what ``to_json`` has written.

    Raises:
        DecodeError: It is not acceptable JSON.
        SchemaError: It is, but not a configuration.
    """
    return structure(decode(data), Configuration)


def differences(old: Configuration, new: Configuration) -> tuple[str, ...]:
    """Say in what two configurations differ, each time what was and what is."""
    before, after = unstructure(old), unstructure(new)
    return tuple(
        f"{name} was {_shown(before[name])}, now {_shown(after[name])}"
        for name in before
        if not identical(before[name], after[name])
    )


def _shown(value: JsonValue) -> str:
    if isinstance(value, JsonObject):
        return encode(value).decode("utf-8", "replace")
    return str(value)[:16] if isinstance(value, str) else preview(value)
