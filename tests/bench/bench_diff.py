"""Diffs of a large world: after one call, and against a world that shares nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jsonpatch
import orjson

from measure import compare, repeated
from report import Row, row
from worlds import clinic, compact

from ipistate import Environment, call_tool, diff


_SIZE = 600_000
_WALK = "diff with an equal world that shares nothing"
_CALLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("update_patient_chart", {"patient_id": "P0300", "notes": "Feels better."}),
    ("cancel_appointment", {"appointment_id": "A00600"}),
    ("send_message", {"to": "a@x.example", "subject": "Hi", "body": "Hello."}),
    (
        "schedule_appointment",
        {"patient_id": "P0300", "date": "2025-04-20", "time": "9:30", "reason": "Pain"},
    ),
)


def rows() -> Iterator[Row]:
    """Measure the diff after one call, then the walk itself beside ``jsonpatch``."""
    data = compact(clinic(_SIZE))
    world, equal = Environment.from_json(data), Environment.from_json(data)
    walk = repeated(lambda: diff(world, equal), 3)
    for name, arguments in _CALLS:
        after = call_tool(world, name, arguments).environment
        assert len(diff(world, after).operations) == 1
        found = compare(repeated(partial(diff, world, after), 200), walk)
        yield row(f"diff after {name}, 600 kB", _WALK, found, 0.01)
    yield _rival(data, world)


def _rival(data: bytes, world: Environment) -> Row:
    # A hundred rows changed, so that there is something to find.
    changed: dict[str, Any] = orjson.loads(data)
    for appointment in [*changed["appointments"].values()][:100]:
        appointment["status"] = "cancelled"
    plain, after = orjson.loads(data), Environment.of(changed)
    assert len(diff(world, after).operations) == 100
    assert len(jsonpatch.make_patch(plain, changed).patch) == 100
    found = compare(
        repeated(lambda: diff(world, after), 3),
        repeated(lambda: jsonpatch.make_patch(plain, changed), 1),
        rounds=11,
    )
    return row("diff of worlds that share nothing", "jsonpatch.make_patch", found, 1)
