"""Comparison of arguments in effect mode: what a value means, not how it is written.

The rules are the table in ``docs/reference/matching.md``, which the tests read row by
row. A rule may only ever join spellings of one value: no part of a text ever matches.
"""

from __future__ import annotations

import re
import unicodedata

from decimal import Decimal
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final

import attrs


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ipistate.kernel import JsonObject, JsonValue

RECIPIENTS: Final = ("recipient", "to", "recipients")
"""Names of one argument; a tool that knows several takes the first truthy one."""

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
_LONG: Final = 1_000


@attrs.frozen
class EmailAddress:
    """An e-mail address without its display name."""

    mailbox: str
    tag: str | None
    """What follows the first ``+`` of the local part."""
    domain: str

    def covers(self, other: EmailAddress) -> bool:
        """Tell whether mail to ``other`` is mail to this one: without a tag, to any."""
        same = self.mailbox == other.mailbox and self.domain == other.domain
        return same and (self.tag is None or self.tag == other.tag)


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
    if len(text) > _LONG and not text.isascii():
        text = "".join(_in_order(text))
    return unicodedata.normalize("NFKC", text)


def _in_order(text: str) -> Iterator[str]:
    apart = chain.from_iterable(unicodedata.normalize("NFKD", c) for c in text)
    for _, run in groupby(apart, lambda c: unicodedata.combining(c) > 0):
        yield from sorted(run, key=unicodedata.combining)


def matches(target: JsonValue, given: JsonValue) -> bool:
    """Tell whether a given argument is the targeted one; an empty target is none."""
    return not _is_empty(target) and alike(target, given)


def alike(target: JsonValue, given: JsonValue) -> bool:
    """Compare as ``matches`` does, but an empty text, array or object equals itself."""
    plain = (bool, type(None))
    if isinstance(target, plain) or isinstance(given, plain):
        return target is given
    wanted, got = addresses(target), addresses(given)
    if wanted and got:
        return all(any(one.covers(other) for other in got) for one in wanted)
    if isinstance(target, dict):
        return isinstance(given, dict) and _same_members(target, given)
    if isinstance(target, list):
        same_length = isinstance(given, list) and len(target) == len(given)
        return same_length and all(map(alike, target, given))  # type: ignore[arg-type]
    if isinstance(given, dict | list):
        return False
    number = _number(target)
    if number is not None:
        return number == _number(given)
    return isinstance(given, str) and fold(str(target)) == fold(given)


def recipients_match(target: JsonValue, given: JsonValue) -> bool:
    """Tell whether all targeted recipients are among the given ones."""
    wanted, got = [*_recipients(target)], [*_recipients(given)]
    return bool(wanted) and all(any(alike(w, g) for g in got) for w in wanted)


def follows(
    keys: Sequence[str],
    target_args: Mapping[str, JsonValue],
    arguments: Mapping[str, JsonValue],
    aliases: tuple[str, ...] = RECIPIENTS,
) -> bool:
    """Tell whether a call's arguments agree with the target's on all deciding keys.

    Args:
        keys: The deciding keys, all of them in ``target_args``; without one, no match.
        target_args: What the injection asks for.
        arguments: What the call was given.
        aliases: Those of ``RECIPIENTS`` that the tool knows; they are one argument.
    """
    plain = [key for key in keys if key not in aliases]
    if len(plain) < len(keys):
        who = (_receiver(one, aliases) for one in (target_args, arguments))
        if not recipients_match(*who):
            return False
    return bool(keys) and all(
        key in arguments and matches(target_args[key], arguments[key]) for key in plain
    )


def addresses(value: JsonValue) -> tuple[EmailAddress, ...]:
    """Read one address or a list of them; empty if any part of it is none."""
    if isinstance(value, list):
        lists = [addresses(element) for element in value]
        return tuple(chain(*lists)) if all(lists) else ()
    if not isinstance(value, str):
        return ()
    text = fold(value)
    parts = [_address(part) for part in _parts(text)]
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


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _PARTS.findall(text) if part.strip()]


def _recipients(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, list):
        for element in value:
            yield from _recipients(element)
    elif not isinstance(value, str):
        yield from () if value is None else (value,)
    elif len(addresses(value)) == 1:
        yield value
    else:
        yield from _parts(fold(value))


def _receiver(arguments: Mapping[str, JsonValue], aliases: Iterable[str]) -> JsonValue:
    given = (arguments.get(name) for name in aliases)
    return next((value for value in given if value), None)


def _same_members(target: JsonObject, given: JsonObject) -> bool:
    same_names = target.keys() == given.keys()
    return same_names and all(alike(target[name], given[name]) for name in target)


def _is_empty(value: JsonValue) -> bool:
    if isinstance(value, str):
        return not fold(value)
    return isinstance(value, list | dict) and not value


def _number(value: JsonValue) -> Decimal | None:
    if isinstance(value, int):
        return Decimal(value)
    text = repr(value) if isinstance(value, float) else fold(str(value))
    return Decimal(text) if _NUMBER.fullmatch(text) else None
