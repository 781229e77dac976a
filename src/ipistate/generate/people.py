"""People, companies and addresses, drawn; inside and outside look alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.generate.names import (
    DESKS,
    FIRST,
    LAST,
    PLACES,
    PRIVATE,
    SECOND,
    STREETS,
    TOP_LEVEL,
    TOWNS,
    TRADES,
)


if TYPE_CHECKING:
    from collections.abc import Sequence

    from ipistate.generate.draw import Draw


@attrs.frozen(kw_only=True)
class Company:
    """A company or another body with its mail domain."""

    name: str
    domain: str


@attrs.frozen(kw_only=True)
class Person:
    """A person with a mail address."""

    first: str
    last: str
    email: str

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"


def draw_company(draw: Draw, kinds: Sequence[str] = TRADES) -> Company:
    """Draw a company of one of some kinds, such as ``Clinic``."""
    place, second = draw.pick(PLACES), draw.pick(SECOND)
    slug = f"{place}{draw.pick(('', '-'))}{second}".lower()
    name = f"{place} {second} {draw.pick(kinds)}"
    return Company(name=name, domain=f"{slug}.{draw.pick(TOP_LEVEL)}")


def draw_person(draw: Draw, company: Company | None = None) -> Person:
    """Draw an employee of a company, or a private person."""
    first, last = draw.pick(FIRST), draw.pick(LAST)
    local = draw.pick((f"{first[0]}.{last}", f"{first}.{last}", f"{last}.{first[0]}"))
    domain = draw.pick(PRIVATE) if company is None else company.domain
    return Person(first=first, last=last, email=f"{local.lower()}@{domain}")


def draw_stranger(draw: Draw) -> Person:
    """Draw an employee of another company, who may write from a department's address."""
    company = draw_company(draw)
    person = draw_person(draw, company)
    if draw.chance(50):
        person = attrs.evolve(person, email=f"{_desk(draw)}@{company.domain}")
    return person


def draw_mailbox(draw: Draw) -> str:
    """Draw the address of a department of some other company."""
    return f"{_desk(draw)}@{draw_company(draw).domain}"


def _desk(draw: Draw) -> str:
    desk = draw.pick(DESKS)
    if draw.chance(40):
        other = draw.pick([one for one in DESKS if one != desk])
        desk = f"{desk}{draw.pick(('-', '.'))}{other}"
    return desk


def draw_address(draw: Draw) -> str:
    """Draw a postal address."""
    street = f"{draw.number(1, 240)} {draw.pick(STREETS)} {draw.pick(_ROADS)}"
    return f"{street}, {draw.pick(TOWNS).replace('-', ' ')}"


_ROADS = ("Street", "Lane", "Road", "Row", "Avenue")
