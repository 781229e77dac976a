"""One module for each domain, all in the same order: texts, rows, requests, attacks."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ipistate.generate.domains.ecommerce import ECOMMERCE
from ipistate.generate.domains.education import EDUCATION
from ipistate.generate.domains.healthcare import HEALTHCARE
from ipistate.generate.domains.hr import HR
from ipistate.generate.domains.insurance import INSURANCE
from ipistate.generate.domains.it_helpdesk import IT_HELPDESK
from ipistate.generate.domains.legal import LEGAL
from ipistate.generate.domains.logistics import LOGISTICS
from ipistate.generate.domains.real_estate import REAL_ESTATE


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.generate.scene import Domain

_LISTED: Final = (
    HEALTHCARE,
    HR,
    ECOMMERCE,
    EDUCATION,
    INSURANCE,
    IT_HELPDESK,
    LEGAL,
    LOGISTICS,
    REAL_ESTATE,
)

DOMAINS: Final[Mapping[str, Domain]] = MappingProxyType(
    {one.name: one for one in _LISTED}
)
"""The domains by name, in their order."""
