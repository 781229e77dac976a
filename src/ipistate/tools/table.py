"""The table of all tools, and the typed rows of all domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.tools import (
    ecommerce,
    education,
    healthcare,
    hr,
    insurance,
    it_helpdesk,
    legal,
    logistics,
    real_estate,
)
from ipistate.tools.messaging import MESSAGING
from ipistate.tools.tool_table import ToolTable, table_of


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.tools.registry import Tool
    from ipistate.tools.row import Records

_GROUPS: Final = (
    healthcare.HEALTHCARE,
    hr.HR,
    ecommerce.ECOMMERCE,
    education.EDUCATION,
    insurance.INSURANCE,
    it_helpdesk.IT_HELPDESK,
    legal.LEGAL,
    logistics.LOGISTICS,
    real_estate.REAL_ESTATE,
    MESSAGING,
)


class _BuiltInTools(ToolTable):
    """The built-in table, which every process has: a pickle only names it."""

    __slots__ = ()

    def __reduce__(self) -> str:  # type: ignore[override]
        return "TOOLS"


TOOLS: Final[Mapping[str, Tool]] = _BuiltInTools(
    table_of(
        [attrs.evolve(one, keeps_depth=True) for group in _GROUPS for one in group]
    )
)
"""Every tool by name; the default table of ``call_tool``."""

RECORDS: Final[Mapping[str, Records]] = {
    "healthcare": healthcare.RECORDS,
    "hr": hr.RECORDS,
    "ecommerce": ecommerce.RECORDS,
    "education": education.RECORDS,
    "insurance": insurance.RECORDS,
    "it_helpdesk": it_helpdesk.RECORDS,
    "legal": legal.RECORDS,
    "logistics": logistics.RECORDS,
    "real_estate": real_estate.RECORDS,
}
"""Typed row classes by domain and collection."""
