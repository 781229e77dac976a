"""What a checkpoint keeps of an episode on the agent's side: a value with a codec. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ipistate.agents.conversation import Conversation
from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonObject,
    adopt_members,
    encode,
    structure,
    unstructure,
)


if TYPE_CHECKING:
    from ipistate.kernel import Adopt


@attrs.frozen(kw_only=True)
class AgentState:
    """An episode at a turn boundary."""

    schema_version: int = attrs.field(default=1, validator=attrs.validators.in_([1]))
    conversation: Conversation = attrs.field(factory=Conversation)
    cookies: JsonObject = EMPTY_OBJECT
    """The cookies that the server has set; they name the session."""


class AgentStateCodec:
    """Carries episodes in the records of a checkpoint directory."""

    def encode(self, state: AgentState) -> bytes:
        """Write an episode as compact JSON."""
        return encode(unstructure(state))

    def decode(self, tree: Any, adopt: Adopt) -> AgentState:
        """Read what ``encode`` has written.

        Raises:
            SchemaError: It is something else.
        """
        return structure(adopt_members(tree, adopt), AgentState)
