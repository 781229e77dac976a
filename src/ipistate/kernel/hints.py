"""What to write in place of a Python value that JSON cannot carry.

Libraries are known by the names of their classes, so none is imported for it.
"""

from __future__ import annotations

from typing import Final


# The first entry that fits wins: an enumeration of integers is an enumeration.
_BY_ATTRIBUTE: Final = (
    ("model_dump", 'value.model_dump(mode="json")'),
    ("_asdict", "value._asdict()"),
    ("__dataclass_fields__", "dataclasses.asdict(value)"),
)
_BY_CLASS: Final = (
    ("ipistate.Environment", "value.document"),
    ("enum.Enum", "value.value"),
    ("numpy.generic", "value.item()"),
    ("numpy.ndarray", "value.tolist()"),
    ("pandas.DataFrame", 'value.to_dict("index")'),
    ("pandas.Series", "value.to_dict()"),
    ("pandas.Index", "value.tolist()"),
    ("pandas.NAType", "None"),
    ("pandas.NaTType", "None"),
    ("torch.Tensor", "value.tolist()"),
    ("datetime.timedelta", "value.total_seconds()"),
    ("datetime.date", "value.isoformat()"),
    ("datetime.time", "value.isoformat()"),
    ("decimal.Decimal", "str(value) or float(value)"),
    ("fractions.Fraction", "str(value) or float(value)"),
    ("uuid.UUID", "str(value)"),
    ("pathlib.PurePath", "str(value)"),
    ("builtins.bytes", "value.decode()"),
    ("builtins.bytearray", "value.decode()"),
    ("builtins.set", "sorted(value)"),
    ("builtins.frozenset", "sorted(value)"),
    ("builtins.dict", "dict(value)"),
    ("builtins.list", "list(value)"),
    ("builtins.tuple", "list(value)"),
    ("builtins.str", "str(value)"),
    ("builtins.int", "int(value)"),
    ("builtins.float", "float(value)"),
)


def replacement(value: object) -> str | None:
    """Say what gives a JSON value in place of this one, as Python; None if not known."""
    kind = type(value)
    for attribute, instead in _BY_ATTRIBUTE:
        if hasattr(kind, attribute):
            return instead
    names = {f"{k.__module__.partition('.')[0]}.{k.__name__}" for k in kind.__mro__}
    found = (instead for name, instead in _BY_CLASS if name in names)
    return next(found, "list(value)" if hasattr(kind, "__iter__") else None)
