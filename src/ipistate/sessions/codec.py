"""Sessions with their logs on the way into storage and out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ipistate.kernel import decode_as, encode, encode_checked
from ipistate.sessions.log import RecordedSession
from ipistate.sessions.state import IPICheckpointState
from ipistate.tools import TOOLS, Tool


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.kernel import Adopt
    from ipistate.sessions.session import Session


@attrs.frozen
class RecordedCodec:
    """Carries sessions of either version as they were written; executes nothing."""

    def encode(self, state: RecordedSession) -> bytes:
        """Write the session as version 2."""
        return encode(state.to_document())

    def decode(self, tree: Any, adopt: Adopt) -> RecordedSession:
        """Read a session of any readable version.

        Raises:
            SchemaError: The tree is not a valid session.
        """
        return RecordedSession.from_tree(tree, adopt)


@attrs.frozen
class WorldCodec(RecordedCodec):
    """Reads sessions of either version and writes version 1: only their worlds."""

    def encode(self, state: RecordedSession) -> bytes:
        """Write the world now."""
        return IPICheckpointState(state.environment).to_json()


@attrs.frozen
class SessionCodec:
    """Carries a live ``Session`` as version 2 of the state, and reads version 1, too.

    A session of version 1 has no log; its seed is the world that it had then. The text
    depends on the value only.
    """

    tools: Mapping[str, Tool] = attrs.field(default=TOOLS, repr=False)
    """The tools that execute the log again when a session is read."""

    def encode(self, state: Session) -> bytes:
        """Write the session with its log."""
        return encode(RecordedSession.of(state).to_document())

    def decode(self, tree: Any, adopt: Adopt) -> Session:
        """Read a session of any readable version and execute its log again.

        Raises:
            SchemaError: The tree is not a valid session, or its log is not what
                these tools do (``log_not_reproducible``).
        """
        return RecordedSession.from_tree(tree, adopt).executed(self.tools)


def session_to_json(session: Session) -> bytes:
    """Write a session with its log as compact JSON: version 2 of the state.

    ``IPICheckpointState(session.environment)`` is version 1, which has no log.

    Raises:
        EncodeError: ``not_finite``: a number was forced into one of its worlds.
    """
    return encode_checked(RecordedSession.of(session).to_document())


def session_from_json(
    data: bytes | str, *, tools: Mapping[str, Tool] = TOOLS
) -> Session:
    """Read a session from JSON text of version 1 or 2, and execute its log again.

    The session that is returned goes on with these tools.

    Raises:
        DecodeError: The text is not acceptable JSON.
        SchemaError: It is not a session, or its log is not what the tools do
            (``log_not_reproducible``, with the call's path).
    """
    return decode_as(data, SessionCodec(tools).decode)
