"""The demo's control calls: a coordinator, and a deadline for each of them."""

from __future__ import annotations

import time

from typing import TYPE_CHECKING, Final, cast

import attrs

from ipistate.coordination import CoordinationError


if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ipistate.clients import Coordinator
    from ipistate.coordination import CommitReply, RestoreReply
    from ipistate.protocol import EpisodeId

DEADLINE_SECONDS: Final = 30.0


def _deadline() -> float:
    return time.time() + DEADLINE_SECONDS


@attrs.frozen
class DemoControl:
    """Drives the checkpoints of one server.

    Every call raises ``CoordinationError`` if the server refuses it or is gone.
    """

    coordinator: Coordinator

    async def freeze(self, checkpoint_id: str) -> None:
        """Close admission and wait for the calls in flight."""
        prepared = await self.coordinator.prepare(checkpoint_id, _deadline())
        if not prepared.ready:
            raise CoordinationError("not_prepared", f"{checkpoint_id} is blocked")

    async def commit(
        self, checkpoint_id: str, directory: Path, episodes: Iterable[EpisodeId]
    ) -> CommitReply:
        """Write the sessions of these episodes."""
        done = await self.coordinator.commit(
            checkpoint_id, _deadline(), directory, episodes
        )
        return done.answers[0].reply

    async def checkpoint(
        self, checkpoint_id: str, directory: Path, episodes: Iterable[EpisodeId]
    ) -> CommitReply:
        """Freeze and write; nothing goes on before ``resume``."""
        await self.freeze(checkpoint_id)
        return await self.commit(checkpoint_id, directory, episodes)

    async def resume(self, checkpoint_id: str) -> None:
        """Open admission again."""
        await self.coordinator.resume(checkpoint_id, _deadline())

    async def restore(
        self, restore_id: str, directory: Path, episodes: Iterable[EpisodeId]
    ) -> RestoreReply:
        """Install the sessions of these episodes, and open admission."""
        done = await self.coordinator.restore(
            restore_id, _deadline(), directory, episodes
        )
        await self.resume(restore_id)
        return done.answers[0].reply

    async def retire(self, retire_id: str, episodes: Iterable[EpisodeId]) -> None:
        """Refuse these attempts and those before them, and free their sessions."""
        await self.coordinator.retire(retire_id, _deadline(), episodes)

    async def forget(self, forget_id: str, rollout_ids: Iterable[str]) -> None:
        """End the refusals that a retire has left."""
        await self.coordinator.forget(forget_id, _deadline(), rollout_ids)

    async def sessions(self) -> int:
        """Count the sessions that the server holds."""
        status = (await self.coordinator.status()).answers[0].reply
        return cast("int", status.report.counts["sessions"])

    async def marks(self) -> int:
        """Count the rollouts of which the server refuses attempts."""
        return (await self.coordinator.status()).answers[0].reply.retired_rollouts
