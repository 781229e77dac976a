"""decode, encode: against orjson alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import orjson

from measure import compare, repeated
from report import Row, row
from worlds import clinic, compact

from ipistate import decode, encode


_LOADS = "orjson.loads"


def rows() -> Iterator[Row]:
    """Measure both directions on dense records and on longer texts."""
    for kind, notes in (("", 120), (", longer texts", 800)):
        data = compact(clinic(60_000, notes=notes))
        value, plain = decode(data), orjson.loads(data)
        reading = compare(
            repeated(partial(decode, data), 50),
            repeated(partial(orjson.loads, data), 50),
        )
        yield row(f"decode, 60 kB{kind}", _LOADS, reading, 3.5)
        writing = compare(
            repeated(partial(encode, value), 100),
            repeated(partial(orjson.dumps, plain), 100),
        )
        yield row(f"encode, 60 kB{kind}", "orjson.dumps", writing, 1.25)
