"""What an operator decides about a server."""

from __future__ import annotations

import inspect

from math import inf
from typing import TYPE_CHECKING, Any, Final

import attrs

from starlette.datastructures import Secret

from ipistate.protocol import (
    DEFAULT_INSTANCE,
    MAX_IDS,
    RESERVED_NAMES,
    SAFE_NAME,
    cookie_name,
)
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ipistate.tools import Tool

MEBIBYTE: Final = 2**20


def _check_name(_: object, field: attrs.Attribute[Any], value: str) -> None:
    if SAFE_NAME.fullmatch(value) is None:
        raise ValueError(f"{field.name} matches ^{SAFE_NAME.pattern}$, not {value!r}")


def _check_secret(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if not isinstance(value, Secret):
        raise TypeError(f"{field.name} is a starlette.datastructures.Secret or None")
    text = str(value)
    if not (text.isascii() and text.isprintable() and text and text == text.strip()):
        raise ValueError(f"{field.name} is printable ASCII text and not empty")


@attrs.frozen
class WholeNumber:
    """The whole numbers that a setting may be; as its validator it refuses others."""

    least: int
    most: int | None = None

    def __call__(
        self, _: object, field: attrs.Attribute[Any], value: int | None
    ) -> None:
        """Check a value; None passes where it is the default."""
        if value is None and field.default is None:
            return
        most = inf if self.most is None else self.most
        if value is None or not self.least <= value <= most:
            raise ValueError(f"{field.name} must be in {self.least} to {most}")


@attrs.frozen
class PositiveSeconds:
    """A duration that has an end; as a setting's validator it refuses others."""

    def __call__(
        self, _: object, field: attrs.Attribute[Any], value: float | None
    ) -> None:
        """Check a value; None passes where it is the default."""
        if value is None and field.default is None:
            return
        if value is None or not 0 < value < inf:
            more = " or None" if field.default is None else ""
            raise ValueError(f"{field.name} is a positive number of seconds{more}")


def _check_tools(_: object, __: object, tools: Mapping[str, Tool]) -> None:
    for name in tools:
        if name in RESERVED_NAMES or not name or "/" in name:
            raise ValueError(f"no tool can be called {name!r}: it could not be reached")


@attrs.frozen
class SettingDescription:
    """What a setting decides, in the manual and in the help of the command line."""

    text: str
    flag: str | None = None
    """The command line's option, if one gives the setting as it is."""
    unit: str | None = None
    """What the option's value counts."""


DESCRIPTION: Final = "ipistate.server.description"
"""The member of a field's metadata that holds its ``SettingDescription``."""


def _described(
    text: str, flag: str | None = None, unit: str | None = None
) -> dict[str, SettingDescription]:
    return {DESCRIPTION: SettingDescription(text, flag, unit)}


@attrs.frozen(kw_only=True)
class ServerSettings:
    """Everything that can be chosen about a server.

    Raises:
        TypeError: A secret is plain text, which a log might show.
        ValueError: A name, a secret, a number or the table of tools is unusable.
    """

    # Here is all that is known of a setting: name, type, default, bounds, description.
    # ``ipistate serve`` makes its options from these fields, and in their order.

    instance_name: str = attrs.field(
        default=DEFAULT_INSTANCE,
        validator=_check_name,
        metadata=_described(
            "Unique in a deployment: names the cookie and the checkpoint's directory.",
            "--instance-name",
        ),
    )
    checkpoint_token: Secret | None = attrs.field(
        default=None,
        validator=_check_secret,
        metadata=_described(
            "Bearer token of the control plane; without it there is no control plane."
        ),
    )
    checkpoint_root: Path | None = attrs.field(
        default=None,
        metadata=_described(
            "Directory that every checkpoint must be under. Without it, a token holder "
            "may name any directory, which is made as needed.",
            "--checkpoint-root",
        ),
    )
    lease_grace_seconds: float = attrs.field(
        default=600.0,
        validator=PositiveSeconds(),
        metadata=_described(
            "How long after its deadline a forgotten checkpoint is given up.",
            "--lease-grace",
            "SECONDS",
        ),
    )
    cookie_secret: Secret | None = attrs.field(
        default=None,
        validator=_check_secret,
        metadata=_described(
            "Signs session cookies. Without it they are signed as the reference signs "
            "them, and are interchangeable with its own."
        ),
    )
    max_body_bytes: int = attrs.field(
        default=32 * MEBIBYTE,
        validator=WholeNumber(1),
        metadata=_described(
            "Longest request body; longer ones are answered 413.",
            "--max-body",
            "BYTES",
        ),
    )
    max_metrics_bytes: int = attrs.field(
        default=256 * MEBIBYTE,
        validator=WholeNumber(1),
        metadata=_described(
            "The same for /aggregate_metrics, which gets all results of a run at once.",
            "--max-metrics-body",
            "BYTES",
        ),
    )
    max_control_bytes: int = attrs.field(
        default=16 * MEBIBYTE,
        validator=WholeNumber(1),
        metadata=_described(
            "The same for control calls.", "--max-control-body", "BYTES"
        ),
    )
    max_control_ids: int = attrs.field(
        default=MAX_IDS,
        validator=WholeNumber(1, MAX_IDS),
        metadata=_described(
            "Most episodes or rollouts that one control call may name.",
            "--max-control-ids",
            "N",
        ),
    )
    seed_pool_bytes: int = attrs.field(
        default=64 * MEBIBYTE,
        validator=WholeNumber(0),
        metadata=_described(
            "Memory for seeds, so that rollouts of one task share one world.",
            "--seed-pool",
            "BYTES",
        ),
    )
    tools: Mapping[str, Tool] = attrs.field(
        default=TOOLS,
        validator=_check_tools,
        repr=False,
        metadata=_described("The tools that sessions can call."),
    )
    max_sessions: int | None = attrs.field(
        default=None,
        validator=WholeNumber(1),
        metadata=_described(
            "Most sessions at a time; a seed beyond it is answered 503. Any number "
            "without it.",
            "--max-sessions",
            "N",
        ),
    )
    idle_seconds: float | None = attrs.field(
        default=None,
        validator=PositiveSeconds(),
        metadata=_described(
            "How long a session may be unused before it is freed, never during a "
            "checkpoint. Any time without it.",
            "--idle-timeout",
            "SECONDS",
        ),
    )
    extension: bool = attrs.field(
        default=False,
        metadata=_described(
            "Keep the history of sessions and serve /ipistate/v1 to token holders.",
            "--extension",
        ),
    )
    checkpoint_state_version: int = attrs.field(
        default=1,
        validator=WholeNumber(1, 2),
        metadata=_described(
            "What a checkpoint holds of a session: 1 its world, 2 its history as well, "
            "which needs --extension.",
            "--checkpoint-state-version",
            "VERSION",
        ),
    )
    effects: bool = attrs.field(
        default=False,
        metadata=_described(
            "End verify replies with effects: what the calls did to the row's world.",
            "--effects",
        ),
    )
    metrics: bool = attrs.field(
        default=False,
        metadata=_described(
            "Show Prometheus metrics under GET /metrics; this needs the extra metrics.",
            "--metrics",
        ),
    )

    def __attrs_post_init__(self) -> None:
        """Check what only makes sense together."""
        if self.extension and self.checkpoint_token is None:
            raise ValueError("the extension needs a checkpoint token")
        if self.checkpoint_state_version != 1 and not self.extension:
            raise ValueError("checkpoints with histories need the extension")

    @property
    def cookie_name(self) -> str:
        """The session cookie's name (docs/reference/control-plane.md, section 1.4)."""
        return cookie_name(self.instance_name)


def described_settings() -> Iterator[tuple[attrs.Attribute[Any], SettingDescription]]:
    """Visit the settings in their order, each with its description."""
    for field in attrs.fields(ServerSettings):
        yield field, field.metadata[DESCRIPTION]


def _manual() -> str:
    listed = [f"    {one.name}: {about.text}" for one, about in described_settings()]
    written = inspect.getdoc(ServerSettings) or ""
    return written.replace("Raises:", "\n".join(["Args:", *listed, "", "Raises:"]))


# The manual shows what docstrings of the fields would say, which is written down once.
ServerSettings.__doc__ = _manual()
