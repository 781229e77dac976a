"""What is refused says what to write instead."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid

from collections import OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import pytest

from ipistate import EncodeError, Environment, freeze
from ipistate.kernel.hints import replacement


Point = namedtuple("Point", "x y")  # noqa: PYI024 - a caller's own type


class Level(enum.Enum):
    """An enumeration."""

    LOW = "low"


class Size(enum.IntEnum):
    """An enumeration of integers, which is an integer, too."""

    LARGE = 3


@dataclasses.dataclass
class Patient:
    """A data class."""

    name: str = "Ada"


class Model:
    """A model of a validation library."""

    def model_dump(self, mode: str) -> dict[str, str]:
        """Return plain data."""
        return {"mode": mode}


def foreign(module: str, name: str, **methods: Any) -> Any:
    """Make a value of a class of a library that need not be installed."""
    return type(name, (), {"__module__": module, **methods})()


REFUSED: dict[str, tuple[object, str]] = {
    "decimal": (Decimal("1.5"), "str(value) or float(value)"),
    "fraction": (Fraction(3, 2), "str(value) or float(value)"),
    "datetime": (dt.datetime(2026, 3, 1), "value.isoformat()"),  # noqa: DTZ001
    "date": (dt.date(2026, 3, 1), "value.isoformat()"),
    "time": (dt.time(9), "value.isoformat()"),
    "timedelta": (dt.timedelta(1), "value.total_seconds()"),
    "enum": (Level.LOW, "value.value"),
    "integer enum": (Size.LARGE, "value.value"),
    "ordered dict": (OrderedDict(a=1), "dict(value)"),
    "default dict": (defaultdict(list), "dict(value)"),
    "named tuple": (Point(1, 2), "value._asdict()"),
    "data class": (Patient(), "dataclasses.asdict(value)"),
    "model": (Model(), 'value.model_dump(mode="json")'),
    "uuid": (uuid.UUID(int=1), "str(value)"),
    "path": (PurePosixPath("a"), "str(value)"),
    "set": ({1}, "sorted(value)"),
    "bytes": (b"a", "value.decode()"),
    "range": (range(3), "list(value)"),
    "environment": (Environment.of({}), "value.document"),
    "numpy scalar": (foreign("numpy", "generic"), "value.item()"),
    "numpy array": (foreign("numpy", "ndarray"), "value.tolist()"),
    "pandas frame": (
        foreign("pandas.core.frame", "DataFrame"),
        'value.to_dict("index")',
    ),
    "pandas series": (foreign("pandas.core.series", "Series"), "value.to_dict()"),
    "pandas missing": (foreign("pandas._libs.missing", "NAType"), "None"),
}


@pytest.mark.parametrize(("value", "instead"), REFUSED.values(), ids=REFUSED)
def test_d8_a_refused_value_says_what_to_write(value: object, instead: str) -> None:
    """D8: the refusal of a Python value names the expression that JSON carries."""
    with pytest.raises(EncodeError) as caught:
        freeze({"rows": [value]})

    assert ("unsupported_type", "$.rows[0]") == (caught.value.code, caught.value.path)
    assert caught.value.message.endswith(f"; write {instead}")


@pytest.mark.parametrize("name", ["decimal", "datetime", "integer enum", "named tuple"])
def test_d8_the_hint_is_right(name: str) -> None:
    """D8: what the hint names can be frozen."""
    value, instead = REFUSED[name]
    for expression in instead.split(" or "):
        freeze(eval(expression, {"value": value}))


def test_d8_subclasses_of_numpy_scalars_that_are_floats() -> None:
    """D8: a scalar of numpy that is a float, too, is known as numpy's."""
    generic = type("generic", (), {"__module__": "numpy"})
    scalar: Any = type("float64", (generic, float), {"__module__": "numpy"})

    assert "value.item()" == replacement(scalar(1.5))


def test_d8_what_nobody_knows_has_no_hint() -> None:
    """D8: a value without a JSON counterpart is refused without advice."""
    assert replacement(object()) is None
    with pytest.raises(EncodeError, match=r"JSON cannot carry builtins.object \("):
        freeze(object())


def test_d8_keys_that_are_no_strings() -> None:
    """D8: the refusal of a key says how to make it one."""
    with pytest.raises(EncodeError, match=r"not int; write str\(key\)"):
        freeze({1: 2})
