"""``ipistate checkpoint prepare`` and the other verbs that drive participants."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from ipistate.cli.operation_table import (
    OperationSummary,
    blocked,
    counted,
    prepared_summary,
)


if TYPE_CHECKING:
    from ipistate.clients import Coordinator
    from ipistate.protocol import EpisodeId


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
        return prepared_summary(await coordinator.prepare(checkpoint_id, deadline))

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
