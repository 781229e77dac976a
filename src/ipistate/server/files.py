"""Work on checkpoint files, done in threads, its outcome always an event."""

from __future__ import annotations

import logging

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ipistate.checkpoint.actions import Read, StopWrite, Write
from ipistate.checkpoint.directory import CheckpointDirectory, StopFlag
from ipistate.checkpoint.events import Event, ReadEnded, WriteEnded, WriteStopped
from ipistate.checkpoint.records import EncodedStates
from ipistate.errors import CheckpointError
from ipistate.server.collector import paused


if TYPE_CHECKING:
    from collections.abc import Callable

    from ipistate.checkpoint.records import Manifest, Restorable
    from ipistate.checkpoint.state import StateCodec

T = TypeVar("T")

_log: Final = logging.getLogger("ipistate.server")


class CheckpointFiles:
    """Turns the machine's file actions into tasks for a thread.

    Args:
        instance: The participant's name in a checkpoint.
        codec: How states become JSON.
        root: What every directory must be under; None allows any.
    """

    def __init__(
        self, instance: str, codec: StateCodec[Any], root: Path | None
    ) -> None:
        self._instance = instance
        self._codec = codec
        self._root = root
        self._encoded = EncodedStates(codec)
        self._stops: dict[int, StopFlag] = {}

    def task(self, action: Write | StopWrite | Read) -> Callable[[], Event]:
        """Return the work of an action; it blocks, and it raises nothing."""
        match action:
            case Write(write=write):
                stop = self._stops[write] = StopFlag()
                return partial(self._write, action, stop)
            case StopWrite(write=write):
                stop = self._stops.get(write, StopFlag())
                return partial(_stop, write, stop)
            case Read():
                return partial(self._read, action)

    def _write(self, action: Write, stop: StopFlag) -> Event:
        def work() -> Manifest:
            lines = self._encoded.lines(action.records)
            directory = self._directory(action.directory)
            return directory.write(action.checkpoint_id, lines, stop)

        outcome = _outcome(work)
        self._stops.pop(action.write, None)
        return WriteEnded(action.write, outcome)

    def _read(self, action: Read) -> Event:
        def work() -> Restorable:
            return self._directory(action.directory).read(self._codec, action.scope)

        with paused():
            outcome = _outcome(work)
        return ReadEnded(action.read, outcome)

    def _directory(self, named: str) -> CheckpointDirectory:
        path = Path(named)
        if self._root is not None:
            path = _below(self._root, path)
        return CheckpointDirectory(path, self._instance)


def _stop(write: int, stop: StopFlag) -> Event:
    stop.stop()
    return WriteStopped(write)


def _below(root: Path, path: Path) -> Path:
    # Symbolic links are followed first, so none of them leads out.
    try:
        resolved = (root / path).resolve()
        if resolved.is_relative_to(root.resolve()):
            return resolved
    except (OSError, RuntimeError, ValueError):
        pass  # a path that the system cannot even be asked for
    raise CheckpointError(
        "invalid_checkpoint_state", "checkpoint_dir is not under the checkpoint root"
    )


def _outcome(work: Callable[[], T]) -> T | CheckpointError:
    try:
        return work()
    except CheckpointError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the machine must hear of any end
        _log.exception("work on checkpoint files failed")
        text = f"{type(error).__name__}: {error}"
        return CheckpointError("invalid_checkpoint_state", text)
