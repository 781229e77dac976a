"""``ipistate serve``: sessions over HTTP, in one process."""

from __future__ import annotations

import logging

from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from starlette.datastructures import Secret

from ipistate.cli.exits import LEGEND, MissingExtraError, RefusedInputError
from ipistate.cli.imported import OWN_TOOLS
from ipistate.cli.options import FILE, FiniteRange, tools_option
from ipistate.cli.tokens import secret_in, secret_of, warn_of_readers
from ipistate.kernel import WRITES_FAST
from ipistate.protocol import DEFAULT_INSTANCE
from ipistate.server import (
    HOST,
    PORT,
    LogForm,
    LogLevel,
    PositiveSeconds,
    ServerSettings,
    TooManyWorkersError,
    WholeNumber,
    configure,
    described_settings,
    is_loopback,
    run,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import attrs

_log: Final = logging.getLogger(__name__)


def _hosts(
    _: click.Context, __: click.Parameter, hosts: tuple[str, ...]
) -> tuple[str, ...] | None:
    return hosts or None


_TYPES: Final = {
    "instance_name": click.STRING,
    "checkpoint_root": click.Path(exists=True, file_okay=False, path_type=Path),
}
"""Types that a setting's default and bounds do not tell."""
_INSTEAD: Final = {
    "checkpoint_token": (
        click.option(
            "--checkpoint-token-file",
            type=FILE,
            help="File with the control plane's bearer token.",
        ),
        click.option(
            "--checkpoint-token-env",
            metavar="NAME",
            help="Environment variable with the token, instead of a file.",
        ),
    ),
    "cookie_secret": (
        click.option(
            "--cookie-secret-file",
            type=FILE,
            help="File with a private secret for cookies. Without it they are signed "
            "as the reference signs them, and are interchangeable with its own.",
        ),
    ),
    "allowed_hosts": (
        click.option(
            "--allowed-host",
            "allowed_hosts",
            multiple=True,
            metavar="HOST",
            callback=_hosts,
            help="A name or an address, without port, that requests may have as their "
            "Host; may be repeated, and * allows any. Without it a loopback address "
            "allows loopback names only, and any other allows all.",
        ),
    ),
    "tools": (
        tools_option(
            "--strict-arguments",
            "tools",
            help="Refuse tool calls whose arguments are not what the tool's schema "
            "says.",
        ),
    ),
}
"""Options of the settings whose values cannot be written on a command line."""


def _type_of(field: attrs.Attribute[Any]) -> click.ParamType[Any]:
    bounds: object = field.validator
    if isinstance(bounds, WholeNumber):
        return click.IntRange(bounds.least, bounds.most)
    if isinstance(bounds, PositiveSeconds):
        return FiniteRange(min=0, min_open=True)
    return _TYPES[field.name]


def _options() -> Iterator[Callable[[Any], Any]]:
    for field, about in described_settings():
        if about.flag is None:
            yield from _INSTEAD[field.name]
        elif isinstance(field.default, bool):
            yield click.option(about.flag, field.name, is_flag=True, help=about.text)
        else:
            yield click.option(
                about.flag,
                field.name,
                metavar=about.unit,
                type=_type_of(field),
                default=field.default,
                show_default=True,
                help=about.text,
            )


def with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Give a verb an option for each setting of a server, in the settings' order."""
    for option in reversed([*_options()]):
        function = option(function)
    return function


@click.command("serve", epilog=LEGEND)
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="Address to listen on; 0.0.0.0 for all of this machine.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@with_settings
@OWN_TOOLS
@click.option("--log-json", is_flag=True, help="Log one JSON object on each line.")
@click.option(
    "--log-level",
    type=click.Choice([level.value for level in LogLevel]),
    default=LogLevel.WARNING.value,
    show_default=True,
    help="Least severe records that are logged.",
)
@click.option(
    "--workers",
    type=int,
    default=1,
    show_default=True,
    help="Only 1 is accepted: sessions live in one process.",
)
def command(
    *,
    host: str,
    port: int,
    checkpoint_token_file: Path | None,
    checkpoint_token_env: str | None,
    cookie_secret_file: Path | None,
    log_json: bool,
    log_level: str,
    workers: int,
    **chosen: Any,
) -> None:
    """Serve sessions over the NeMo Gym resources-server protocol.

    Checkpointing is off, and its routes do not exist, unless a token is given. The line
    "ipistate: serving on http://host:port" on standard error says that the server
    answers. Ctrl-C or SIGTERM ends it.

    \b
      ipistate serve --port 8000
      ipistate serve --checkpoint-token-file token.txt --checkpoint-root /ckpt
    On a network that others share:
      ipistate secret cookie-secret.txt
      ipistate serve --host 0.0.0.0 --hardened --allowed-host ipi.internal
        --cookie-secret-file cookie-secret.txt
    """
    form = LogForm.JSON if log_json else LogForm.TEXT
    configure(form, LogLevel(log_level))
    token = secret_of(checkpoint_token_file, checkpoint_token_env)
    secret = None if cookie_secret_file is None else secret_in(cookie_secret_file)
    if chosen["checkpoint_root"] is not None and token is None:
        raise click.UsageError("--checkpoint-root needs a checkpoint token")
    try:
        settings = ServerSettings(
            checkpoint_token=None if token is None else Secret(token),
            cookie_secret=None if secret is None else Secret(secret),
            **chosen,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if settings.metrics and find_spec("prometheus_client") is None:
        raise MissingExtraError("serve --metrics", "prometheus_client", "metrics")

    def warn() -> None:
        # After the line that says the server is ready, which others wait for.
        for text in warnings_of(settings, host):
            _log.warning(text)
        for file in (checkpoint_token_file, cookie_secret_file):
            if file is not None:
                warn_of_readers(file)

    with _listening(host, port):
        run(settings, host, port, workers=workers, log_form=form, started=warn)


def warnings_of(settings: ServerSettings, host: str) -> Iterator[str]:
    """Say what is not safe, or not wise, about a server, and which option to set."""
    if not is_loopback(host) and settings.cookie_secret is None:
        yield (
            f"others can reach {host} and forge session cookies, whose secret is public;"
            " set --cookie-secret-file (`ipistate secret FILE` makes one), and see"
            " --hardened"
        )
    if settings.checkpoint_token and settings.instance_name == DEFAULT_INSTANCE:
        yield (
            f"checkpoints are written under the default name {DEFAULT_INSTANCE!r}; two"
            " servers of one deployment need names of their own: set --instance-name"
        )
    if not WRITES_FAST:
        yield (
            "the installed orjson writes another text than checkpoints are made of, so"
            " it is not used and everything is slower; install another version of it"
        )


@contextmanager
def _listening(host: str, port: int) -> Generator[None]:
    try:
        yield
    except (TooManyWorkersError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except SystemExit as error:
        # uvicorn has already written why.
        message = f"cannot listen on {host}:{port}, for the reason logged above"
        raise RefusedInputError(message) from error
