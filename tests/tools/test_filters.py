"""Filters of the searching tools: when they apply, what they keep, which text comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from documents import at

from ipistate import JsonArray, freeze
from ipistate.kernel.values import JsonValue
from ipistate.tools import filters as f
from ipistate.tools.semantics import Refused


Filter = Callable[[JsonValue], bool]

ROWS = JsonArray([{"n": "Ab", "q": 5}, {"n": "ab c", "q": 10}, {"q": None}, {}])


def kept(*tests: Filter | None, rows: JsonArray = ROWS) -> list[int]:
    """Return the positions of the rows that pass all tests."""
    found = f.select(rows, *tests)
    return [next(i for i, row in enumerate(rows) if row is one) for one in found]


def message(test: Filter | None, row: Any) -> str:
    """Return the text of the refusal that a test answers with."""
    assert test is not None
    with pytest.raises(Refused) as caught:
        test(freeze(row))
    return caught.value.message


def test_select() -> None:
    """Rows that pass every test stay in order and unchanged; no test keeps all."""
    assert [0, 1, 2, 3] == kept()
    assert [0, 1, 2, 3] == kept(None, None)
    assert [1] == kept(f.equals("q", 10), None, f.sub("n", "A"))
    assert JsonArray is type(f.select(iter(ROWS)))


def test_select_stops_at_the_first_test_that_fails() -> None:
    """A row that one filter rejects is not examined by the next."""
    rows = JsonArray([{"a": 1, "n": 5}])

    assert [] == kept(f.eq("a", 2), f.ci("n", "x"), rows=rows)
    assert "'int' object has no attribute 'lower'" == message(
        f.ci("n", "x"), at(rows, 0)
    )


@pytest.mark.parametrize("wanted", [None, "", 0, freeze([]), False])
def test_falsy_arguments_ask_for_nothing(wanted: JsonValue) -> None:
    """A falsy argument makes no filter, except where it only has to be given."""
    makers: tuple[Callable[[], Filter | None], ...] = (
        lambda: f.eq("n", wanted),
        lambda: f.ci("n", wanted),
        lambda: f.ci_field_first("n", wanted),
        lambda: f.sub("n", wanted),
        lambda: f.phrase(wanted, "n"),
        lambda: f.since("n", wanted),
        lambda: f.until("n", wanted),
    )

    assert [None] * len(makers) == [make() for make in makers]
    assert (wanted is None) == (f.eq_given("n", wanted) is None)


def test_equality() -> None:
    """Equality is Python's; a missing member is null."""
    assert [0] == kept(f.eq("q", 5.0))
    assert [2, 3] == kept(f.equals("q", None))
    assert [] == kept(f.equals("q", "5"))
    assert [0] == kept(
        f.eq_given("r", 0), rows=JsonArray([{"r": False}, {"r": None}, {}])
    )


def test_case() -> None:
    """Letter case does not count; a missing member is an empty text."""
    assert [0] == kept(f.ci("n", "AB"), rows=ROWS[:2])
    assert [0] == kept(f.ci_field_first("n", "aB"))
    assert [0, 1] == kept(f.sub("n", "AB"))
    assert [1] == kept(f.sub("n", "b C"))
    assert [] == kept(f.ci("n", "strasse"), rows=JsonArray([{"n": "Straße"}]))
    assert [0] == kept(f.ci("n", "ὈΔΥΣΣΕΎΣ"), rows=JsonArray([{"n": "ὀδυσσεύς"}]))


def test_phrase() -> None:
    """A phrase is in one of the fields, and every field is looked at."""
    rows = JsonArray([{"a": "x", "b": "One Two"}, {"a": "TWO"}, {"b": "o ne"}])

    assert [0, 1] == kept(f.phrase("two", "a", "b"), rows=rows)
    assert [0] == kept(f.phrase("one two", "a", "b"), rows=rows)
    odd = {"a": "two", "b": 5}
    assert "'int' object has no attribute 'lower'" == message(
        f.phrase("two", "a", "b"), odd
    )


@pytest.mark.parametrize(
    ("maker", "expected"),
    [
        (f.ci, "'int' object has no attribute 'lower'"),
        (f.sub, "'int' object has no attribute 'lower'"),
        (f.ci_field_first, "'bool' object has no attribute 'lower'"),
        (
            lambda name, wanted: f.phrase(wanted, name),
            "'int' object has no attribute 'lower'",
        ),
    ],
)
def test_which_side_is_lower_cased_first(
    maker: Callable[..., Filter | None], expected: str
) -> None:
    """If both sides are bad, the text names the one that is lower-cased first."""
    assert expected == message(maker("n", 7), {"n": True})


def test_bounds() -> None:
    """Bounds are inclusive; a missing member has the default."""
    assert [0, 1] == kept(f.at_least("q", 5, 0), rows=ROWS[:2])
    assert [1] == kept(f.at_least("q", 6, 0), rows=ROWS[:2])
    assert [0, 1] == kept(f.at_most("q", 10, 0), rows=ROWS[:2])
    assert [0] == kept(f.at_most("q", 9.5, 0), rows=ROWS[:2])
    assert [3] == kept(
        f.at_most("q", 0, 0),
        f.at_least("q", 0, 0),
        rows=JsonArray([{"q": 1}] * 3 + [{}]),
    )[-1:]


def test_dates() -> None:
    """Dates compare as text; a missing one is before all others."""
    rows = JsonArray([{"d": "2026-01-01"}, {"d": "2026-02-01"}, {}])

    assert [1] == kept(f.since("d", "2026-01-15"), rows=rows)
    assert [0, 2] == kept(f.until("d", "2026-01-15"), rows=rows)
    assert [0] == kept(
        f.since("d", "2026-01-01"), f.until("d", "2026-01-01"), rows=rows
    )


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (
            f.at_least("q", "5", 0),
            "'<' not supported between instances of 'int' and 'str'",
        ),
        (
            f.at_most("q", "5", 0),
            "'>' not supported between instances of 'int' and 'str'",
        ),
        (f.since("q", "5"), "'<' not supported between instances of 'int' and 'str'"),
        (
            f.until("q", freeze([5])),
            "'>' not supported between instances of 'int' and 'list'",
        ),
    ],
)
def test_bounds_of_another_type(test: Callable[..., Any], expected: str) -> None:
    """A comparison that Python refuses names the record's side first."""
    assert expected == message(test, {"q": 5})


def test_rows_that_are_no_objects() -> None:
    """Reading a field of a row that is no object is refused."""
    for test in (f.equals("a", 1), f.ci_field_first("a", "x"), f.at_least("a", 1, 0)):
        assert "'str' object has no attribute 'get'" == message(test, "text")
