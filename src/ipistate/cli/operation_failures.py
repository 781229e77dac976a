"""What is said of an operation that failed, and what to do then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.cli.operation_table import OperationSummary, keys
from ipistate.cli.terminal import note
from ipistate.coordination import MissingEpisodesError, RestoreFailedError


if TYPE_CHECKING:
    from ipistate.coordination import OperationFailedError

_ADVICE: Final = {
    "checkpoint_conflict": "nothing was restored by this call: an earlier one is open; "
    "end it with resume, or repeat it with its own episodes",
    "stale_checkpoint": "this ID was used before; take another one",
    "stale_attempt": "run 'ipistate checkpoint forget' for the rollouts of these "
    "attempts, then restore under another ID; or restore into fresh processes",
}
"""What to do after a restore that was refused with one of these codes."""


def summary_of(error: OperationFailedError) -> OperationSummary:
    """Summarise what failed; after a restore, say on standard error what to do."""
    if isinstance(error, MissingEpisodesError):
        note(f"{error.message}: nothing was restored")
        note("leave these episodes out, or give --allow-missing, under another ID")
        members = {"missing": keys(error.episodes)}
        return OperationSummary(ok=False, members=members, clean_up=error.clean_up)
    if not isinstance(error, RestoreFailedError):
        return OperationSummary(ok=False, failures=error.failures)
    for code in sorted(error.codes & _ADVICE.keys()):
        note(_ADVICE[code])
    return OperationSummary(ok=False, failures=error.failures, clean_up=error.clean_up)
