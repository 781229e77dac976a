"""What can be wrong with the files of a run."""

from __future__ import annotations

from ipistate.errors import IpiStateError


class RunFileError(IpiStateError):
    """A file of a run is not what it should be, or cannot be read or written.

    The message says what to do about it; nothing of the run has been lost.
    """
