"""Errors: a code, a path and a bounded preview, through pickling as well."""

from __future__ import annotations

import pickle

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ipistate import errors, freeze
from ipistate.errors import (
    MAX_PROBLEMS,
    CheckpointError,
    DataError,
    DecodeError,
    EncodeError,
    ImmutableError,
    IpiStateError,
    Problem,
    SchemaError,
    json_path,
    preview,
)


def all_errors(
    base: type[IpiStateError] = IpiStateError,
) -> Iterator[type[IpiStateError]]:
    """Yield the base error and every error below it."""
    yield base
    for one in base.__subclasses__():
        yield from all_errors(one)


ERRORS = sorted({*all_errors()}, key=lambda one: one.__name__)


def test_every_error_is_in_the_tree() -> None:
    """All exceptions of the errors module descend from one base."""
    named = {
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, Exception)
    }

    assert named <= {*ERRORS}
    assert len(named) >= 6


@pytest.mark.parametrize("kind", ERRORS)
def test_pickling(kind: type[IpiStateError]) -> None:
    """A worker process can hand each error to its parent, with everything it says."""
    place = ["$.a[0]"] if issubclass(kind, DataError) else []
    make: Callable[..., IpiStateError] = kind
    error = make("not_finite", "no NaN", *place, "nan")
    back = pickle.loads(pickle.dumps(error))

    assert kind is type(back)
    assert str(error) == str(back)
    assert vars(error) == vars(back)
    assert ": ".join([*place, "no NaN (nan) [not_finite]"]) == str(back)


def test_pickling_of_several_problems() -> None:
    """A schema error takes all of its problems with it."""
    problems = [Problem("a", "$.x", "one"), Problem("b", "$.y", "two", "2")]
    back = pickle.loads(pickle.dumps(SchemaError.of(problems)))

    assert tuple(problems) == back.problems
    assert "$.x: one [a] and 1 more" == str(back)


def test_problems_beyond_the_limit_are_not_made() -> None:
    """Only as many problems are taken from an iterator as an error lists."""
    endless = (Problem("a", f"$[{number}]", "one") for number in count())

    assert MAX_PROBLEMS == len(SchemaError.of(endless).problems)
    assert f"$[{MAX_PROBLEMS}]" == next(endless).path
    with pytest.raises(SchemaError) as caught:
        SchemaError.raise_for(endless)
    assert MAX_PROBLEMS == len(caught.value.problems)
    assert SchemaError.raise_for([]) is None


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (DecodeError, ValueError),
        (EncodeError, ValueError),
        (SchemaError, ValueError),
        (ImmutableError, TypeError),
        (CheckpointError, Exception),
    ],
)
def test_built_in_bases(kind: type[IpiStateError], base: type[Exception]) -> None:
    """Callers may catch what Python would raise."""
    assert issubclass(kind, (base,))
    assert issubclass(kind, IpiStateError)


def test_schema_error_of_one_problem() -> None:
    """A single problem is named by the error itself."""
    error = SchemaError("wrong_type", "expected a string", "$.name", "3")

    assert (
        Problem("wrong_type", "$.name", "expected a string", "3"),
    ) == error.problems
    assert "$.name: expected a string (3) [wrong_type]" == str(error)
    assert str(error) == str(SchemaError.of(error.problems))


def test_an_error_that_is_not_about_data_has_no_path() -> None:
    """A change in place, a refused operation: no document has a wrong value."""
    error = ImmutableError("immutable", "JsonObject is immutable")

    assert "JsonObject is immutable [immutable]" == str(error)
    assert not hasattr(error, "path")


def test_defaults() -> None:
    """Without a path the whole document is meant, and there may be no preview."""
    error = DecodeError("too_deep", "too deep")

    assert ("$", None, "$: too deep [too_deep]") == (
        error.path,
        error.preview,
        str(error),
    )
    assert "too deep" == error.message


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ((), "$"),
        (("patients", "P-1", "conditions", 0), '$.patients["P-1"].conditions[0]'),
        (("",), '$[""]'),
        (('a"b',), '$["a\\"b"]'),
        (("é",), '$["\\xe9"]'),
        (("a.b", -1), '$["a.b"][-1]'),
        (("\n",), '$["\\n"]'),
        (("x" * 90,), "$." + "x" * 80),
        (("-" * 90,), '$["' + "-" * 80 + '"]'),
        (("5",), '$["5"]'),
    ],
)
def test_json_path(segments: tuple[int | str, ...], expected: str) -> None:
    """Plain names stand after a dot, all others quoted, ASCII only and cut."""
    assert expected == json_path(segments)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "None"),
        (True, "True"),
        (-0.0, "-0.0"),
        (float("inf"), "inf"),
        (12, "12"),
        (10**58, "1" + "0" * 58),
        (10**60, "int of ~60 digits"),
        pytest.param(10**5000, "int of ~5000 digits", id="long integer"),
        ("a", "'a'"),
        ("x" * 60, repr("x" * 60)),
        ("x" * 61, repr("x" * 60) + "…"),
        ("é\n", "'\\xe9\\n'"),
        (b"ab", "b'ab'"),
        ({"a": 1}, "dict of 1"),
        (freeze({"a": 1}), "dict of 1"),
        (freeze([1, 2]), "list of 2"),
        ({1}, "set of 1"),
        ([1, 2], "list of 2"),
        (object(), "object"),
    ],
)
def test_preview(value: object, expected: str) -> None:
    """A preview shows the type or the beginning of the text, in bounded space."""
    assert expected == preview(value)


def test_an_error_of_an_inner_document_keeps_its_problems() -> None:
    """Each of them is found below the place where the document stands."""
    inner = SchemaError.of(
        [
            Problem("a", "$.x", "one", "1"),
            Problem("b", "$", "two"),
            Problem("c", "$[0]", "3"),
        ]
    )

    assert [
        Problem("a", '$.state["P-1"].x', "one", "1"),
        Problem("b", '$.state["P-1"]', "two"),
        Problem("c", '$.state["P-1"][0]', "3"),
    ] == list(inner.below("state", "P-1").problems)
