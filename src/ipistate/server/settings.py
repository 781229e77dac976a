"""What an operator decides about a server."""

from __future__ import annotations

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
    from collections.abc import Mapping
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


def _check_idle(_: object, field: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < inf:
        raise ValueError(f"{field.name} is a positive number of seconds or None")


def _check_tools(_: object, __: object, tools: Mapping[str, Tool]) -> None:
    for name in tools:
        if name in RESERVED_NAMES or not name or "/" in name:
            raise ValueError(f"no tool can be called {name!r}: it could not be reached")


@attrs.frozen(kw_only=True)
class ServerSettings:
    """Everything that can be chosen about a server.

    Raises:
        TypeError: A secret is plain text, which a log might show.
        ValueError: A name, a secret, a number or the table of tools is unusable.
    """

    instance_name: str = attrs.field(default=DEFAULT_INSTANCE, validator=_check_name)
    """Unique in a deployment; names the cookie and the checkpoint's directory."""
    checkpoint_token: Secret | None = attrs.field(default=None, validator=_check_secret)
    """Bearer token of the control plane; without one there is no control plane."""
    checkpoint_root: Path | None = None
    """Directory that every ``checkpoint_dir`` must be under.

    Without one, whoever holds the token may name any directory; it is made as needed.
    """
    lease_grace_seconds: float = attrs.field(
        default=600.0, validator=[attrs.validators.gt(0), attrs.validators.lt(inf)]
    )
    """How long after a call's deadline a forgotten checkpoint is given up."""
    cookie_secret: Secret | None = attrs.field(default=None, validator=_check_secret)
    """Signs session cookies; by default the cookie's own name, as the reference does."""
    max_body_bytes: int = attrs.field(
        default=32 * MEBIBYTE, validator=attrs.validators.gt(0)
    )
    """Longest request body; longer ones are answered 413."""
    max_metrics_bytes: int = attrs.field(
        default=256 * MEBIBYTE, validator=attrs.validators.gt(0)
    )
    """The same for ``/aggregate_metrics``, which gets all results of a run at once."""
    seed_pool_bytes: int = attrs.field(
        default=64 * MEBIBYTE, validator=attrs.validators.ge(0)
    )
    """Size of the seeds kept so that rollouts of one task share one world."""
    max_control_bytes: int = attrs.field(
        default=16 * MEBIBYTE, validator=attrs.validators.gt(0)
    )
    """The same for control calls."""
    max_control_ids: int = attrs.field(
        default=MAX_IDS,
        validator=[attrs.validators.ge(1), attrs.validators.le(MAX_IDS)],
    )
    """Most episodes or rollouts that one control call may name."""
    max_sessions: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
    )
    """Most sessions at a time; a seed beyond it is answered 503. None for any number."""
    idle_seconds: float | None = attrs.field(default=None, validator=_check_idle)
    """How long a session may be unused before it is freed; None for any time."""
    extension: bool = False
    """Whether the routes under ``/ipistate/v1`` exist; they need the token."""
    checkpoint_state_version: int = attrs.field(
        default=1, validator=attrs.validators.in_([1, 2])
    )
    """1 keeps the worlds of sessions in checkpoints, 2 their histories, too.

    2 needs the extension, without which there are no histories.
    """
    effects: bool = False
    """Whether verify replies end with ``effects``: what the calls did to the world."""
    metrics: bool = False
    """Whether ``GET /metrics`` exists; it needs the extra ``metrics``."""
    tools: Mapping[str, Tool] = attrs.field(
        default=TOOLS, validator=_check_tools, repr=False
    )
    """The tools that sessions can call."""

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
