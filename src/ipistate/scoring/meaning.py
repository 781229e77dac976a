"""What a value means in effect mode, not how it is written: the reading of one value.

The rules are the table in ``docs/reference/matching.md``, which the tests read row by
row. A rule may only ever join spellings of one value: no part of a text ever matches.
"""

from __future__ import annotations

import re
import unicodedata

from collections.abc import Hashable, Mapping
from decimal import Decimal
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from ipistate.kernel import JsonValue


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

# Characters that are not seen and that are of no category of their own: together with
# the category Cf, what Unicode calls Default_Ignorable_Code_Point.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_NUMBER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,6})?")
_PARTS: Final = re.compile(r'(?:"[^"]*"|<[^<>]*>|[^,;])+')
_NAMED: Final = re.compile(r'(?:"[^"]*" ?|[^"<>@]*|[^"<>,;]*)<([^<>]*)>')
_COMMENT: Final = re.compile(r" ?\([^()]*\)")
_ESCAPE: Final = re.compile("%([2-7][0-9a-f])")
_MAILBOX: Final = re.compile(
    r"""([^\s@,;<>"()+]+)(?:\+([^\s@,;<>"()]*))?@([^\s@,;<>"()?]+)"""
)
_MAILTO: Final = "mailto:"
# Combining marks are no letters, so a long run of them is a long run of what is none.
_LONG_RUN: Final = re.compile(r"[^\w\x00-\x7f]{64}")


@attrs.frozen
class EmailAddress:
    """An e-mail address without its display name."""

    mailbox: str
    tag: str | None
    """What follows the first ``+`` of the local part."""
    domain: str


def fold(text: str) -> str:
    """Write a text so that equal ones look equal.

    Unseen characters go, compatibility forms and case are folded (NFKC), white space
    is trimmed and collapsed.
    """
    seen = text
    if not text.isascii():
        shown = (c for c in text if unicodedata.category(c) != "Cf")
        seen = _composed(_UNSEEN.sub("", "".join(shown)))
    return " ".join(_composed(seen.casefold()).split())


def _composed(text: str) -> str:
    # The interpreter sorts a run of combining marks by insertion, in quadratic time.
    if _LONG_RUN.search(text):
        text = "".join(_in_order(text))
    return unicodedata.normalize("NFKC", text)


def _in_order(text: str) -> Iterator[str]:
    apart = chain.from_iterable(unicodedata.normalize("NFKD", c) for c in text)
    for _, run in groupby(apart, lambda c: unicodedata.combining(c) > 0):
        yield from sorted(run, key=unicodedata.combining)


_Form: TypeAlias = (
    "bool | Decimal | str | tuple[Meaning, ...] | dict[str, Meaning] | None"
)


@attrs.frozen(eq=False)
class Meaning:
    """What a value means, read once, however often it is compared."""

    form: _Form
    """The value itself, its number, its folded text, or the meanings of its parts."""
    addresses: tuple[EmailAddress, ...] = ()
    """If it is one e-mail address or a list of them."""

    @property
    def is_empty(self) -> bool:
        """Whether it is an empty text, array or object."""
        return isinstance(self.form, str | tuple | dict) and not self.form

    @cached_property
    def tags(self) -> Mapping[tuple[str, str], frozenset[str | None]]:
        """The tags of the addresses, by mailbox and domain."""
        found: dict[tuple[str, str], set[str | None]] = {}
        for one in self.addresses:
            found.setdefault((one.mailbox, one.domain), set()).add(one.tag)
        return {where: frozenset(tags) for where, tags in found.items()}

    @cached_property
    def key(self) -> Hashable:
        """Equal for two meanings if, and only if, each of them agrees with the other."""
        form = self.form
        if self.addresses:
            # Mail to a tag is mail to the mailbox, too.
            return frozenset((w, t - {None} or t) for w, t in self.tags.items())
        if isinstance(form, tuple):
            return list, tuple(part.key for part in form)
        if isinstance(form, dict):
            return dict, frozenset((name, part.key) for name, part in form.items())
        # With its type, because 1 equals True.
        return type(form), form


def meaning(value: JsonValue, read: Callable[[JsonValue], Meaning]) -> Meaning:
    """Read a value; its parts are read by ``read``, which may remember them."""
    if isinstance(value, bool | None):
        return Meaning(value)
    if isinstance(value, dict):
        return Meaning({name: read(member) for name, member in value.items()})
    if isinstance(value, list):
        parts = tuple(map(read, value))
        return Meaning(parts, _joined([part.addresses for part in parts]))
    if isinstance(value, str):
        text = fold(value)
        number = _number(text)
        return Meaning(text if number is None else number, _listed(text))
    return Meaning(Decimal(value) if isinstance(value, int) else Decimal(repr(value)))


def covers(
    wanted: Mapping[tuple[str, str], AbstractSet[str | None]],
    given: Mapping[tuple[str, str], AbstractSet[str | None]],
) -> bool:
    """Tell whether mail to the given addresses is mail to each of the wanted ones.

    An address without a tag gets the mail to any tag.
    """
    if not wanted.keys() <= given.keys():
        return False
    return all(
        tag is None or tag in given[where]
        for where, tags in wanted.items()
        for tag in tags
    )


def _joined(lists: list[tuple[EmailAddress, ...]]) -> tuple[EmailAddress, ...]:
    if len(lists) == 1:
        return lists[0]
    return tuple(chain.from_iterable(lists)) if all(lists) else ()


def _listed(text: str) -> tuple[EmailAddress, ...]:
    if "@" not in text and "%" not in text:
        return ()  # an escape may stand for the sign
    parts = [_address(part) for part in parts_of(text)]
    listed = tuple(one for one in parts if one is not None)
    if len(listed) == len(parts):
        return listed
    whole = _address(text)  # a name or a subject may contain a comma
    return () if whole is None else (whole,)


def _address(text: str) -> EmailAddress | None:
    bare = _COMMENT.sub("", text).strip()
    named = _NAMED.fullmatch(bare)
    bare = named[1].strip() if named else bare
    if bare.startswith(_MAILTO):
        bare = bare.removeprefix(_MAILTO).partition("?")[0]
        bare = fold(_ESCAPE.sub(lambda code: chr(int(code[1], 16)), bare))
    found = _MAILBOX.fullmatch(bare)
    return None if found is None else EmailAddress(*found.groups())


def parts_of(text: str) -> list[str]:
    """Split a folded list of recipients at its commas and semicolons."""
    return [part.strip() for part in _PARTS.findall(text) if part.strip()]


def _number(text: str) -> Decimal | None:
    return Decimal(text) if _NUMBER.fullmatch(text) else None
