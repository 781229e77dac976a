"""A world while it is made: rows that are put into it, and the people it is about.

People, companies and addresses are drawn; inside and outside look alike.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

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
from ipistate.kernel import JsonObject, JsonValue, encode, with_member


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ipistate.generate.draw import Draw
    from ipistate.tools import Row

T = TypeVar("T")

Shape: TypeAlias = Literal["table", "array", "arrays", "mail"]
"""Of a collection: rows by id, a list of rows, lists of rows by id; mail is one of the
first two, as the world is drawn."""

_MAIL: Final[tuple[Shape, ...]] = ("array", "table")
_FIRST_DAY: Final = date(2024, 1, 8).toordinal()
_DAYS: Final = 1_000
_QUOTING: Final = 3
"""Bytes of quotes and a colon around a key."""
_ROADS: Final = ("Street", "Lane", "Road", "Row", "Avenue")


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


@attrs.define
class DraftRow:
    """A row in a world that is being made; its texts may still change."""

    key: str
    row: JsonObject

    def __getitem__(self, member: str) -> str:
        """Return a member as text, for wordings; a list with commas."""
        value = self.row[member]
        parts = value if isinstance(value, list) else (value,)
        return ", ".join(map(str, parts))

    def set(self, member: str, value: JsonValue) -> None:
        """Change a member."""
        self.row = with_member(self.row, member, value)


class WorldDraft:
    """Where a domain puts its rows. Names and ids are drawn without repetition."""

    def __init__(
        self,
        draw: Draw,
        shapes: Mapping[str, Shape],
        kinds: Sequence[str],
        roles: Sequence[str],
    ) -> None:
        """Begin an empty world.

        Args:
            draw: The source of all choices.
            shapes: Collections of the world.
            kinds: Of companies where it may take place.
            roles: Of the user.
        """
        self.draw: Final = draw
        self.company: Final = draw_company(draw, kinds)
        self._shapes = {
            name: draw.pick(_MAIL) if shape == "mail" else shape
            for name, shape in shapes.items()
        }
        self._entries: dict[str, list[DraftRow]] = {name: [] for name in shapes}
        self._used: set[str] = set()
        self._today = _FIRST_DAY + draw.below(_DAYS)
        self.user: Final = self.colleague()
        self.role: Final = draw.pick(roles)
        self.size: int = len(encode(self._framed({name: [] for name in shapes})))
        """Bytes of JSON that the world has, or a few less."""

    def put(self, collection: str, row: Row) -> DraftRow:
        """Add a typed row under its id, which is its first member."""
        document = row.to_document()
        return self._add(collection, str(next(iter(document.values()))), document)

    def post(self, collection: str, key: str = "", /, **members: object) -> DraftRow:
        """Add a row that has no type: a message, a result listed under ``key``."""
        return self._add(collection, key, JsonObject(members))

    def message(
        self, collection: str, addresses: tuple[str, str], /, **members: object
    ) -> DraftRow:
        """Add a message from one address to another, with subject, body and more."""
        sender, receiver = addresses
        sent = {"from": sender, "to": receiver, **members, "timestamp": self.day(-9, 0)}
        key = self.new_id("MSG-")
        if self._shapes[collection] == "table":
            sent = {"message_id": key, **sent}
        return self._add(collection, key, JsonObject(sent))

    def _add(self, collection: str, key: str, row: JsonObject) -> DraftRow:
        entry = DraftRow(key, row)
        self._entries[collection].append(entry)
        keyed = len(key) + _QUOTING if self._shapes[collection] == "table" else 0
        self.size += len(encode(row)) + keyed
        return entry

    def entries(self, collection: str) -> Sequence[DraftRow]:
        """Return the rows so far."""
        return self._entries[collection]

    def new_id(self, prefix: str, digits: int = 5) -> str:
        """Draw an id that nothing in this world has."""
        return self._unused(lambda: f"{prefix}{self.draw.digits(digits)}", str)

    def person(self) -> Person:
        """Draw a client, who may write from work, whose name is new here."""
        if self.draw.chance(30):
            return self.outsider()
        return self._unused(lambda: draw_person(self.draw), _name)

    def colleague(self) -> Person:
        """Draw a person who works here."""
        return self._unused(lambda: draw_person(self.draw, self.company), _name)

    def member(self) -> Person:
        """Draw a person who belongs here, and may work elsewhere."""
        return self.outsider() if self.draw.chance(20) else self.colleague()

    def outsider(self) -> Person:
        """Draw a person who works for another company."""
        return self._unused(lambda: draw_stranger(self.draw), _name)

    def _unused(self, make: Callable[[], T], name: Callable[[T], str]) -> T:
        while name(found := make()) in self._used:
            pass
        self._used.add(name(found))
        return found

    def mailbox(self) -> str:
        """Draw the address of a department of another company."""
        return f"{_desk(self.draw)}@{draw_company(self.draw).domain}"

    def address(self) -> str:
        """Draw a postal address that nothing here has."""
        return self._unused(lambda: draw_address(self.draw), str)

    def day(self, low: int, high: int) -> str:
        """Draw a date between ``low`` and ``high`` days from today."""
        return date.fromordinal(self._today + self.draw.number(low, high)).isoformat()

    @property
    def today(self) -> str:
        """The date on which the world takes place."""
        return date.fromordinal(self._today).isoformat()

    def time(self) -> str:
        """Draw a time of day at which an office is open."""
        return (
            f"{self.draw.number(8, 17):02}:{self.draw.pick(('00', '15', '30', '45'))}"
        )

    def world(self) -> JsonObject:
        """Return the world; collections and rows stand in drawn order."""
        members = self._framed({name: self._collection(name) for name in self._shapes})
        names = self.draw.shuffled(members)
        return JsonObject({name: members[name] for name in names})

    def _framed(self, collections: Mapping[str, object]) -> JsonObject:
        user = {"name": self.user.name, "role": self.role, "email": self.user.email}
        return JsonObject({**collections, "current_user": user})

    def _collection(self, name: str) -> object:
        shape = self._shapes[name]
        entries = self.draw.shuffled(self._entries[name])
        if shape == "table":
            return {one.key: one.row for one in entries}
        if shape == "array":
            return [one.row for one in entries]
        lists: dict[str, list[JsonObject]] = {}
        for one in self._entries[name]:
            lists.setdefault(one.key, []).append(one.row)
        return {key: lists[key] for key in dict.fromkeys(e.key for e in entries)}


def _name(person: Person) -> str:
    return person.name
