"""Where a demo keeps its token, its logs, its checkpoint and its result rows."""

from __future__ import annotations

import secrets

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.clients import ControlClient, Coordinator, discover_urls
from ipistate.demo.connection import Connection
from ipistate.demo.control import DemoControl
from ipistate.kernel import Environment
from ipistate.rollouts import ServerProcess, serve
from ipistate.sessions import EnvironmentCodec
from ipistate.storage import CheckpointDirectory


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path

    from ipistate.protocol import EpisodeId

INSTANCE: Final = "ipi"
CONCURRENCY: Final = 16


@attrs.frozen
class Served:
    """A running server, a connection to it, and what drives its checkpoints."""

    process: ServerProcess
    connection: Connection
    control: DemoControl


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

    def checkpoint(self, name: str) -> Path:
        """Return the directory of a checkpoint."""
        return self.root / name

    @asynccontextmanager
    async def served(self, name: str) -> AsyncGenerator[Served]:
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
            Connection(process.url, CONCURRENCY) as connection,
            ControlClient(self.token) as client,
        ):
            # No model: the agents of a demo are scripts.
            found = await discover_urls([process.url], client, required=())
            yield Served(process, connection, DemoControl(Coordinator(found, client)))

    @property
    def results(self) -> Path:
        """The file of result rows."""
        return self.root / "rollouts.jsonl"

    def keep_rows(self, rows: Iterable[bytes]) -> None:
        """Write result rows, which ``ipistate verify`` and ``replay`` read."""
        with self.results.open("wb") as file:
            file.writelines(row + b"\n" for row in rows)
