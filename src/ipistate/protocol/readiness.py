"""Whether the frozen state can be committed, and what stands in the way."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import JsonObject


MAX_BLOCKERS: Final = 100


@attrs.frozen(kw_only=True)
class Readiness:
    """Readiness of a participant (docs/reference/control-plane.md, sections 2.9 and 3.5).

    ``blockers`` are the capture keys of episodes whose state is still being freed.
    """

    inflight: int
    sessions: int
    blockers: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Nothing runs and nothing blocks."""
        return not self.inflight and not self.blockers

    def to_document(self) -> JsonObject:
        """Write the report as replies show it; the list of blockers is capped."""
        return JsonObject(
            {
                "ready": self.ready,
                "blockers": self.blockers[:MAX_BLOCKERS],
                "blocker_count": len(self.blockers),
                "counts": {"inflight": self.inflight, "sessions": self.sessions},
                "restarts": (),
            }
        )
