"""The same checkpoint in another version of its states, complete or not at all."""

from __future__ import annotations

import shutil

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ipistate.protocol import EncodedStates
from ipistate.storage.checkpoint_directory import (
    GYM,
    KIND,
    CheckpointDirectory,
    StopFlag,
)
from ipistate.storage.participants import calls_logged


if TYPE_CHECKING:
    from ipistate.protocol import Restorable
    from ipistate.sessions import StateCodec


@attrs.frozen
class MigratingParticipant:
    """A participant's part of a checkpoint, read in whole before anything is written."""

    directory: CheckpointDirectory
    read: Restorable | None
    """None if it is of another kind, and only its manifest was looked at."""

    @classmethod
    def of(
        cls, directory: CheckpointDirectory, codec: StateCodec[Any]
    ) -> MigratingParticipant:
        """Make every check of a restore.

        Raises:
            CheckpointError: ``invalid_checkpoint_state``: it cannot be restored.
        """
        if directory.kind == KIND:
            return cls(directory, directory.read(codec))
        directory.read_manifest()
        return cls(directory, None)

    @property
    def logs(self) -> list[int]:
        """How many calls the log of each session has."""
        return [] if self.read is None else calls_logged(self.read.records)


@attrs.frozen
class NewCheckpoint:
    """A checkpoint directory that appears when all of its participants are written.

    Until it is published they stand below a hidden directory, so that a process that
    dies before leaves nothing that could be taken for a checkpoint.
    """

    out: Path

    @property
    def _hidden(self) -> Path:
        return self.out / ".incomplete"

    def begin(self) -> None:
        """Make the directory.

        Raises:
            OSError: It cannot be made, for example because it exists.
        """
        self.out.mkdir()

    def add(self, part: MigratingParticipant, codec: StateCodec[Any]) -> None:
        """Write a participant with this codec, or copy one of another kind.

        Raises:
            CheckpointError: Its records cannot be written.
            OSError: It cannot be copied.
        """
        source = part.directory
        if part.read is None:
            below = Path(GYM, source.kind, source.instance)
            unpublished = shutil.ignore_patterns(".*")
            shutil.copytree(
                source.root / below, self._hidden / below, ignore=unpublished
            )
            return
        lines = EncodedStates(codec).lines(part.read.records)
        target = CheckpointDirectory(self._hidden, source.instance, source.kind)
        target.write(part.read.manifest.checkpoint_id, lines, StopFlag())

    def publish(self) -> None:
        """Make it a checkpoint, at once.

        Raises:
            OSError: It cannot be renamed.
        """
        (self._hidden / GYM).rename(self.out / GYM)
        self._hidden.rmdir()

    def discard(self) -> None:
        """Leave nothing of it behind."""
        shutil.rmtree(self.out, ignore_errors=True)
