"""``ipistate checkpoint prepare`` and the other verbs that drive participants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ipistate.cli.deployment import (
    ID,
    SECONDS,
    WITHOUT_MODEL,
    Deployment,
    drive,
    drive_reachable,
    with_deployment,
)
from ipistate.cli.episode_options import some, with_episodes
from ipistate.cli.exits import LEGEND
from ipistate.cli.operation_table import OperationSummary, blocked, counted, keys
from ipistate.cli.terminal import amount, note


if TYPE_CHECKING:
    from ipistate.clients import Coordinator
    from ipistate.protocol import EpisodeId

_DIRECTORY: Final = click.argument("directory")


@click.command(epilog=LEGEND)
@with_deployment
def status(deployment: Deployment) -> None:
    """Show the phase and the report of every participant.

    Exit code 1: one of them does not answer.

    \b
      ipistate checkpoint status --url http://localhost:8000 --token-file token.txt
    """

    async def work(coordinator: Coordinator, _: float) -> OperationSummary:
        return OperationSummary(
            answers=(await coordinator.status()).answers,
            columns={
                "phase": lambda reply: reply.phase,
                "checkpoint": lambda reply: reply.checkpoint_id or "-",
                "counts": lambda reply: counted(reply.report),
                "readiness": lambda reply: blocked(reply.report),
            },
        )

    drive_reachable(deployment, work)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@SECONDS
@WITHOUT_MODEL
def prepare(deployment: Deployment, checkpoint_id: str) -> None:
    """Freeze all participants for the checkpoint ID, stage by stage.

    Exit code 1: a participant was not ready in time, its blockers are listed. Call it
    again, or give up with resume and retire the blockers.

    \b
      ipistate checkpoint prepare step-120 --url http://localhost:8000 \\
        --token-file token.txt --without-model
    """

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        prepared = await coordinator.prepare(checkpoint_id, deadline)
        return OperationSummary(
            answers=prepared.answers,
            columns={
                "phase": lambda reply: reply.phase,
                "counts": lambda reply: counted(reply.report),
                "readiness": lambda reply: blocked(reply.report),
            },
            members={
                "blockers": keys(prepared.blockers),
                "restarts": keys(prepared.restarts),
            },
            ok=prepared.ready,
        )

    drive(deployment, work)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@_DIRECTORY
@with_episodes
@click.option(
    "--everything",
    is_flag=True,
    help="Write all state, not that of some episodes; models refuse this.",
)
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
    if everything and episodes:
        raise click.UsageError("--everything names no episodes")
    named = None if everything else some(episodes)

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        restarts = (await coordinator.status()).restarts
        left_out = [one for one in restarts if one in episodes]
        if left_out:
            note(f"left out, they have to start over: {', '.join(keys(left_out))}")
        done = await coordinator.commit(
            checkpoint_id, deadline, directory, named, restarts
        )
        return OperationSummary(
            answers=done.answers,
            columns={
                "phase": lambda reply: reply.phase,
                "written": lambda reply: amount(reply.manifest.record_count, "record"),
            },
            members={
                "scope": None if done.scope is None else keys(done.scope),
                "episodes": keys(done.episodes),
                "staging_keys": done.staging_keys,
            },
        )

    drive(deployment, work)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@SECONDS
def renew(deployment: Deployment, checkpoint_id: str) -> None:
    """Keep the checkpoint ID open for longer, while it is being published.

    A prepared checkpoint is given up when its lease ends, so that a trainer that died
    does not stop its participants for good. This begins a new lease.

    \b
      ipistate checkpoint renew step-120 --seconds 120 \\
        --url http://localhost:8000 --token-file token.txt
    """

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        return OperationSummary(
            answers=(await coordinator.renew(checkpoint_id, deadline)).answers,
            columns={"lease": lambda reply: f"open until {reply.lease_expires_at}"},
        )

    drive(deployment, work)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@SECONDS
def resume(deployment: Deployment, checkpoint_id: str) -> None:
    """Reopen all participants after the checkpoint ID; also how it is given up.

    Those that do not answer do not keep the others closed; exit code 1 tells of them.

    \b
      ipistate checkpoint resume step-120 --url http://localhost:8000 \\
        --token-file token.txt
    """

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        return OperationSummary(
            answers=(await coordinator.resume(checkpoint_id, deadline)).answers,
            columns={"admission": lambda r: "was open" if r.idempotent else "reopened"},
        )

    drive_reachable(deployment, work)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@_DIRECTORY
@with_episodes
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
    allow_missing: bool,
) -> None:
    """Install DIRECTORY in fresh participants, under a new ID: everywhere or nowhere.

    Name the episodes as they were checkpointed; each goes on as its next attempt,
    after resume. If a participant fails, the others are freed and reopened. An episode
    that no participant has a record of ends the restore, too, and exit code 1 tells.

    \b
      ipistate checkpoint restore restore-1 /ckpt/step-120 -e ipi-7 -e ipi-9-a1 \\
        --url http://localhost:8000 --token-file token.txt --without-model
    """
    named = some(episodes)

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


@click.command(epilog=LEGEND)
@with_deployment
@ID
@with_episodes
@SECONDS
def retire(
    deployment: Deployment, checkpoint_id: str, episodes: tuple[EpisodeId, ...]
) -> None:
    """Stop attempts and all earlier ones, and free their state.

    Late calls of a retired attempt are refused, while its rollout may start over as a
    later attempt. This is not possible while a checkpoint is open; after a restore, only
    with its ID.

    \b
      ipistate checkpoint retire step-120 -e ipi-7 --url http://localhost:8000 \\
        --token-file token.txt
    """
    named = some(episodes)

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        done = await coordinator.retire(checkpoint_id, deadline, named)
        return OperationSummary(
            answers=done.answers,
            columns={"attempts": lambda reply: f"{len(reply.retired)} retired"},
        )

    drive(deployment, work)


@click.command(epilog=LEGEND)
@with_deployment
@ID
@click.argument("rollouts", nargs=-1, required=True)
@SECONDS
def forget(
    deployment: Deployment, checkpoint_id: str, rollouts: tuple[str, ...]
) -> None:
    """Accept retired ROLLOUTS again, once nothing of them can still run.

    Participants remember each retired rollout, which takes a little memory. ROLLOUTS
    are names without an attempt, as ipi-7.

    \b
      ipistate checkpoint forget step-120 ipi-7 ipi-9 \\
        --url http://localhost:8000 --token-file token.txt
    """

    async def work(coordinator: Coordinator, deadline: float) -> OperationSummary:
        done = await coordinator.forget(checkpoint_id, deadline, rollouts)
        return OperationSummary(
            answers=done.answers,
            columns={"rollouts": lambda reply: f"{len(reply.forgotten)} forgotten"},
        )

    drive(deployment, work)
