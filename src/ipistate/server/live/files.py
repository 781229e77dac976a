"""What checkpoints carry of a session, and the work on their files.

That is done in threads, and its outcome is always an event.
"""

from __future__ import annotations

import logging
import os

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast

import attrs

from ipistate.errors import CheckpointError
from ipistate.kernel import Environment
from ipistate.protocol import (
    CheckpointRecord,
    Event,
    Read,
    ReadEnded,
    StopWrite,
    Write,
    WriteEnded,
    WriteStopped,
)
from ipistate.server.operating.collector import paused
from ipistate.server.operating.observer import Observer, WorkStage
from ipistate.sessions import EnvironmentCodec, Session, SessionCodec, UnloggedSession
from ipistate.storage import CheckpointDirectory, StopFlag


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ipistate.protocol import Manifest, RecordCodec, Restorable
    from ipistate.server.operating.settings import ServerSettings
    from ipistate.sessions import StateCodec

R = TypeVar("R", bound=CheckpointRecord)
T = TypeVar("T")

_SHOWN: Final = 200
_INVALID: Final = "invalid_checkpoint_state"

_log: Final = logging.getLogger("ipistate.server.files")


@attrs.frozen
class CarriedStates:
    """How live sessions become the states of a checkpoint, and come back."""

    codec: StateCodec[Any]
    with_logs: bool
    """Whether checkpoints carry logs."""
    kind: type[Session]
    """What a session without a log goes on as; a log begins with the restore then."""

    @classmethod
    def of(cls, settings: ServerSettings) -> Self:
        """Take what an operator has chosen."""
        if settings.checkpoint_state_version == 1:
            kind = Session if settings.extension else UnloggedSession
            return cls(EnvironmentCodec(), with_logs=False, kind=kind)
        return cls(SessionCodec(settings.tools), with_logs=True, kind=Session)

    def exported(self, session: Session) -> Environment | Session:
        """Return the state of a session.

        A session that did not change gives the same object again, and so do sessions
        that share their world: its text is then written once.
        """
        return session if self.with_logs else session.environment

    def restored(self, state: object) -> Session:
        """Go on from a state.

        Raises:
            TypeError: It is not one that ``codec`` has read.
        """
        match state:
            case Session():
                return state
            case Environment():
                return self.kind(state)
            case _:
                raise TypeError(f"not a session's state: {type(state).__name__}")


class CheckpointFiles(Generic[R]):
    """Turns the machine's file actions into tasks for a thread.

    Args:
        instance: The participant's name in a checkpoint.
        records: How records become lines.
        root: What every directory must be under; None allows any.
        follow_links: Whether there may be symbolic links below the root.
        observer: Is told of seconds and bytes.
    """

    read_bytes: int = 0
    """Size of the checkpoint that was read last."""

    def __init__(
        self,
        instance: str,
        records: RecordCodec[R],
        root: Path | None,
        observer: Observer,
        *,
        follow_links: bool = True,
    ) -> None:
        self._follow_links = follow_links
        self._instance = instance
        self._records = records
        self._root = root
        self._observer = observer
        self._stops: dict[int, StopFlag] = {}

    @property
    def has_root(self) -> bool:
        """Whether every directory must be under a root."""
        return self._root is not None

    def check(self, named: str) -> None:
        """Look whether a directory may be used; it blocks, as every look at files does.

        Raises:
            CheckpointError: ``invalid_checkpoint_state``: it is not under the root.
        """
        self._directory(named)

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

    def failed(self, action: Write | StopWrite | Read, error: BaseException) -> Event:
        """Return the end of work that no thread could do; the same may be tried again."""
        _log.error("work on checkpoint files failed", exc_info=error)
        text = f"the work could not be done: {type(error).__name__}: {error}"
        outcome = CheckpointError("invalid_checkpoint_state", text)
        match action:
            case Write(write=write):
                # The pool may have kept the work for later; it then publishes nothing.
                _stop(write, self._stops.pop(write, StopFlag()))
                return WriteEnded(write, outcome)
            case StopWrite(write=write):
                return _stop(write, self._stops.get(write, StopFlag()))
            case Read(read=read):
                return ReadEnded(read, outcome)

    def _write(self, action: Write, stop: StopFlag) -> Event:
        lines = _Lines()
        began = perf_counter()

        def work() -> Manifest:
            records = cast("tuple[R, ...]", action.records)  # as its part makes them
            lines.of(self._records.lines(records))
            directory = self._directory(action.directory)
            return directory.write(action.checkpoint_id, lines, stop)

        outcome = _outcome(work)
        self._stops.pop(action.write, None)
        seconds = perf_counter() - began
        self._observer.worked(WorkStage.EXPORT, lines.seconds, lines.size)
        self._observer.worked(WorkStage.WRITE, seconds - lines.seconds, lines.size)
        if not isinstance(outcome, CheckpointError):
            self._observer.published()
        _note("write", action.directory, outcome, seconds, lines.size)
        return WriteEnded(action.write, outcome)

    def _read(self, action: Read) -> Event:
        self.read_bytes = 0
        began = perf_counter()

        def work() -> Restorable[R]:
            directory = self._directory(action.directory)
            found = directory.read_records(self._records, action.scope)
            self.read_bytes = directory.records_size(found.manifest)
            return found

        with paused():
            outcome = _outcome(work)
        seconds = perf_counter() - began
        self._observer.worked(WorkStage.READ, seconds, self.read_bytes)
        _note("read", action.directory, outcome, seconds, self.read_bytes)
        return ReadEnded(action.read, outcome)

    def _directory(self, named: str) -> CheckpointDirectory:
        root, path, follow = self._root, Path(named), self._follow_links
        if root is not None:
            path = _below(root, path, follow)
        return CheckpointDirectory(
            path, self._instance, self._records.kind, within=root, follow_links=follow
        )


class _Lines:
    """Lines as they come, with the time that making them took and their size."""

    def __init__(self) -> None:
        self._lines: Iterator[bytes] = iter(())
        self.seconds = 0.0
        self.size = 0

    def of(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        began = perf_counter()
        try:
            line = next(self._lines)
        finally:
            self.seconds += perf_counter() - began
        self.size += len(line)
        return line


def _note(
    what: str, directory: str, outcome: object, seconds: float, size: int
) -> None:
    # A refusal's text can quote a record; the caller gets it, the log only its code.
    code = outcome.code if isinstance(outcome, CheckpointError) else None
    _log.log(
        logging.INFO if code is None else logging.WARNING,
        "%s of %s: %s",
        what,
        ascii(directory[:_SHOWN]),
        code or f"{size} bytes in {seconds:.3f} s",
        extra={"work": what, "seconds": seconds, "bytes": size, "code": code},
    )


def _stop(write: int, stop: StopFlag) -> Event:
    stop.stop()
    return WriteStopped(write)


def _below(root: Path, path: Path, follow_links: bool) -> Path:  # noqa: FBT001 - one of an operator's choices
    # Symbolic links are followed first, so none of them leads out.
    try:
        root = root.resolve()
        resolved = (root / path).resolve()
        if not follow_links and resolved != Path(os.path.normpath(root / path)):
            raise CheckpointError(_INVALID, "checkpoint_dir has a symbolic link in it")
        if resolved.is_relative_to(root):
            return resolved
    except (OSError, RuntimeError, ValueError):
        pass  # a path that the system cannot even be asked for
    raise CheckpointError(_INVALID, "checkpoint_dir is not under the checkpoint root")


def _outcome(work: Callable[[], T]) -> T | CheckpointError:
    try:
        return work()
    except CheckpointError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the machine must hear of any end
        _log.exception("work on checkpoint files failed")
        text = f"{type(error).__name__}: {error}"
        return CheckpointError(_INVALID, text)
