"""What a policy is: a function from a conversation and tools to the next output items.

A policy keeps nothing between turns, so an episode that is recovered from a checkpoint
goes on as if nothing had happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

from ipistate.errors import DataError


if TYPE_CHECKING:
    from collections.abc import Sequence

    from ipistate.kernel import JsonObject

LENGTH: Final = "max_output_tokens"
"""Why a reply is incomplete: it is as long as it may be."""

FILTERED: Final = "content_filter"
"""Why a reply is incomplete: a filter has stopped it."""


@attrs.frozen
class Usage:
    """Tokens that one reply has cost; 0 where they were not counted."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )


@attrs.frozen(kw_only=True)
class PolicyReply:
    """What a policy answers in one turn."""

    items: tuple[JsonObject, ...]
    """Items of the Responses API; an episode is over when none is a function call."""
    usage: Usage = Usage()
    incomplete_reason: str | None = None
    """``max_output_tokens`` or ``content_filter`` if the reply is cut short."""
    model: str = ""
    """Name of the model as the endpoint gives it."""


class Policy(Protocol):
    """What plays the agent."""

    @property
    def name(self) -> str:
        """The name that results carry."""
        ...

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Return the next items of a conversation.

        Args:
            conversation: The input messages, then every output item so far (messages,
                reasoning, function calls and their outputs).
            tools: The definitions of the tools that are offered.

        Raises:
            PolicyError: There is no reply; the rollout is masked, never scored.
        """
        ...


class PolicyError(DataError):
    """A policy cannot reply: the infrastructure has failed, not the agent.

    The code names the cause, such as ``endpoint_unreachable``, ``endpoint_timeout``,
    ``rate_limited``, ``endpoint_refused`` or ``malformed_reply``.
    """
