"""The participants of checkpoint directories: found, checked, compared, migrated."""

from __future__ import annotations

import shutil

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import attrs

from ipistate.errors import CheckpointError
from ipistate.kernel import Diff, diff
from ipistate.protocol import KIND, EncodedStates
from ipistate.storage.checkpoint_directory import GYM, CheckpointDirectory, StopFlag


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ipistate.kernel import Environment
    from ipistate.protocol import EpisodeId, Manifest, Restorable, SessionRecord
    from ipistate.sessions import RecordedSession, Session, StateCodec

ComparedStatus = Literal["same", "different", "only in A", "only in B"]


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


class _NoStates:
    """Reads records without looking at their states."""

    def encode(self, state: object) -> bytes:
        raise NotImplementedError

    def decode(self, tree: object, adopt: object) -> None:
        del tree, adopt


def recorded_episodes(root: Path) -> tuple[EpisodeId, ...]:
    """Name the episodes of every participant's records, each once, as they were saved.

    Raises:
        CheckpointError: ``invalid_checkpoint_state``: a participant's files are not
            whole, or there is no participant.
        OSError: The directory cannot be read.
    """
    found = participants(root)
    if not found:
        message = f"{root}: there is no checkpoint here"
        raise CheckpointError("invalid_checkpoint_state", message)
    records = (record for one in found for record in one.read(_NoStates()).records)
    return tuple(dict.fromkeys(record.episode_id for record in records))


@attrs.frozen(kw_only=True)
class ComparedSession:
    """A session of one checkpoint or of both."""

    session_id: str
    status: ComparedStatus
    before: str | None
    """The episode that it played in A."""
    after: str | None
    """The episode that it played in B."""
    found: Diff | None
    """What changed in its world, if both checkpoints have it."""


@attrs.frozen(kw_only=True)
class ComparedParticipant:
    """A participant of checkpoint A, of B, or of both."""

    kind: str
    instance: str
    before: str | None
    """The id of its checkpoint in A."""
    after: str | None
    """The id of its checkpoint in B."""
    sessions: tuple[ComparedSession, ...]


def compare_participants(
    kind: str,
    instance: str,
    before: Restorable[SessionRecord] | None,
    after: Restorable[SessionRecord] | None,
) -> ComparedParticipant:
    """Compare the sessions of a participant by their ids, those of A first."""
    olds, news = _records(before), _records(after)
    sessions = tuple(
        _compared(session_id, olds.get(session_id), news.get(session_id))
        for session_id in dict.fromkeys((*olds, *news))
    )
    return ComparedParticipant(
        kind=kind,
        instance=instance,
        before=None if before is None else before.manifest.checkpoint_id,
        after=None if after is None else after.manifest.checkpoint_id,
        sessions=sessions,
    )


def _records(part: Restorable[SessionRecord] | None) -> Mapping[str, SessionRecord]:
    return {} if part is None else {one.session_id: one for one in part.records}


def _compared(
    session_id: str, before: SessionRecord | None, after: SessionRecord | None
) -> ComparedSession:
    status: ComparedStatus = "only in B" if before is None else "only in A"
    found: Diff | None = None
    if before is not None and after is not None:
        found = diff(_world(before), _world(after))
        status = "different" if found else "same"
    return ComparedSession(
        session_id=session_id,
        status=status,
        before=_episode(before),
        after=_episode(after),
        found=found,
    )


def _episode(record: SessionRecord | None) -> str | None:
    return None if record is None else record.episode_id.capture_key


def _world(record: SessionRecord) -> Environment:
    return cast("RecordedSession", record.state).environment


@attrs.frozen
class MigratingParticipant:
    """A participant's part of a checkpoint, read in whole before anything is written."""

    directory: CheckpointDirectory
    read: Restorable[SessionRecord] | None
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
        """Remove all that was written."""
        shutil.rmtree(self.out, ignore_errors=True)
