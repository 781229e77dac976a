"""Strategies for JSON values, with the corner cases that break round trips."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from ipistate.kernel import MAX_DEPTH, JsonObject, JsonValue, freeze
from ipistate.testing.concise import concise


if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_NUMBERS: Final = (
    *(0.0, -0.0, 1.0, -1.0, 1e-07, 1e-05, 1e15, 1e16, 1e22, 2.0**53, 0.1, 2.5),
    *(5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308),
    *(0, 1, -1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1),
    *(2**64 - 1, 2**64, 36893488147419103233, -(10**400), 10**4299),
)
_STRINGS: Final = (
    *(
        "",
        " ",
        "a\u2028b\u0085c\u2029",
        "\x00\x1f\x7f",
        '"\\/',
        "\r\n\t\b\f",
        "\x1c\x1d",
    ),
    *("\ud800", "\udfff", "tail \ud83d", "\ude00\ud83d", "\ufeff", "\uffff", "😀", "ﬀ"),
    *("İ", "ß", "ΑΣ", "é", "e\u0301", "\u0661\u0660\u0660"),
    *("null", "NaN", "5", "1e-07", "True"),
    *("P-1", "x" * 600, "é" * 600, "x" * 599 + "\x7f"),
)
_NAMES: Final = (
    *("", "$", "a.b", 'a"b', "a\\b", "a\nb", " ", "__proto__", "__class__", "\ud83d"),
    *("0", "true", "\u2028", "é", "\x7f", "P-1", "key with a space", "k" * 300),
)


@cache
def json_numbers() -> SearchStrategy[float]:
    """Integers of any size and finite floats."""
    floats = st.floats(allow_nan=False, allow_infinity=False)
    return concise(st.one_of(st.sampled_from(_NUMBERS), st.integers(), floats))


@cache
def json_strings() -> SearchStrategy[str]:
    """Any text, unpaired surrogates and control characters included."""
    wild = st.text(st.characters(), max_size=12)
    odd = st.sampled_from(_STRINGS)
    return concise(st.one_of(st.text(max_size=12), wild, odd))


@cache
def json_names() -> SearchStrategy[str]:
    """Names of object members, plain and odd."""
    plain = st.text("abcdefgh_", min_size=1, max_size=6)
    return concise(st.one_of(plain, json_strings(), st.sampled_from(_NAMES)))


@cache
def plain_json(max_leaves: int = 20, max_depth: int = MAX_DEPTH) -> SearchStrategy[Any]:
    """JSON as plain Python data: ``dict`` and ``list``, not frozen.

    Args:
        max_leaves: About how many scalars a value has.
        max_depth: How many containers are nested at most.
    """
    scalars = st.one_of(st.none(), st.booleans(), json_numbers(), json_strings())
    bushes = st.recursive(scalars, _containers, max_leaves=max_leaves)
    towers = st.builds(_tower, scalars, st.integers(1, max_depth), st.booleans())
    return st.one_of(bushes, towers)


def json_values(
    max_leaves: int = 20, max_depth: int = MAX_DEPTH
) -> SearchStrategy[JsonValue]:
    """Frozen JSON values of every shape, very deep ones included.

    Arguments are those of ``plain_json``.
    """
    return plain_json(max_leaves, max_depth).map(freeze)


def json_objects(
    max_leaves: int = 20, max_depth: int = MAX_DEPTH
) -> SearchStrategy[JsonObject]:
    """Frozen JSON objects.

    Arguments are those of ``plain_json``.
    """
    members = plain_json(max_leaves, max_depth - 1)
    return st.dictionaries(json_names(), members, max_size=6).map(JsonObject)


def _containers(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    arrays = st.lists(inner, max_size=5)
    return st.one_of(arrays, st.dictionaries(json_names(), inner, max_size=5))


def _tower(top: Any, levels: int, objects: bool) -> Any:  # noqa: FBT001 - drawn data
    for _ in range(levels):
        top = {"in": top} if objects else [top]
    return top
