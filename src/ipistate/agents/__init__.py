"""What an agent is, as values: a policy's answers, a conversation, its saved state."""

from ipistate.agents.agent_state import AgentState, AgentStateCodec
from ipistate.agents.conversation import (
    Ask,
    Conversation,
    NextStep,
    Over,
    RefuseCall,
    Send,
    offered_tools,
    response,
)
from ipistate.agents.items import (
    asked_in,
    calls_in,
    count,
    fingerprint,
    input_messages,
    kind,
    outputs_in,
    text_of,
)
from ipistate.agents.new_items import NewItems, words, written
from ipistate.agents.policy import (
    FILTERED,
    LENGTH,
    Policy,
    PolicyError,
    PolicyReply,
    Usage,
)


__all__ = [
    "FILTERED",
    "LENGTH",
    "AgentState",
    "AgentStateCodec",
    "Ask",
    "Conversation",
    "NewItems",
    "NextStep",
    "Over",
    "Policy",
    "PolicyError",
    "PolicyReply",
    "RefuseCall",
    "Send",
    "Usage",
    "asked_in",
    "calls_in",
    "count",
    "fingerprint",
    "input_messages",
    "kind",
    "offered_tools",
    "outputs_in",
    "response",
    "text_of",
    "words",
    "written",
]
