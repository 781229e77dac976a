"""Where a demo keeps its token, its logs, its checkpoints and its result rows."""

from __future__ import annotations

import secrets

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs

from ipistate.clients import ControlClient, Coordinator, discover_urls
from ipistate.deploy import ServerProcess, serve
from ipistate.kernel import Environment, encode, json_line
from ipistate.rollouts import Channel, Server, deadline
from ipistate.sessions import EnvironmentCodec
from ipistate.storage import CheckpointDirectory


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path

    from ipistate.coordination import CommitReply
    from ipistate.demo.play import Recording
    from ipistate.protocol import EpisodeId

INSTANCE: Final = "ipi"


@attrs.frozen
class DemoServer:
    """A running server, connections to it, and what drives its checkpoints.

    Every call raises ``CoordinationError`` if the server refuses it or is gone.
    """

    process: ServerProcess
    channel: Channel
    coordinator: Coordinator

    async def commit(
        self, checkpoint_id: str, directory: Path, episodes: Iterable[EpisodeId]
    ) -> CommitReply:
        """Write the sessions of these episodes; the server is frozen already."""
        done = await self.coordinator.commit(
            checkpoint_id, deadline(), directory, episodes
        )
        return done.answers[0].reply

    async def restore(
        self, restore_id: str, directory: Path, episodes: Iterable[EpisodeId]
    ) -> tuple[str, ...]:
        """Install the sessions of these episodes, open admission, return their keys."""
        done = await self.coordinator.restore(
            restore_id, deadline(), directory, episodes
        )
        await self.coordinator.resume(restore_id, deadline())
        return done.answers[0].reply.restored

    async def sessions(self) -> int:
        """Count the sessions that the server holds."""
        status = (await self.coordinator.status()).answers[0].reply
        return cast("int", status.report.counts["sessions"])


@attrs.frozen
class SessionExport:
    """One session of a checkpoint."""

    session_id: str
    world: Environment

    def to_json(self) -> tuple[str, bytes]:
        """Give the id and the world's text, to compare them byte for byte."""
        return self.session_id, self.world.to_json()


def exports_in(directory: Path) -> dict[EpisodeId, SessionExport]:
    """Read the sessions of a checkpoint, each under its episode.

    Raises:
        CheckpointError: The checkpoint cannot be read.
    """
    records = CheckpointDirectory(directory, INSTANCE).read(EnvironmentCodec()).records
    return {
        record.episode_id: SessionExport(record.session_id, record.state)
        for record in records
        if isinstance(record.state, Environment)
    }


@attrs.frozen
class Workplace:
    """The demo's directory, and the token that its servers share."""

    root: Path
    token: str = attrs.field(factory=partial(secrets.token_urlsafe, 32), repr=False)

    @asynccontextmanager
    async def served(self, name: str) -> AsyncGenerator[DemoServer]:
        """Run a server; its log is named after it, its token file is gone again.

        Raises:
            ServerFailedError: It did not become ready.
            DiscoveryError: It does not give its status.
        """
        token_file = self.root / f"{name}.token"
        token_file.touch(mode=0o600)
        token_file.write_text(self.token)
        options = ["--instance-name", INSTANCE]
        options += ["--checkpoint-token-file", str(token_file)]
        try:
            process = await ServerProcess.start(
                serve(*options), self.root / f"{name}.log"
            )
        finally:
            token_file.unlink()
        async with (
            process,
            Channel(Server(process.url)) as channel,
            ControlClient(self.token) as client,
        ):
            # No model: the agents of a demo are scripts.
            found = await discover_urls([process.url], client, required=())
            yield DemoServer(process, channel, Coordinator(found, client))

    @property
    def results(self) -> Path:
        """The file of result rows."""
        return self.root / "rollouts.jsonl"

    def keep_rows(self, recordings: Iterable[Recording]) -> None:
        """Write the scored rows, which ``ipistate verify`` and ``replay`` read."""
        with self.results.open("wb") as file:
            for one in recordings:
                if one.row is not None:
                    file.write(json_line(encode(one.row)) + b"\n")
