"""``ipistate serve``: sessions over HTTP, in one process."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from starlette.datastructures import Secret

from ipistate.cli.exits import LEGEND, MissingExtraError, RefusedInputError
from ipistate.cli.strictness import strict_tools
from ipistate.cli.tokens import secret_in, secret_of, warn_of_readers
from ipistate.protocol import MAX_IDS
from ipistate.server import (
    MEBIBYTE,
    LogForm,
    LogLevel,
    ServerSettings,
    TooManyWorkersError,
    configure,
    run,
)
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from ipistate.tools import Tool

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command("serve", epilog=LEGEND)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option(
    "--instance-name",
    default="ipi",
    show_default=True,
    help="Unique in a deployment: names the cookie and the checkpoint's directory.",
)
@click.option(
    "--checkpoint-token-file",
    type=_FILE,
    help="File with the control plane's bearer token.",
)
@click.option(
    "--checkpoint-token-env",
    metavar="NAME",
    help="Environment variable with the token, instead of a file.",
)
@click.option(
    "--checkpoint-root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory that every checkpoint must be under.",
)
@click.option(
    "--lease-grace",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="How long after its deadline a forgotten checkpoint is given up.",
)
@click.option(
    "--cookie-secret-file",
    type=_FILE,
    help="File with a private secret for cookies. Without it they are signed as the "
    "reference signs them, and are interchangeable with its own.",
)
@click.option(
    "--max-body",
    metavar="BYTES",
    type=click.IntRange(min=1),
    default=32 * MEBIBYTE,
    show_default=True,
    help="Longest request body; longer ones are answered 413.",
)
@click.option(
    "--max-metrics-body",
    metavar="BYTES",
    type=click.IntRange(min=1),
    default=256 * MEBIBYTE,
    show_default=True,
    help="The same for /aggregate_metrics.",
)
@click.option(
    "--max-control-body",
    metavar="BYTES",
    type=click.IntRange(min=1),
    default=16 * MEBIBYTE,
    show_default=True,
    help="The same for control calls.",
)
@click.option(
    "--max-control-ids",
    metavar="N",
    type=click.IntRange(1, MAX_IDS),
    default=MAX_IDS,
    show_default=True,
    help="Most episodes or rollouts that one control call may name.",
)
@click.option(
    "--seed-pool",
    metavar="BYTES",
    type=click.IntRange(min=0),
    default=64 * MEBIBYTE,
    show_default=True,
    help="Memory for seeds, so that rollouts of one task share one world.",
)
@click.option(
    "--strict-arguments",
    is_flag=True,
    help="Refuse tool calls whose arguments are not what the tool's schema says.",
)
@click.option(
    "--max-sessions",
    metavar="N",
    type=click.IntRange(min=1),
    help="Most sessions at a time; a seed beyond it is answered 503. Any number "
    "without it.",
)
@click.option(
    "--idle-timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="How long a session may be unused before it is freed, never during a "
    "checkpoint. Any time without it.",
)
@click.option(
    "--extension",
    is_flag=True,
    help="Keep the history of sessions and serve /ipistate/v1 to who has the token.",
)
@click.option(
    "--checkpoint-state-version",
    metavar="VERSION",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="2 keeps the histories in checkpoints, too; it needs --extension.",
)
@click.option(
    "--effects",
    is_flag=True,
    help="End verify replies with effects: what the calls did to the row's world.",
)
@click.option(
    "--metrics", is_flag=True, help="Show Prometheus metrics under GET /metrics."
)
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
def command(  # noqa: PLR0913 - one parameter for each option
    *,
    host: str,
    port: int,
    instance_name: str,
    checkpoint_token_file: Path | None,
    checkpoint_token_env: str | None,
    checkpoint_root: Path | None,
    lease_grace: float,
    cookie_secret_file: Path | None,
    max_body: int,
    max_metrics_body: int,
    max_control_body: int,
    max_control_ids: int,
    seed_pool: int,
    max_sessions: int | None,
    idle_timeout: float | None,
    extension: bool,
    checkpoint_state_version: int,
    strict_arguments: bool,
    effects: bool,
    metrics: bool,
    log_json: bool,
    log_level: str,
    workers: int,
) -> None:
    """Serve sessions over the NeMo Gym resources-server protocol.

    Checkpointing is off, and its routes do not exist, unless a token is given. The line
    "ipistate: serving on http://host:port" on standard error says that the server
    answers. Ctrl-C or SIGTERM ends it.

    \b
      ipistate serve --port 8000
      ipistate serve --checkpoint-token-file token.txt --checkpoint-root /ckpt
    """  # noqa: D301
    form = LogForm.JSON if log_json else LogForm.TEXT
    configure(form, LogLevel(log_level))
    token = secret_of(checkpoint_token_file, checkpoint_token_env)
    if checkpoint_root is not None and token is None:
        raise click.UsageError("--checkpoint-root needs a checkpoint token")
    try:
        settings = ServerSettings(
            instance_name=instance_name,
            checkpoint_token=None if token is None else Secret(token),
            checkpoint_root=checkpoint_root,
            lease_grace_seconds=lease_grace,
            cookie_secret=_cookie_secret(cookie_secret_file),
            max_body_bytes=max_body,
            max_metrics_bytes=max_metrics_body,
            max_control_bytes=max_control_body,
            max_control_ids=max_control_ids,
            seed_pool_bytes=seed_pool,
            max_sessions=max_sessions,
            idle_seconds=idle_timeout,
            extension=extension,
            checkpoint_state_version=checkpoint_state_version,
            effects=effects,
            metrics=metrics,
            tools=_tools(strict_arguments=strict_arguments),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if metrics:
        _require_prometheus()
    files = [file for file in (checkpoint_token_file, cookie_secret_file) if file]

    def warn() -> None:
        # After the line that says the server is ready, which others wait for.
        for file in files:
            warn_of_readers(file)

    with _listening(host, port):
        run(settings, host, port, workers=workers, log_form=form, started=warn)


def _tools(*, strict_arguments: bool) -> Mapping[str, Tool]:
    return strict_tools("serve --strict-arguments") if strict_arguments else TOOLS


def _require_prometheus() -> None:
    if find_spec("prometheus_client") is None:
        raise MissingExtraError("serve --metrics", "prometheus_client", "metrics")


@contextmanager
def _listening(host: str, port: int) -> Generator[None]:
    try:
        yield
    except TooManyWorkersError as error:
        raise click.UsageError(str(error)) from error
    except SystemExit as error:
        # uvicorn has already written why.
        message = f"cannot listen on {host}:{port}, for the reason logged above"
        raise RefusedInputError(message) from error


def _cookie_secret(file: Path | None) -> Secret | None:
    return None if file is None else Secret(secret_in(file))
