"""Short texts of values: bounded, counted, and safe to print and to put into a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel import (
    JsonValue,
    freeze,
    html_table,
    listing,
    record_summary,
    summarized,
    summary,
)
from ipistate.kernel.summaries import (
    HTML_ROWS,
    REPR_LIMIT,
    amount,
    amount_of,
    key_text,
    visible,
)
from ipistate.testing import json_names, json_strings, json_values


HOSTILE = ("\x1b[2J", "\u202e", "\x9b", "a\nb", "<script>", "&amp;", "\ud83d")


@given(json_values(), st.integers(0, 300))
def test_d5_a_summary_is_bounded(value: JsonValue, limit: int) -> None:
    """D5: no summary is longer than its limit, or holds what a terminal obeys."""
    text = summary(value, limit)

    assert len(text) <= limit
    assert text.isprintable()


@given(json_values(max_leaves=4))
def test_d5_a_short_value_is_shown_whole(value: JsonValue) -> None:
    """D5: what is short enough reads as Python prints it; a long integer is not short."""
    whole = repr(value)
    if len(whole) <= REPR_LIMIT and not any(len(one) > 50 for one in whole.split()):
        assert whole == summary(value)


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("x" * 87_526, "x… (87,526 characters)"),
        (b"x" * 300, "x… (300 bytes)"),
        (freeze({f"k{n}": n for n in range(99)}), "… (99 members)"),
        (freeze({"k": "x" * 300}), "… (1 member)"),
        (freeze([[]] * 5_000), "… (5,000 elements)"),
        ((1,) * 500, "… (500 elements)"),
    ],
    ids=["text", "bytes", "object", "one member", "array", "tuple"],
)
def test_d5_a_cut_value_says_how_large_it_is(value: object, end: str) -> None:
    """D5: what does not fit ends with its size."""
    assert summary(value).endswith(end)
    assert len(summary(value)) == REPR_LIMIT


@pytest.mark.parametrize(
    ("value", "text"),
    [((1,), "(1,)"), ((), "()"), ((1, "a"), "(1, 'a')"), (object, repr(object))],
)
def test_other_values_are_shown_as_python_shows_them(value: object, text: str) -> None:
    """A tuple and a value of any other class read as usual."""
    assert text == summary(value)


class Counted(dict[str, int]):
    """An object that counts how many of its members are looked at."""

    looked_at = 0

    def items(self) -> Any:
        """Count the members that are taken."""
        for item in super().items():
            self.looked_at += 1
            yield item


@given(st.integers(1_000, 5_000))
def test_d5_a_summary_looks_at_the_beginning_only(size: int) -> None:
    """D5: the work for a large value does not depend on its size."""
    large = Counted((str(n), n) for n in range(size))
    text = summary(large)

    assert large.looked_at < REPR_LIMIT
    assert len(text) == REPR_LIMIT


@attrs.frozen
class Pair:
    """A record of a user's own."""

    first: object
    second: object = None
    hidden: int = attrs.field(default=0, repr=False)

    __repr__ = summarized()


@given(json_values(), json_values())
def test_d5_a_record_is_bounded(first: JsonValue, second: JsonValue) -> None:
    """D5: a record has at most 200 characters, however large its members are."""
    text = repr(Pair(first, second))

    assert len(text) <= REPR_LIMIT
    assert text.startswith("Pair(first=")


def test_d5_long_members_share_what_short_ones_leave() -> None:
    """D5: a short member stands whole beside a long one, which gets all the rest."""
    text = repr(Pair("x" * 1_000, 7))

    assert text.endswith("x… (1,000 characters), second=7)")
    assert len(text) == REPR_LIMIT
    assert "Pair(first=7, second=None)" == repr(Pair(7))
    assert "Pair()" == record_summary(Pair(1), {})


def test_d5_a_long_name_is_cut() -> None:
    """D5: not even the name of a class makes a representation longer."""
    long: Any = type("K" * 300, (Pair,), {})

    assert len(record_summary(long(1), {"a": 1})) == REPR_LIMIT
    assert len(listing("K" * 300, ("a", "b"), "2 parts")) == REPR_LIMIT


def test_a_listing_shows_as_many_parts_as_fit() -> None:
    """Parts are separated by commas; the total stands where they are cut."""
    assert "World(a, b)" == listing("World", ("a", "b"), "2 parts")
    assert listing("World", map(str, range(99)), "99 parts").endswith("… (99 parts))")


def test_amounts() -> None:
    """A container counts, another value is shown; one of something is no plural."""
    assert ["2", "1", "None"] == [
        amount_of(freeze(v)) for v in ([1, 2], {"a": 1}, None)
    ]
    assert len(amount_of("x" * 100)) <= 30
    assert ["0 rows", "1 row", "1,000 rows"] == [amount(n, "row") for n in (0, 1, 1000)]


@given(json_names())
def test_key_texts_are_words_or_quoted(name: str) -> None:
    """A name that is no plain word stands in quotes, bounded and printable."""
    text = key_text(name)

    assert text == name or text[0] in "'\"…"
    assert len(text) <= 30
    assert text.isprintable()
    assert "7" == key_text(7).strip("'")


@given(json_strings() | st.sampled_from(HOSTILE))
def test_visible_text_commands_nothing(text: str) -> None:
    """Whatever is not printable is written as an escape, and the rest stays."""
    shown = visible(text)

    assert shown.isprintable()
    assert shown == text or not text.isprintable()


class Page(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, and begin its text."""
        assert {name for name, _ in attrs} <= {"colspan"}
        self.tags.add(tag)
        self.cells.append("")

    def handle_data(self, data: str) -> None:
        """Add to a text."""
        self.cells[-1] += data


def read(page: str) -> Page:
    """Read a page."""
    reader = Page()
    reader.feed(page)
    reader.close()
    return reader


@given(
    st.lists(
        st.lists(json_strings() | st.sampled_from(HOSTILE), min_size=2, max_size=2),
        max_size=4,
    )
)
def test_d5_no_text_becomes_markup(rows: list[list[str]]) -> None:
    """D5: a page has the tags of a table and no others, whatever the texts are."""
    page = read(html_table("<b>title</b>", ("one", "<i>"), rows, len(rows)))
    texts = [text for row in rows for text in row]

    assert page.tags <= {"table", "caption", "tr", "th", "td"}
    assert "<b>title</b>" in page.cells
    assert {visible(text) for text in texts if len(text) <= 300} <= {*page.cells}


def test_d5_a_table_is_bounded() -> None:
    """D5: a table takes no more rows and characters than it may, and counts the rest."""
    taken: list[int] = []

    def rows() -> Any:
        for number in range(10_000):
            taken.append(number)
            yield (str(number), "x" * 1_000)

    page = html_table("rows", ("number", "text"), rows(), 10_000)

    assert len(taken) == HTML_ROWS
    assert "… and 9,950 more" in page
    assert len(page) < HTML_ROWS * 400
