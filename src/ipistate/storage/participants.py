"""The participants that a checkpoint directory has, each read as far as it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs

from ipistate.errors import CheckpointError
from ipistate.storage.checkpoint_directory import GYM, KIND, CheckpointDirectory


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ipistate.protocol import Manifest, SessionRecord
    from ipistate.sessions import RecordedSession, Session, StateCodec


@attrs.frozen
class CheckedParticipant:
    """A participant's part of a checkpoint: what was read, or why it cannot be."""

    directory: CheckpointDirectory
    manifest: Manifest | None = None
    records: tuple[SessionRecord, ...] = ()
    fault: str | None = None
    note: str | None = None

    @property
    def calls(self) -> int:
        """Calls in the logs of all sessions; those of version 1 have none."""
        return sum(calls_logged(self.records))


def participants(
    root: Path, kind: str | None = None, instance: str | None = None
) -> list[CheckpointDirectory]:
    """Find the participants below a checkpoint directory, sorted by kind and name.

    Raises:
        OSError: The directory cannot be read.
    """
    return [
        CheckpointDirectory(root, path.name, path.parent.name)
        for path in sorted((root / GYM).glob("*/*"))
        if path.is_dir()
        and kind in {None, path.parent.name}
        and instance in {None, path.name}
    ]


def check_participant(
    directory: CheckpointDirectory, codec: StateCodec[Any]
) -> CheckedParticipant:
    """Make the checks of a restore; of another kind only the manifest is known."""
    try:
        if directory.kind != KIND:
            manifest = directory.read_manifest()
            note = f"only its manifest was read: kind {directory.kind}"
            return CheckedParticipant(directory, manifest, note=note)
        restorable = directory.read(codec)
    except CheckpointError as error:
        return CheckedParticipant(directory, fault=error.message)
    return CheckedParticipant(directory, restorable.manifest, restorable.records)


def calls_logged(records: Sequence[SessionRecord]) -> list[int]:
    """Count the calls in each session's log."""
    states = [cast("RecordedSession | Session", one.state) for one in records]
    return [len(state.log) for state in states]
