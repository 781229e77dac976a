"""``ipistate checkpoint take``, ``commit`` and ``restore``: to a directory and back."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import click

from ipistate.cli.deployment import (
    ID,
    SECONDS,
    WITHOUT_MODEL,
    Deployment,
    drive,
    with_deployment,
)
from ipistate.cli.episode_options import some, with_episodes
from ipistate.cli.exits import LEGEND, refusing
from ipistate.cli.operation_failures import summary_of
from ipistate.cli.operation_table import (
    OperationSummary,
    committed_summary,
    keys,
    prepared_summary,
)
from ipistate.cli.terminal import amount, note
from ipistate.coordination import OperationFailedError
from ipistate.storage import recorded_episodes


if TYPE_CHECKING:
    from collections.abc import Collection

    from ipistate.clients import Coordinator
    from ipistate.coordination import Failure
    from ipistate.protocol import EpisodeId

_DIRECTORY: Final = click.argument("directory")
_EVERYTHING: Final = click.option(
    "--everything",
    is_flag=True,
    help="Write all state, not that of some episodes; models refuse this.",
)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@_DIRECTORY
@with_episodes
@_EVERYTHING
@SECONDS
@WITHOUT_MODEL
def commit(
    deployment: Deployment,
    *,
    checkpoint_id: str,
    directory: str,
    episodes: tuple[EpisodeId, ...],
    everything: bool,
) -> None:
    """Write the prepared checkpoint ID to DIRECTORY, a path of the participants.

    Name every episode that will be continued: restored state of others is deleted.
    Episodes that a participant cannot capture (restarts) are left out.

    \b
      ipistate checkpoint commit step-120 /ckpt/step-120 --episodes keys.txt \\
        --url http://localhost:8000 --token-file token.txt --without-model
    """
    named = _written(episodes, everything=everything)

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        restarts = (await coordinator.status()).restarts
        _note_restarts(restarts, episodes)
        done = await coordinator.commit(
            checkpoint_id, deadline, directory, named, restarts
        )
        return committed_summary(done)

    drive(deployment, work)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@_DIRECTORY
@with_episodes
@_EVERYTHING
@SECONDS
@WITHOUT_MODEL
def take(
    deployment: Deployment,
    *,
    checkpoint_id: str,
    directory: str,
    episodes: tuple[EpisodeId, ...],
    everything: bool,
) -> None:
    """Take the checkpoint ID: prepare all participants, commit to DIRECTORY, resume.

    Whatever happens they are resumed at the end. Each of the three steps may take
    --seconds. Exit code 1: a participant was not ready in time, and its blockers are
    listed, or one failed; there is no checkpoint then.

    \b
      ipistate checkpoint take step-120 /ckpt/step-120 --everything \\
        --url http://localhost:8000 --token-file token.txt --without-model
    """
    named = _written(episodes, everything=everything)

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        try:
            prepared = await coordinator.prepare(checkpoint_id, deadline)
            summary = prepared_summary(prepared)
            if prepared.ready:
                _note_restarts(prepared.restarts, episodes)
                done = await coordinator.commit(
                    checkpoint_id,
                    deployment.deadline(),
                    directory,
                    named,
                    prepared.restarts,
                )
                summary = committed_summary(done)
        except OperationFailedError as error:
            summary = summary_of(error)
        except BaseException:
            # It was interrupted, and that is what is told.
            with suppress(OperationFailedError):
                await coordinator.resume(checkpoint_id, deployment.deadline())
            raise
        left = await _resume(coordinator, checkpoint_id, deployment.deadline())
        return attrs.evolve(summary, ok=summary.ok and not left, clean_up=left)

    drive(deployment, work)


async def _resume(
    coordinator: Coordinator, checkpoint_id: str, deadline: float
) -> tuple[Failure, ...]:
    try:
        await coordinator.resume(checkpoint_id, deadline)
    except OperationFailedError as error:
        return error.failures
    return ()


@click.command(epilog=LEGEND)
@with_deployment
@ID
@_DIRECTORY
@with_episodes
@click.option(
    "--everything",
    is_flag=True,
    help="Restore every episode in DIRECTORY, which is then read here as well.",
)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Go on without episodes that no participant has a record of.",
)
@SECONDS
@WITHOUT_MODEL
def restore(
    deployment: Deployment,
    *,
    checkpoint_id: str,
    directory: str,
    episodes: tuple[EpisodeId, ...],
    everything: bool,
    allow_missing: bool,
) -> None:
    """Install DIRECTORY in fresh participants, under a new ID: everywhere or nowhere.

    Name the episodes as they were checkpointed; each goes on as its next attempt,
    after resume. If a participant fails, the others are freed and reopened. An episode
    that no participant has a record of ends the restore, too, and exit code 1 tells.

    \b
      ipistate checkpoint restore restore-1 /ckpt/step-120 -e ipi-7 -e ipi-9-a1 \\
        --url http://localhost:8000 --token-file token.txt --without-model
      ipistate checkpoint restore restore-1 /ckpt/step-120 --everything \\
        --url http://localhost:8000 --token-file token.txt --without-model
    """
    _check_everything(episodes, everything=everything)
    named = _recorded(directory) if everything else some(episodes)

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        done = await coordinator.restore(
            checkpoint_id, deadline, directory, named, allow_missing=allow_missing
        )
        missing = keys(done.missing(named))
        if missing:
            note(f"in no record, and left out: {', '.join(missing)}")
        return OperationSummary(
            answers=done.answers,
            columns={
                "installed": lambda reply: (
                    f"{amount(len(reply.restored), 'record')} of "
                    f"{reply.source_checkpoint_id}"
                )
            },
            members={
                "episodes": keys(done.episodes),
                "missing": missing,
                "sources": sorted(done.sources),
            },
        )

    drive(deployment, work)


def _check_everything(episodes: Collection[EpisodeId], *, everything: bool) -> None:
    if everything and episodes:
        raise click.UsageError("--everything names no episodes")


def _written(
    episodes: tuple[EpisodeId, ...], *, everything: bool
) -> tuple[EpisodeId, ...] | None:
    _check_everything(episodes, everything=everything)
    return None if everything else some(episodes)


def _note_restarts(
    restarts: Collection[EpisodeId], episodes: Collection[EpisodeId]
) -> None:
    left_out = [one for one in restarts if one in episodes]
    if left_out:
        note(f"left out, they have to start over: {', '.join(keys(left_out))}")


def _recorded(directory: str) -> tuple[EpisodeId, ...]:
    with refusing("--everything reads DIRECTORY on this machine, too"):
        return recorded_episodes(Path(directory))
