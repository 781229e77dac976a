"""What verbs that drive checkpoints share: their participants, and how they fail."""

from __future__ import annotations

import time

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import click

from ipistate.cli.exits import Exit, RefusedInputError
from ipistate.cli.interrupt import run_interruptibly
from ipistate.cli.operation_failures import summary_of
from ipistate.cli.operation_table import OperationSummary
from ipistate.cli.options import AS_JSON, token_options
from ipistate.cli.terminal import note
from ipistate.cli.tokens import secret_of
from ipistate.clients import ControlClient, Coordinator, discover_urls
from ipistate.coordination import (
    DiscoveryError,
    Failure,
    Kind,
    OperationFailedError,
    ServerAddress,
)
from ipistate.errors import SchemaError
from ipistate.protocol import Call


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from ipistate.coordination import Participant, ParticipantAnswer

Work: TypeAlias = "Callable[[Coordinator, float], Awaitable[OperationSummary]]"


def _check_urls(_: object, __: object, urls: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(ServerAddress(url, url).url for url in urls)
    except SchemaError as error:
        raise click.BadParameter(str(error)) from error


def _check_id(_: object, __: object, checkpoint_id: str) -> str:
    try:
        return Call(checkpoint_id=checkpoint_id, deadline_ts=0.0).checkpoint_id
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


MAX_SECONDS: Final = 365 * 86_400.0


def _check_seconds(_: object, __: object, seconds: float) -> float:
    if not 0 <= seconds <= MAX_SECONDS:  # not a number is neither
        raise click.BadParameter(f"from 0 to {MAX_SECONDS:.0f}")
    return seconds


ID: Final = click.argument("checkpoint_id", metavar="ID", callback=_check_id)
SECONDS: Final = click.option(
    "--seconds",
    type=float,
    callback=_check_seconds,
    default=30.0,
    show_default=True,
    help="How long the participants have, from now on, before the call counts as "
    "failed.",
)
WITHOUT_MODEL: Final = click.option(
    "--without-model",
    is_flag=True,
    help="Go on although no model is among the participants; the checkpoint is then "
    "without the model's token data.",
)


@attrs.frozen(kw_only=True)
class Deployment:
    """The participants that a verb drives, as its options name them."""

    urls: tuple[str, ...]
    client: ControlClient
    seconds: float
    required: tuple[Kind, ...]
    as_json: bool

    def deadline(self) -> float:
        """Return the deadline of a call that is made now."""
        return time.time() + self.seconds

    async def all_participants(self) -> tuple[Participant, ...]:
        """Find every participant.

        Raises:
            DiscoveryError: One of them is missing.
        """
        return await discover_urls(self.urls, self.client, required=self.required)

    async def reachable_participants(
        self,
    ) -> tuple[tuple[Participant, ...], tuple[Failure, ...]]:
        """Find the participants that can be found, and what is wrong with the others.

        Raises:
            DiscoveryError: None can be found.
        """
        try:
            return await self.all_participants(), ()
        except DiscoveryError as error:
            if not error.found:
                raise
            return error.found, error.failures


def with_deployment(function: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options that name participants, as one ``Deployment``."""

    @click.option(
        "--url",
        "urls",
        multiple=True,
        required=True,
        callback=_check_urls,
        help="Where a participant listens, as http://HOST:PORT; once for each.",
    )
    @token_options("the participants' control planes")
    @AS_JSON
    @wraps(function)
    def called(
        *,
        urls: tuple[str, ...],
        token_file: Path | None,
        token_env: str | None,
        as_json: bool,
        seconds: float = 0.0,
        without_model: bool = True,
        **given: Any,
    ) -> None:
        deployment = Deployment(
            urls=urls,
            client=_client(token_file, token_env),
            seconds=seconds,
            required=() if without_model else (Kind.MODEL,),
            as_json=as_json,
        )
        function(deployment, **given)

    return called


def _client(file: Path | None, variable: str | None) -> ControlClient:
    token = secret_of(file, variable)
    if token is None:
        raise click.UsageError("give the token with --token-file or --token-env")
    try:
        return ControlClient(token)
    except ValueError as error:
        raise RefusedInputError(str(error)) from error


class _Progress:
    """Writes each stage, and each failure, to standard error."""

    def asked(self, operation: str, participants: tuple[Participant, ...]) -> None:
        names = ", ".join(f"{one.kind} {one.name}" for one in participants)
        note(f"{operation}: {names}")

    def heard(self, said: ParticipantAnswer[Any] | Failure) -> None:
        if isinstance(said, Failure):
            note(str(said))


def drive(deployment: Deployment, work: Work) -> None:
    """Find every participant, work with them, and show what they said."""

    async def driven() -> OperationSummary:
        async with deployment.client:
            found = await deployment.all_participants()
            return await _worked(deployment, found, work)

    _show(deployment, driven())


def drive_reachable(deployment: Deployment, work: Work) -> None:
    """Work with the participants that answer; the others are findings."""

    async def driven() -> OperationSummary:
        async with deployment.client:
            found, missing = await deployment.reachable_participants()
            _note(missing)
            done = await _worked(deployment, found, work)
            failures = (*missing, *done.failures)
            return attrs.evolve(done, ok=done.ok and not missing, failures=failures)

    _show(deployment, driven())


async def _worked(
    deployment: Deployment, found: Iterable[Participant], work: Work
) -> OperationSummary:
    coordinator = Coordinator(found, deployment.client, watch=_Progress())
    try:
        return await work(coordinator, deployment.deadline())
    except OperationFailedError as error:
        return summary_of(error)


def _show(
    deployment: Deployment, driven: Coroutine[Any, Any, OperationSummary]
) -> None:
    ctx = click.get_current_context()
    try:
        done = run_interruptibly(driven)
    except KeyboardInterrupt:
        note("if a checkpoint is open, 'ipistate checkpoint resume ID' ends it")
        raise
    except DiscoveryError as error:
        done = _undiscovered(error)
    if deployment.as_json:
        done.emit(ctx.info_name)
    else:
        done.print()
    if not done.ok:
        ctx.exit(Exit.FINDINGS)


def _undiscovered(error: DiscoveryError) -> OperationSummary:
    if not error.failures:
        message = error.message
        if error.code == "missing_kind":
            message += "; allow it with --without-model"
        raise RefusedInputError(message) from error
    _note(error.failures)
    return OperationSummary(ok=False, failures=error.failures)


def _note(failures: Iterable[Failure]) -> None:
    for failure in failures:
        note(str(failure))
