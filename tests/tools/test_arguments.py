"""Binding of arguments: the texts of CPython 3.13 on every interpreter."""

from __future__ import annotations

import sys

from collections.abc import Callable
from typing import Any

import pytest

from hypothesis import example, given
from hypothesis import strategies as st

from ipistate import TOOLS, JsonObject
from ipistate.kernel.values import JsonArray, JsonValue
from ipistate.testing import misspelt
from ipistate.tools.arguments import bind, suggestion
from ipistate.tools.arguments import given as those_given
from ipistate.tools.registry import Tool, tool
from ipistate.tools.semantics import Refused


def test_null_counts_as_absent() -> None:
    """An argument that is null was not given; other falsy values were."""
    members: dict[str, JsonValue] = {"a": None, "b": 0, "c": "", "d": JsonArray()}

    assert {"b": 0, "c": "", "d": []} == those_given(members)


def refusal(one: Tool, arguments: dict[str, Any]) -> tuple[str, str]:
    """Return the kind and text with which binding refuses."""
    with pytest.raises(Refused) as caught:
        bind(one, JsonObject(arguments))
    return caught.value.kind, caught.value.message


def plain(
    world: JsonObject, first: JsonValue, second: JsonValue, third: JsonValue = None
) -> tuple[JsonObject, JsonValue]:
    """Take two required parameters."""
    return world, JsonArray([first, second, third])


def lenient(
    world: JsonObject, first: JsonValue, second: JsonValue = "x", **_: object
) -> tuple[JsonObject, JsonValue]:
    """Ignore what is unknown."""
    return world, JsonArray([first, second])


PLAIN, LENIENT = tool(plain), tool(lenient)


@pytest.mark.parametrize(
    ("one", "arguments", "expected"),
    [
        (PLAIN, {"second": 2, "first": 1}, {"first": 1, "second": 2}),
        (
            PLAIN,
            {"first": 1, "second": [], "third": 0},
            {"first": 1, "second": [], "third": 0},
        ),
        (PLAIN, {"first": 1, "second": 2, "third": None}, {"first": 1, "second": 2}),
        (PLAIN, {"first": 1, "second": 2, "fourth": None}, {"first": 1, "second": 2}),
        (PLAIN, {"first": 1, "second": 2, "env": None}, {"first": 1, "second": 2}),
        (LENIENT, {"first": 1}, {"first": 1}),
        (LENIENT, {"x": 5, "first": [None]}, {"first": [None]}),
        (
            LENIENT,
            {"x": 5, "second": 2, "y": None, "first": 1},
            {"first": 1, "second": 2},
        ),
    ],
)
def test_bound(one: Tool, arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    """Arguments are chosen by name; null counts as absent; nothing is coerced."""
    assert expected == bind(one, JsonObject(arguments))


@pytest.mark.parametrize(
    ("one", "arguments", "expected"),
    [
        (
            PLAIN,
            {"first": 1},
            "plain() missing 1 required positional argument: 'second'",
        ),
        (
            PLAIN,
            {},
            "plain() missing 2 required positional arguments: 'first' and 'second'",
        ),
        (
            PLAIN,
            {"first": None, "third": 1},
            "plain() missing 2 required positional arguments: 'first' and 'second'",
        ),
        (
            LENIENT,
            {"second": 1},
            "lenient() missing 1 required positional argument: 'first'",
        ),
        (
            PLAIN,
            {"zzzzzzzz": 1},
            "plain() got an unexpected keyword argument 'zzzzzzzz'",
        ),
        (
            PLAIN,
            {"firs": 1},
            "plain() got an unexpected keyword argument 'firs'. Did you mean 'first'?",
        ),
        (
            PLAIN,
            {"first": 1, "zz'zzzzzz\n": 1},
            "plain() got an unexpected keyword argument 'zz'zzzzzz\n'",
        ),
        (
            PLAIN,
            {"first": 1, "b": 1, "a": 2},
            "plain() got an unexpected keyword argument 'b'",
        ),
        (PLAIN, {"env": 1}, "plain() got multiple values for argument 'env'"),
        (
            LENIENT,
            {"env": {}, "first": 1},
            "lenient() got multiple values for argument 'env'",
        ),
        (
            LENIENT,
            {"a": 1, "env": 0},
            "lenient() got multiple values for argument 'env'",
        ),
        (
            PLAIN,
            {"zzzzzzzz": 1, "env": 1},
            "plain() got an unexpected keyword argument 'zzzzzzzz'",
        ),
        (
            PLAIN,
            {"env": 1, "zzzzzzzz": 1},
            "plain() got multiple values for argument 'env'",
        ),
        (
            PLAIN,
            {"emv": 1},
            "plain() got an unexpected keyword argument 'emv'. Did you mean 'env'?",
        ),
    ],
)
def test_refused(one: Tool, arguments: dict[str, Any], expected: str) -> None:
    """The first unknown or reserved name is reported, then the missing ones."""
    assert ("TypeError", expected) == refusal(one, arguments)


def test_three_missing() -> None:
    """Three and more missing names are listed with commas, in declaration order."""
    listed = "'case_id', 'date', 'description', 'hours', and 'rate'"
    expected = f"add_billing_entry() missing 5 required positional arguments: {listed}"

    assert ("TypeError", expected) == refusal(TOOLS["add_billing_entry"], {})


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("recipent", ["env", "recipient", "recipients"], "recipient"),
        ("recipien", ["recipients", "recipient"], "recipient"),
        ("recipients", ["recipient"], "recipient"),
        ("RECIPIENT", ["recipient"], None),
        ("ReciPient", ["recipients", "recipient"], "recipient"),
        ("ab", ["xy", "ax", "bb"], "ax"),
        ("ax", ["ab", "ay"], "ab"),
        ("abc", ["abd"], "abd"),
        ("abc", ["xyz"], None),
        ("a", ["b"], None),
        ("a", ["A"], "A"),
        ("a", [], None),
        ("", ["a"], None),
        ("", ["ab"], None),
        ("to", ["to_"], "to_"),
        ("é", ["e"], None),
        ("x" * 41, ["x" * 40 + "y"], "x" * 40 + "y"),
        ("a" + "x" * 41 + "b", ["c" + "y" * 41 + "d"], None),
        ("ax" * 25, ["by" * 25, "ax" * 24 + "a"], "ax" * 24 + "a"),
        ("\ud83d", ["env"], None),
    ],
)
def test_suggestion(name: str, candidates: list[str], expected: str | None) -> None:
    """The cheapest acceptable candidate is meant, the earlier one on a tie."""
    assert expected == suggestion(name, candidates)


def interpreter(one: Tool) -> Callable[..., Any]:
    """Compile a function with a tool's signature, as the reference declares it."""
    named = [n if n in one.required else f"{n}=None" for n in one.names]
    parameters = ["env", *named]
    if one.ignores_unknown:
        parameters.append("**_")
    scope: dict[str, Callable[..., Any]] = {}
    exec(f"def {one.name}({', '.join(parameters)}): pass", scope)
    return scope[one.name]


@pytest.mark.skipif(
    sys.version_info < (3, 13), reason="the interpreter suggests names since 3.13"
)
@given(st.data())
@example(None)
def test_texts_are_those_of_the_interpreter(data: st.DataObject | None) -> None:
    """Whatever is missing, misspelt or unknown, the running interpreter says the same."""
    if data is None:
        one, names = TOOLS["send_email"], ["env", "recipients"]
    else:
        one = TOOLS[data.draw(st.sampled_from(sorted(TOOLS)))]
        some = st.one_of(st.sampled_from(("env", *one.names)), misspelt(one))
        names = data.draw(st.lists(some.filter(is_text), max_size=5, unique=True))
    arguments = JsonObject(dict.fromkeys(names, 1))
    said = answer(interpreter(one), arguments)
    ours = answer(lambda _, /, **given: bind(one, JsonObject(given)), arguments)

    assert said == ours


def answer(function: Callable[..., Any], arguments: JsonObject) -> str | None:
    """Return the text with which a function refuses its arguments, if it does."""
    try:
        function(object(), **arguments)
    except (TypeError, Refused) as error:
        return str(error.args[-1])
    return None


def is_text(name: str) -> bool:
    """Tell whether a name has no unpaired surrogates, which the interpreter minds."""
    return name.isascii() or name.encode("utf-8", "replace") == name.encode(
        "utf-8", "surrogatepass"
    )


def test_names_with_unpaired_surrogates() -> None:
    """A name that is no valid text is named as it is."""
    expected = "plain() got an unexpected keyword argument '\ud83d'"

    assert ("TypeError", expected) == refusal(PLAIN, {"\ud83d": 1})
