"""Which activation of a session a request asks for: a new one, or the last one again."""

from __future__ import annotations

import re

from typing import Final

import attrs

from ipistate.kernel import EMPTY_OBJECT, JsonObject
from ipistate.protocol.actions import STATUS_OF
from ipistate.protocol.steps.failures import EpisodeRefusal


# Longer ones are out of order anyway, and no integer need be made of them.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")


@attrs.frozen(kw_only=True)
class ActivationLog:
    """What a session has completed; its activations are counted from 1."""

    completed: int = 0
    reply: JsonObject = EMPTY_OBJECT
    """That of the last activation."""

    def take(self, header: str | None) -> int | JsonObject | EpisodeRefusal:
        """Decide about a request by its ``x-ng-agent-activation``.

        Args:
            header: As it was sent; None asks for the next activation.

        Returns:
            The number of the activation to run; or the recorded reply, and nothing is to
            run; or the refusal ``activation_out_of_order``.
        """
        following = self.completed + 1
        if header is None or header == str(following):
            return following
        if self.completed and header == str(self.completed):
            return self.reply
        code = "activation_out_of_order"
        detail = f"activation {_shown(header)} cannot follow {self.completed}"
        return EpisodeRefusal(STATUS_OF[code], code, detail)

    def ended(self, reply: JsonObject) -> ActivationLog:
        """Return the log after one more activation."""
        return ActivationLog(completed=self.completed + 1, reply=reply)


def _shown(header: str) -> str:
    return header if _NUMBER.fullmatch(header) else "that is no number from 1"
