"""What an operator decides about a server."""

from __future__ import annotations

import inspect

from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ipistate.tools import Tool

T = TypeVar("T")

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
        if value is None and field.default is None:
            return
        if value is None or not 0 < value < inf:
            more = " or None" if field.default is None else ""
            raise ValueError(f"{field.name} is a positive number of seconds{more}")


def _check_tools(_: object, __: object, tools: Mapping[str, Tool]) -> None:
    for name in tools:
        if name in RESERVED_NAMES or not name or "/" in name:
            raise ValueError(f"no tool can be called {name!r}: it could not be reached")


def _check_hosts(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not value:
        raise ValueError(f"{field.name} has at least one host, or is None")


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


def _setting(
    default: T,
    text: str,
    option: str = "",
    *,
    check: Callable[[Any, attrs.Attribute[Any], Any], None] | None = None,
    show: bool = True,
) -> T:
    flag, _, unit = option.partition(" ")
    described = SettingDescription(text, flag or None, unit or None)
    metadata = {DESCRIPTION: described}
    return attrs.field(default=default, validator=check, repr=show, metadata=metadata)


@attrs.frozen(kw_only=True)
class ServerSettings:
    """Everything that can be chosen about a server.

    Raises:
        TypeError: A secret is plain text, which a log might show.
        ValueError: A name, a secret, a number or the table of tools is unusable.
    """

    # Here is all that is known of a setting: name, type, default, bounds, description.
    # ``ipistate serve`` makes its options from these fields, and in their order.

    instance_name: str = _setting(
        DEFAULT_INSTANCE,
        "Unique in a deployment: names the cookie and the checkpoint's directory.",
        "--instance-name",
        check=_check_name,
    )
    checkpoint_token: Secret | None = _setting(
        None,
        "Bearer token of the control plane; without it there is no control plane.",
        check=_check_secret,
    )
    checkpoint_root: Path | None = _setting(
        None,
        "Directory that every checkpoint must be under. Without it, a token holder may "
        "name any directory, which is made as needed.",
        "--checkpoint-root",
    )
    lease_grace_seconds: float = _setting(
        600.0,
        "How long after its deadline a forgotten checkpoint is given up.",
        "--lease-grace SECONDS",
        check=PositiveSeconds(),
    )
    await_restore: bool = _setting(
        False,
        "Let requests wait from the start until a restore and its resume, in place of a "
        "server that crashed. A prepare is refused until then.",
        "--await-restore",
    )
    export_scope_only: bool = _setting(
        False,
        "Leave live sessions out of a checkpoint if its scope does not name their "
        "episodes. Otherwise they are in it, as in the reference.",
        "--export-scope-only",
    )
    cookie_secret: Secret | None = _setting(
        None,
        "Signs session cookies. Without it they are signed as the reference signs them, "
        "and are interchangeable with its own.",
        check=_check_secret,
    )
    max_body_bytes: int = _setting(
        32 * MEBIBYTE,
        "Longest request body; longer ones are answered 413.",
        "--max-body BYTES",
        check=WholeNumber(1),
    )
    max_metrics_bytes: int = _setting(
        64 * MEBIBYTE,
        "The same for /aggregate_metrics, which gets all results of a run at once.",
        "--max-metrics-body BYTES",
        check=WholeNumber(1),
    )
    max_control_bytes: int = _setting(
        16 * MEBIBYTE,
        "The same for control calls.",
        "--max-control-body BYTES",
        check=WholeNumber(1),
    )
    max_control_ids: int = _setting(
        MAX_IDS,
        "Most episodes or rollouts that one control call may name.",
        "--max-control-ids N",
        check=WholeNumber(1, MAX_IDS),
    )
    max_uploads_bytes: int = _setting(
        256 * MEBIBYTE,
        "Memory for bodies that are not complete or wait for a checkpoint to end, all "
        "together; what comes beyond it is answered 503.",
        "--max-uploads BYTES",
        check=WholeNumber(1),
    )
    max_header_bytes: int = _setting(
        16 * 1024,
        "What may come of a request's head without its end; then it is answered 400.",
        "--max-header BYTES",
        check=WholeNumber(1),
    )
    header_seconds: float = _setting(
        30.0,
        "How long a new connection, or the head of a request, may take.",
        "--header-timeout SECONDS",
        check=PositiveSeconds(),
    )
    body_seconds: float = _setting(
        120.0,
        "How long a body may take to arrive, and a client to take any of its reply.",
        "--body-timeout SECONDS",
        check=PositiveSeconds(),
    )
    keep_alive_seconds: int = _setting(
        5,
        "How long a connection is kept after a reply for another request.",
        "--keep-alive SECONDS",
        check=WholeNumber(1),
    )
    seed_pool_bytes: int = _setting(
        64 * MEBIBYTE,
        "Memory for seeds, so that rollouts of one task share one world.",
        "--seed-pool BYTES",
        check=WholeNumber(0),
    )
    tools: Mapping[str, Tool] = _setting(
        TOOLS, "The tools that sessions can call.", check=_check_tools, show=False
    )
    max_sessions: int | None = _setting(
        None,
        "Most sessions at a time; a seed beyond it is answered 503. Any number without "
        "it.",
        "--max-sessions N",
        check=WholeNumber(1),
    )
    idle_seconds: float | None = _setting(
        None,
        "How long a session may be unused before it is freed, never during a "
        "checkpoint. Any time without it.",
        "--idle-timeout SECONDS",
        check=PositiveSeconds(),
    )
    extension: bool = _setting(
        False,
        "Keep the history of sessions and serve /ipistate/v1 to token holders.",
        "--extension",
    )
    checkpoint_state_version: int = _setting(
        1,
        "What a checkpoint holds of a session: 1 its world, 2 its history as well, "
        "which needs --extension.",
        "--checkpoint-state-version VERSION",
        check=WholeNumber(1, 2),
    )
    effects: bool = _setting(
        False,
        "End verify replies with effects: what the calls did to the row's world.",
        "--effects",
    )
    metrics: bool = _setting(
        False,
        "Show Prometheus metrics under GET /metrics; this needs the extra metrics.",
        "--metrics",
    )

    require_private_secret: bool = _setting(
        False,
        "Do not start without a private secret for cookies.",
        "--require-private-secret",
    )
    cookies_only: bool = _setting(
        False,
        "Find a session by its signed cookie alone. Otherwise a rollout prefix names "
        "one, too, for clients that keep no cookies.",
        "--cookies-only",
    )
    strict_episodes: bool = _setting(
        False,
        "Refuse a request whose rollout prefix and whose cookie belong to different "
        "rollouts (409). Otherwise the cookie counts, and the metrics count them.",
        "--strict-episodes",
    )
    allowed_hosts: tuple[str, ...] | None = _setting(
        None,
        "A name or an address, without port, that requests may have as their Host; may "
        "be repeated. On a loopback address only loopback names are allowed without it, "
        "elsewhere any.",
        check=_check_hosts,
    )
    hardened: bool = _setting(
        False,
        "For a network that others share: a private secret is required, cookies only, "
        "strict episodes, hosts checked, no symbolic links below the checkpoint root, "
        "which is required with a token, and no hints in replies.",
        "--hardened",
    )

    def __attrs_post_init__(self) -> None:
        if self.cookie_secret is None and (
            self.hardened or self.require_private_secret
        ):
            message = "a private secret for cookies is required and there is none"
            raise ValueError(message)
        if self.hardened and self.checkpoint_token and self.checkpoint_root is None:
            raise ValueError("a hardened server with a token needs a checkpoint root")
        if self.extension and self.checkpoint_token is None:
            raise ValueError("the extension needs a checkpoint token")
        if self.await_restore and self.checkpoint_token is None:
            raise ValueError("a server that awaits a restore needs a checkpoint token")
        if self.checkpoint_state_version != 1 and not self.extension:
            raise ValueError("checkpoints with histories need the extension")
        if self.max_uploads_bytes < max(self.max_body_bytes, self.max_metrics_bytes):
            raise ValueError(
                "max_uploads_bytes (--max-uploads) is at least max_body_bytes and "
                "max_metrics_bytes"
            )

    @property
    def finds_by_prefix(self) -> bool:
        """Whether a rollout prefix names a session for a request without a cookie."""
        return not (self.cookies_only or self.hardened)

    @property
    def refuses_foreign_prefixes(self) -> bool:
        """Whether prefix and cookie of a request have to be of one rollout."""
        return self.strict_episodes or self.hardened

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
