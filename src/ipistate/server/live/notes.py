"""What the log says of checkpoints: phases, and sessions that no scope names."""

from __future__ import annotations

import logging

from typing import TYPE_CHECKING, Final

from ipistate.protocol import Phase, Reply


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.protocol import Action, EpisodeId, ResourcesState

_log: Final = logging.getLogger("ipistate.server.shell")

_NAMED: Final = 20
"""Episodes that one line names."""


def note_phase(
    before: ResourcesState,
    after: ResourcesState,
    now: float,
    todo: tuple[Action, ...],
) -> None:
    """Note a change of the phase, and a checkpoint that nobody has resumed."""
    old, new = before.phase, after.phase
    if old is new:
        return
    ended = before.control.open if new is Phase.IDLE else None
    opened = ended or after.control.open
    name = None if opened is None else opened.id
    members = {"checkpoint_id": name, "phase": new.value}
    _log.info("phase %s after %s", new.value, old.value, extra=members)
    was_asked = any(isinstance(action, Reply) for action in todo)
    if ended is not None and now >= ended.lease_expires_at and not was_asked:
        text = "checkpoint %s was given up: its lease ran out"
        _log.warning(text, name, extra=members)


def note_leaked(episodes: Iterable[EpisodeId], is_left_out: bool) -> None:  # noqa: FBT001 - an operator's choice
    """Name the episodes of live sessions that a commit's scope does not continue."""
    keys = sorted({episode.capture_key for episode in episodes})
    if not keys:
        return
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    _log.warning(
        "live sessions outside the commit's scope, %s: %s%s",
        "left out" if is_left_out else "in the checkpoint",
        ", ".join(keys[:_NAMED]),
        more,
        extra={"sessions": len(keys), "episodes": keys[:_NAMED]},
    )
