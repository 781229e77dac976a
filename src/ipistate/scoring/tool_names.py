"""Names of tools as models and harnesses write them, with the prefix of a name space."""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Final

import attrs


if TYPE_CHECKING:
    from collections.abc import Container

_LONGEST: Final = 256
"""Characters of a written name that may have a prefix; each beginning is tried."""

# functions.x, server/x, default_api:x, server-x, mcp__server__x; mcp_server_x.
_BEGINNINGS: Final = re.compile(r"(?<=[./:-])|(?<=__)")
_MCP_BEGINNINGS: Final = re.compile(r"(?<=[./:_-])")
_UNKNOWN: Final = re.compile(
    "unknown|not found|no such|not exist|no tool|(?:not |un)available|not supported"
    "|unsupported|not a valid|invalid (?:tool|function|name)",
    re.IGNORECASE,
)


@attrs.frozen
class KnownNames:
    """Names of tools: those of a table, and those that only a row knows."""

    table: Container[str]
    of_row: Container[str]

    def __contains__(self, name: object) -> bool:
        """Tell whether it is the name of a tool."""
        return isinstance(name, str) and (name in self.table or name in self.of_row)


def tool_name(written: str, known: Container[str], reply: str | None = None) -> str:
    """Return the tool that a call names, without the prefix of a name space.

    A name that is known stays, and so does one whose harness answered that it knows no
    such tool: there the prefix was part of the name, and nothing was executed.

    Args:
        written: The name as it was recorded.
        known: Names of tools.
        reply: What the agent read.
    """
    if written in known or len(written) > _LONGEST:
        return written
    places = _MCP_BEGINNINGS if written.startswith("mcp_") else _BEGINNINGS
    for found in places.finditer(written):
        name = written[found.start() :]
        if name in known:
            return written if _is_refused(written, reply or "") else name
    return written


def _is_refused(written: str, reply: str) -> bool:
    return written in reply and _UNKNOWN.search(reply) is not None
