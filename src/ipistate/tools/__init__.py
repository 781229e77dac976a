"""The nine domains and their 97 tools, in one flat name space."""

from ipistate.tools.table import RECORDS, TOOLS
from ipistate.tools.registry import Tool, function_definition, table_of, tool
