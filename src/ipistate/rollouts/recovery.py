"""What a run that is resumed goes on from: the newest checkpoint that can be used.

The directory of the checkpoints is an option, and may be forgotten or misspelt. Every
turn that they have would be paid for again, so a run notes where they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import attrs

from ipistate.errors import CheckpointError, IpiStateError
from ipistate.kernel import decode, encode, structure, unstructure
from ipistate.rollouts.lines import RunFileError, write_whole
from ipistate.rollouts.store import Pair, Store


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.agents import AgentState
    from ipistate.protocol import EpisodeId
    from ipistate.rollouts.checkpoints import Checkpoints
    from ipistate.rollouts.records import Records
    from ipistate.rollouts.runner import RunWatcher


@attrs.frozen(kw_only=True)
class CheckpointPlace:
    """Where the checkpoints of a run are."""

    directory: str
    """Its absolute path."""
    server: str
    """The instance name of the server."""

    @classmethod
    def of(cls, store: Store) -> Self:
        """Say where a store writes."""
        return cls(directory=str(store.root.resolve()), server=store.server)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read what ``write`` has written; None if there is nothing that can be read."""
        try:
            return structure(decode(path.read_bytes()), cls)
        except (IpiStateError, OSError):
            return None

    def write(self, path: Path) -> None:
        """Note the place.

        Raises:
            RunFileError: The note cannot be written.
        """
        write_whole(path, encode(unstructure(self)) + b"\n")


def check_place(directory: Path | None, records: Records, watch: RunWatcher) -> None:
    """Refuse to go on beside the checkpoints that a run has.

    Args:
        directory: Where checkpoints are to be from now on; None for nowhere.
        records: The run.
        watch: Is told if the checkpoints are gone.

    Raises:
        RunFileError: ``other_checkpoints``: turns that they have would be asked for
            again. How many, and where they are, is in the message.
    """
    place = CheckpointPlace.read(records.files.checkpoints)
    if place is None:
        return
    root = Path(place.directory)
    if directory is not None and directory.resolve() == root:
        return
    store = Store(root=root, run=records.configuration.name, server=place.server)
    pair = next((one for one in store.newest() if isinstance(one, Pair)), None)
    held = _unfinished(pair, records)
    turns = sum(state.conversation.turns for state in held.values())
    if turns:
        message = (
            f"{root}: the checkpoints of this run are here, and {turns} turns of "
            f"{len(held)} rollouts would be asked for again without them; go on with "
            f"--checkpoint-dir {root}, or remove its {store.run}-* to start them over"
        )
        raise RunFileError("other_checkpoints", message)
    if pair is None and (begun := len(records.stale())):
        watch.note(f"{root} has no checkpoint of this run: {begun} rollouts start over")


def _unfinished(pair: Pair | None, records: Records) -> Mapping[EpisodeId, AgentState]:
    return {
        episode: state
        for episode, state in (pair.held.items() if pair is not None else ())
        if records.lacks(episode.rollout_id)
    }


async def recovered(
    checkpoints: Checkpoints, records: Records, watch: RunWatcher
) -> Mapping[EpisodeId, AgentState]:
    """Restore the newest checkpoint that can be used, and say which one it is.

    Returns:
        The episodes that go on, under their next attempts.

    Raises:
        CoordinationError: The server cannot restore them.
        CheckpointError: The new checkpoint cannot be written.
    """
    unusable = 0
    for pair in checkpoints.store.newest():
        if isinstance(pair, CheckpointError):
            watch.note(f"a checkpoint cannot be used: {pair.message}")
            unusable += 1
            continue
        wanted = [*_unfinished(pair, records)]
        if not wanted:
            return {}
        older = ", the newest that can be used" if unusable else ""
        watch.note(f"restoring {len(wanted)} rollouts from {pair.checkpoint_id}{older}")
        return await checkpoints.restore(pair, wanted)
    if unusable and (begun := len(records.stale())):
        watch.note(f"no checkpoint can be used: {begun} rollouts start over")
    return {}
