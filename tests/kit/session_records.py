"""What the control machine hands over as records of any kind, taken as sessions."""

from collections.abc import Iterable
from typing import cast

from ipistate.protocol import CheckpointRecord, SessionRecord


def sessions_of(records: Iterable[CheckpointRecord]) -> tuple[SessionRecord, ...]:
    """Return the records of a resources participant with their sessions."""
    return tuple(cast("SessionRecord", record) for record in records)
