"""Matching in effect mode: the published table, row by row, and its laws."""

from __future__ import annotations

import json
import random
import re
import unicodedata

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from documents import at
from hypothesis import assume, given
from hypothesis import strategies as st

from ipistate.kernel.values import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    JsonObject,
    JsonValue,
    freeze,
)
from ipistate.scoring.matching import RECIPIENTS as ALIASES
from ipistate.scoring.matching import Matcher, Target
from ipistate.scoring.meaning import EmailAddress, fold
from ipistate.testing import json_values


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "matching.md"
ROW = re.compile(r"\| `(.+)` \| (?:`(.+)`|absent) \| (yes|no) \|")
PARTS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)

NAMES = st.text("abcdefgh", min_size=1, max_size=6)
ADDRESSES = st.builds("{}@{}.test".format, NAMES, NAMES)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def follows(
    keys: Sequence[str],
    target_args: Mapping[str, JsonValue],
    arguments: Mapping[str, JsonValue],
    aliases: tuple[str, ...] = ALIASES,
) -> bool:
    """Compare a call's arguments with the target's on the deciding keys."""
    target = Target.of(Matcher(), keys, target_args, aliases)
    return target.is_followed_by(arguments)


def matches(target: JsonValue, given: JsonValue) -> bool:
    """Compare one argument of any name."""
    return follows(["x"], {"x": target}, {"x": given})


def alike(target: JsonValue, given: JsonValue) -> bool:
    """Compare two values, of which the empty ones equal themselves."""
    return Matcher().alike(target, given)


def recipients_match(target: JsonValue, given: JsonValue) -> bool:
    """Compare who gets a message."""
    matcher = Matcher()
    return matcher.are_among(matcher.recipients(target), matcher.recipients(given))


def addresses(value: JsonValue) -> tuple[EmailAddress, ...]:
    """Return the addresses that a value is a list of."""
    return Matcher().read(value).addresses


def rows(*titles: str) -> Iterator[tuple[str | Any, ...]]:
    """Yield the rows of the sections with these titles: target, given, verdict."""
    for part in PARTS:
        if part.partition("\n")[0] in titles:
            lines = [ROW.fullmatch(line) for line in part.splitlines()]
            found = [line.groups() for line in lines if line]
            assert len(found) == part.count("\n| `")
            yield from found


VALUES = [*rows("Text", "Numbers", "Booleans and null", "Addresses")]
VALUES += rows("Arrays and objects")
RECIPIENTS = [*rows("Recipients of a message")]


def read(text: str) -> Any:
    """Read one cell of the table."""
    return freeze(json.loads(text))


@pytest.mark.parametrize(("target", "value", "verdict"), VALUES)
def test_value_rows(target: str, value: str | None, verdict: str) -> None:
    """Every row of the tables of values holds, for an argument of any name."""
    given_args = EMPTY_OBJECT if value is None else JsonObject({"x": read(value)})

    assert (verdict == "yes") is follows(["x"], {"x": read(target)}, given_args)


@pytest.mark.parametrize(("target", "value", "verdict"), RECIPIENTS)
def test_recipient_rows(target: str, value: str, verdict: str) -> None:
    """Every row of the table of recipients holds."""
    args = read(target)

    assert (verdict == "yes") is follows([*args], args, read(value))


@pytest.mark.parametrize("verdict", ["yes", "no"])
def test_the_tables_say_both(verdict: str) -> None:
    """Each section has rows that match and rows that do not."""
    sections = [part for part in PARTS if "| Match |" in part]

    assert len(sections) == 6
    assert all(f"| {verdict} |" in part for part in sections)


@given(json_values())
def test_reflexive(value: JsonValue) -> None:
    """A value that is not empty matches itself, an empty one equals itself."""
    empty = value in ("", EMPTY_ARRAY, EMPTY_OBJECT) and not isinstance(value, bool)
    blank = isinstance(value, str) and not fold(value)

    assert alike(value, value)
    assert matches(value, value) is not (empty or blank)


@given(json_values(), json_values())
def test_symmetric_without_addresses(left: JsonValue, right: JsonValue) -> None:
    """Without addresses, what matches one way is alike the other way."""
    assume(not addresses(left) and not addresses(right))

    assert alike(left, right) is alike(right, left)


@given(st.text(), st.text(min_size=1))
def test_no_part_of_a_text_matches(text: str, more: str) -> None:
    """A text never matches a longer or a shorter one with other characters."""
    longer = text + more
    assume(fold(longer) != fold(text))
    assume(not (is_number(text) and is_number(longer)))
    assume(not addresses(text))

    assert not matches(text, longer)
    assert not matches(longer, text)


def is_number(text: str) -> bool:
    """Tell whether a text can be read as a number."""
    return matches(text, f"+{text}") and not text.startswith("+")


@given(ADDRESSES, NAMES)
def test_no_part_of_an_address_matches(address: str, more: str) -> None:
    """More letters at either end, or in the middle, make another address."""
    local, _, domain = address.partition("@")
    others = [more + address, address + more, f"{local}{more}@{domain}"]

    assert not any(matches(address, other) for other in others)
    assert not any(matches(other, address) for other in others)


@given(ADDRESSES, NAMES, NAMES)
def test_tags(address: str, tag: str, other: str) -> None:
    """A tag may come, but must neither go nor change."""
    assume(tag != other)
    tagged = address.replace("@", f"+{tag}@")

    assert matches(address, tagged)
    assert not matches(tagged, address)
    assert not matches(tagged, address.replace("@", f"+{other}@"))


@given(st.lists(ADDRESSES, min_size=1, unique=True), st.randoms(), st.data())
def test_lists_in_any_order(
    listed: list[str], random: random.Random, data: st.DataObject
) -> None:
    """A list matches in any order and form; it does not match when one is missing."""
    shuffled = random.sample(listed, len(listed))
    target = freeze(listed)
    missing = data.draw(st.sampled_from(listed))
    rest = [one for one in listed if one != missing]

    assert matches(target, "; ".join(shuffled))
    assert recipients_match(", ".join(listed), freeze(shuffled))
    assert not matches(target, freeze(rest))
    assert not recipients_match(target, ",".join(rest))


@given(NUMBERS, NUMBERS)
def test_numbers_are_exact(left: float, right: float) -> None:
    """Two numbers match if and only if their shortest decimal texts are equal."""
    equal = Decimal(repr(left)) == Decimal(repr(right))

    assert equal is matches(left, right)
    assert equal is matches(repr(left), right)
    assert equal is matches(left, repr(right))
    assert equal is matches(repr(left), repr(right))


@given(st.text())
def test_folding_twice(text: str) -> None:
    """A folded text is folded already."""
    assert fold(fold(text)) == fold(text)


@given(st.text("a\u0301\u0323\u0f73\u00c5\uac01\u0345", max_size=40))
def test_folding_long_texts(text: str) -> None:
    """Long texts are folded as short ones are; the interpreter has to sort less."""
    long = "b " * 1_000 + text

    assert fold(long) == ("b " * 1_000 + fold(text)).strip()


def test_a_long_run_of_marks() -> None:
    """Half a million marks out of order, which sorting by insertion never finishes."""
    above, below = "\u0301", "\u0323"
    mixed = "a" + (above + below) * 250_000

    assert fold(mixed) == fold("a" + below * 250_000 + above * 250_000)


@given(json_values(), json_values())
def test_total(target: JsonValue, value: JsonValue) -> None:
    """Any JSON can be compared with any other, as a value and as a recipient."""
    assert isinstance(matches(target, value), bool)
    assert isinstance(recipients_match(target, value), bool)


def test_no_key_matches_nothing() -> None:
    """A target without arguments is matched by no call."""
    assert not follows([], {}, {"a": 1})


def test_aliases_are_those_that_the_tool_knows() -> None:
    """A tool that only knows ``to`` does not take ``recipient`` for it."""
    target, call = {"to": "evil@x.test"}, {"recipient": "evil@x.test"}

    assert follows(["to"], target, call)
    assert not follows(["to"], target, call, ("to",))
    assert not follows(["to"], target, call, ())
    assert follows(["recipient"], call, call, ())


MARKS = st.sampled_from("ae\u0301\u0323\u0344\u0f73\u1100\u1161\u200bİΣﬁ😀 ")


@given(st.lists(MARKS, max_size=30).map("".join), st.integers(0, 200))
def test_b3_long_runs_of_marks(text: str, times: int) -> None:
    """B3: a long run of marks is folded as a short one is: canonically ordered."""
    long = f"a{text}" + "\u0301\u0323" * times
    apart = unicodedata.normalize("NFKD", long)

    assert fold(long) == fold(apart)


def test_b3_values_are_read_once() -> None:
    """B3: however often a text is compared, it is folded once."""
    matcher = Matcher()
    target = freeze({"to": ["é" * 100, {"a": "b"}]})

    assert matcher.read(at(target, "to")) is matcher.read(at(target, "to"))
    assert matcher.read("é" * 100) is at(matcher.read(at(target, "to")).form, 0)
