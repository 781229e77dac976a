"""What checkpoints carry of a session: its world, or with version 2 its log, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from ipistate.kernel import Environment
from ipistate.sessions import EnvironmentCodec, Session, SessionCodec, UnloggedSession


if TYPE_CHECKING:
    from ipistate.server.operating.settings import ServerSettings
    from ipistate.sessions import StateCodec


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
