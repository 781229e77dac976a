"""Pairs of checkpoints on disk: the server's sessions, and our conversations with them.

Both parts stand below one directory with the pair's id. Ours is written after the
server's, so a pair whose second manifest is there is complete.
"""

from __future__ import annotations

import re
import shutil

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.agents import AgentState, AgentStateCodec
from ipistate.errors import CheckpointError
from ipistate.protocol import EncodedStates, SessionRecord
from ipistate.storage import MANIFEST, CheckpointDirectory, StopFlag


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ipistate.protocol import EpisodeId

KEPT: Final = 2
"""How many complete pairs are kept."""

_KIND: Final = "agent"
_INSTANCE: Final = "run"
_NUMBER: Final = re.compile(r"(?P<run>[0-9a-f]+)-(?P<number>\d{6,9})")


@attrs.frozen(kw_only=True)
class Pair:
    """A complete checkpoint."""

    number: int
    checkpoint_id: str
    path: Path
    held: Mapping[EpisodeId, AgentState]


class _Anything:
    # The server's states are its own; only that their file is whole matters here.

    def encode(self, state: object) -> bytes:
        raise NotImplementedError

    def decode(self, tree: object, adopt: object) -> None:
        del tree, adopt


@attrs.frozen(kw_only=True)
class Store:
    """The checkpoints of one run.

    Args:
        root: Below it every pair has a directory; other runs may have theirs there, too.
        run: The run's name, with which the ids begin.
        server: The instance name of the server.
    """

    root: Path
    run: str
    server: str

    def checkpoint_id(self, number: int) -> str:
        """Name a pair."""
        return f"{self.run}-{number:06}"

    def path(self, number: int) -> Path:
        """Return a pair's directory."""
        return self.root / self.checkpoint_id(number)

    def last_number(self) -> int:
        """Return the highest number that has been used, 0 if none was."""
        return max(self._numbers(), default=0)

    def begin(self, number: int) -> str:
        """Take a number, so that it is never used again, and name its pair.

        Raises:
            CheckpointError: There can be no directory.
        """
        try:
            self.path(number).mkdir(parents=True)
        except OSError as error:
            message = f"{self.path(number)}: {error.strerror or error}"
            raise CheckpointError("invalid_checkpoint_state", message) from error
        return self.checkpoint_id(number)

    def write(self, number: int, held: Mapping[EpisodeId, AgentState]) -> None:
        """Write our part, and make the pair complete with it.

        Raises:
            CheckpointError: It cannot be written.
        """
        records = [
            SessionRecord(episode, f"run:{episode.rollout_id}", state)
            for episode, state in held.items()
        ]
        lines = EncodedStates(AgentStateCodec()).lines(records)
        self._ours(number).write(self.checkpoint_id(number), lines, StopFlag())

    def newest(self) -> Iterator[Pair | CheckpointError]:
        """Visit pairs from the newest to the oldest, the unusable ones as their errors."""
        for number in sorted(self._numbers(), reverse=True):
            try:
                yield self._read(number)
            except CheckpointError as error:
                yield error

    def prune(self) -> None:
        """Remove all but the newest complete pairs, and what is older than those."""
        numbers = sorted(self._numbers(), reverse=True)
        complete = [one for one in numbers if self._is_complete(one)]
        if len(complete) >= KEPT:
            for number in numbers:
                if number < complete[KEPT - 1]:
                    self._remove(number)

    def _numbers(self) -> Iterator[int]:
        if not self.root.is_dir():
            return
        for path in self.root.iterdir():
            match = _NUMBER.fullmatch(path.name)
            if match is not None and match["run"] == self.run:
                yield int(match["number"])

    def _ours(self, number: int) -> CheckpointDirectory:
        return CheckpointDirectory(self.path(number), _INSTANCE, _KIND)

    def _manifest(self, number: int) -> Path:
        return self.path(number) / "gym" / _KIND / _INSTANCE / MANIFEST

    def _is_complete(self, number: int) -> bool:
        return self._manifest(number).is_file()

    def _read(self, number: int) -> Pair:
        path, name = self.path(number), self.checkpoint_id(number)
        ours = self._ours(number).read(AgentStateCodec())
        theirs = CheckpointDirectory(path, self.server).read(_Anything(), ())
        ids = {ours.manifest.checkpoint_id, theirs.manifest.checkpoint_id}
        if ids != {name}:
            message = f"{path}: its parts belong to different checkpoints"
            raise CheckpointError("invalid_checkpoint_state", message)
        held: dict[EpisodeId, AgentState] = {}
        for record in ours.records:
            if isinstance(record.state, AgentState):
                held[record.episode_id] = record.state
        return Pair(number=number, checkpoint_id=name, path=path, held=held)

    def _remove(self, number: int) -> None:
        # What is half removed is not to look complete.
        self._manifest(number).unlink(missing_ok=True)
        shutil.rmtree(self.path(number), ignore_errors=True)
