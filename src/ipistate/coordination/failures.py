"""What can go wrong with a call, and the errors that say so.

They are for the *controller*: each carries every failure, so that it can tell a refusal
to be repeated from a server that is gone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

import attrs

from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.coordination.participants import Participant, ServerAddress
    from ipistate.protocol import EpisodeId

DETAIL_LIMIT: Final = 400
"""Characters of an answer that a failure repeats."""

NAMED: Final = 10
"""Missing episodes that an error's message names."""


class FailureReason(StrEnum):
    """Why a call has no result; the code of a failure that no server has named."""

    REFUSED = "refused"
    """The answer's status is not 200."""
    UNREACHABLE = "unreachable"
    """No connection, or it broke before the answer."""
    TIMED_OUT = "timed_out"
    """No answer in time; the participant may still act on the call."""
    INVALID_REPLY = "invalid_reply"
    """An answer that the protocol does not allow."""


def _bounded(text: str) -> str:
    line = text[: DETAIL_LIMIT + 1].replace("\r", "\\r").replace("\n", "\\n")
    return line if len(text) <= DETAIL_LIMIT else f"{line[:DETAIL_LIMIT]}…"


@attrs.frozen(kw_only=True)
class Failure:
    """One call that failed, at one server."""

    server: ServerAddress
    """A ``Participant``, except while it is being discovered."""
    operation: str
    reason: FailureReason
    status: int | None = None
    code: str | None = None
    """The code of a refusal by the protocol (docs/reference/control-plane.md, Appendix B)."""
    detail: str = attrs.field(default="", converter=_bounded)

    def __str__(self) -> str:
        refused = self.reason is FailureReason.REFUSED
        answer = f"HTTP {self.status}" if refused else self.reason.replace("_", " ")
        told = [part for part in (answer, self.code, self.detail) if part]
        return f"{self.operation} at {self.server}: {' '.join(told)}"


class CoordinationError(IpiStateError):
    """A deployment cannot be driven, or an operation failed at some participant."""

    failures: tuple[Failure, ...] = ()
    """Every call that failed; none if what was found is not enough."""

    @classmethod
    def of(cls, failures: Iterable[Failure]) -> Self:
        """Build one error from failures; its code is that of the first one."""
        found = tuple(failures)
        error = cls(_name(found[0]), "; ".join(map(str, found)))
        error.failures = found
        return error

    @property
    def codes(self) -> frozenset[str]:
        """The codes of all failures, their reasons where a server gave no code."""
        return frozenset(map(_name, self.failures))


def _name(failure: Failure) -> str:
    return failure.code or str(failure.reason)


_CHANGED_NOTHING: Final = frozenset(
    {
        *("unauthorized", "stale_checkpoint", "checkpoint_conflict", "invalid_phase"),
        *("stale_attempt", "checkpoint_error", "invalid_checkpoint_state"),
    }
)
"""Codes of refusals after which a participant is what it was before the call."""


def changed_nothing(failure: Failure) -> bool:
    """Tell whether a participant is surely what it was before the call.

    One that ran out of time may go on, and a lost reply may have been a success.
    """
    return failure.code in _CHANGED_NOTHING


class DiscoveryError(CoordinationError):
    """The participants of a deployment could not be found, or are not complete."""

    found: tuple[Participant, ...] = ()
    """Those that were found nevertheless."""


class OperationFailedError(CoordinationError):
    """An operation failed at one participant or more, after all calls had returned."""


class RestoreFailedError(OperationFailedError):
    """A restore failed; what had been installed was retired, and all were resumed."""

    clean_up: tuple[Failure, ...] = ()
    """What failed in undoing it; those participants may hold state still."""

    @classmethod
    def after(cls, failures: Iterable[Failure], clean_up: Iterable[Failure]) -> Self:
        """Build the error from what failed in the restore and in its clean-up."""
        error = cls.of(failures)
        error.clean_up = tuple(clean_up)
        return error


class MissingEpisodesError(RestoreFailedError):
    """A restore named episodes that no participant has a record of.

    What had been installed was freed, and all were resumed. Nothing stays refused: a
    restore with another id may follow.
    """

    episodes: tuple[EpisodeId, ...] = ()
    """The episodes that are in no record, as they were named."""

    @classmethod
    def of_episodes(
        cls, episodes: Iterable[EpisodeId], clean_up: Iterable[Failure]
    ) -> Self:
        """Build the error from what is missing, and what failed in the clean-up."""
        missing = tuple(episodes)
        named = ", ".join(one.capture_key for one in missing[:NAMED])
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        error = cls("missing_episodes", f"the checkpoint has no {named}{more}")
        error.episodes, error.clean_up = missing, tuple(clean_up)
        return error
