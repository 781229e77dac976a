"""Derived ids: the wire's form, never in use, the same wherever the call is made."""

from __future__ import annotations

import re

from typing import Any

import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import Environment, JsonObject, call_tool
from ipistate.kernel import MAX_DEPTH
from ipistate.kernel.ids import SPACE, derive_id
from ipistate.testing import json_objects


TICKET = {"customer_id": "C-1", "subject": "s", "description": "d"}
APPOINTMENT = {"patient_id": "P", "date": "d", "time": "t", "reason": "r"}


class Counting:
    """Says that the first so many candidates are in use, and remembers all."""

    def __init__(self, taken: int) -> None:
        self.taken = taken
        self.asked: list[str] = []

    def __contains__(self, candidate: object) -> bool:
        self.asked.append(str(candidate))
        return len(self.asked) <= self.taken


def created(
    world: Environment, tool: str, arguments: dict[str, str], collection: str
) -> tuple[Environment, str]:
    """Make a call that creates a record; return the new world and the new id."""
    before: Any = world.document.get(collection, {})
    world = call_tool(world, tool, arguments).environment
    (new_id,) = at(world.document, collection).keys() - before.keys()
    return world, new_id


@given(st.sampled_from(["A", "CL-", "MSG-"]), json_objects(5, MAX_DEPTH))
def test_form(prefix: str, call: JsonObject) -> None:
    """An id is its prefix and six upper-case hex digits."""
    found = derive_id(prefix, call, "claims", (), 0)

    assert re.fullmatch(re.escape(prefix) + "[0-9A-F]{6}", found)
    assert found == derive_id(prefix, JsonObject(call), "claims", frozenset(), 0)


def test_known_ids() -> None:
    """Ids do not change from release to release, or stored sessions would differ."""
    call = JsonObject({"a": 1})

    assert ["CL-7134F2", "CL-32063E"] == [
        derive_id("CL-", call, "claims", (), size) for size in (0, 1)
    ]


def test_everything_about_the_call_counts() -> None:
    """Prefix, record, its order, collection and size each change the digits."""
    call = JsonObject({"a": 1, "b": 2})
    variants = [
        ("X-", call, "claims", 0),
        ("Y-", call, "claims", 0),
        ("X-", JsonObject({"b": 2, "a": 1}), "claims", 0),
        ("X-", JsonObject({"a": 1.0, "b": 2}), "claims", 0),
        ("X-", call, "payouts", 0),
        ("X-", call, "claims", 1),
    ]
    tails = {
        derive_id(prefix, record, table, (), size)[2:]
        for prefix, record, table, size in variants
    }

    assert len(variants) == len(tails)


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_probing(taken: int) -> None:
    """Ids in use are passed over, one after another, without a gap."""
    used = Counting(taken)
    found = derive_id("X-", JsonObject(), "t", used, 0)
    numbers = [int(candidate.removeprefix("X-"), base=16) for candidate in used.asked]

    assert found == used.asked[-1]
    assert [(numbers[0] + n) % SPACE for n in range(taken + 1)] == numbers


def test_probing_wraps_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last number comes the first one; every number is tried once."""
    monkeypatch.setattr("ipistate.kernel.ids.SPACE", 5)
    used = {f"X-{number:06X}" for number in range(5)} - {"X-000003"}

    for size in range(20):
        assert "X-000003" == derive_id("X-", JsonObject(), "t", used, size)


def test_full_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every id is in use one is used again, as the reference does, after all tries."""
    monkeypatch.setattr("ipistate.kernel.ids.SPACE", 5)
    used = Counting(10**6)
    found = derive_id("X-", JsonObject(), "t", used, 0)

    assert 5 == len(used.asked)
    assert found == used.asked[0]


def test_b65_5000_creations() -> None:
    """B65: 5,000 equal creations are distinct and leave seeded records alone."""
    world = Environment.of({})
    seeds = {}
    for _ in range(50):
        world, new_id = created(
            world, "create_support_ticket", TICKET, "support_tickets"
        )
        seeds[new_id] = {"ticket_id": new_id, "seeded": True}
    world = Environment.of({"support_tickets": seeds})
    for _ in range(5000):
        world, _ = created(world, "create_support_ticket", TICKET, "support_tickets")
    rows: Any = world.document["support_tickets"]

    assert 5050 == len(rows)
    assert all(seeds[one] == at(rows, one) for one in seeds)
    assert all(key == at(row, "ticket_id") for key, row in rows.items())


def test_b65_creations_meet_seeded_ids() -> None:
    """B65: a seeded record that holds the very id of a new one keeps it."""
    _, new_id = created(
        Environment.of({}), "create_support_ticket", TICKET, "support_tickets"
    )
    for shape in ({}, {"other": 1}):
        rows = {new_id: {"seeded": True}, **shape}
        seeded = Environment.of({"support_tickets": rows})
        for _ in range(3):
            seeded, other = created(
                seeded, "create_support_ticket", TICKET, "support_tickets"
            )
            assert other not in rows
        assert {"seeded": True} == at(seeded.document, "support_tickets", new_id)


def test_messages_in_an_array_are_distinct() -> None:
    """Records in an array get distinct ids as well, and pass over seeded ones."""
    call = {"to": "a", "subject": "s", "body": "b"}
    world = Environment.of({})
    for _ in range(200):
        world = call_tool(world, "send_carrier_message", call).environment
    found = [at(row, "message_id") for row in at(world.document, "carrier_messages")]
    first = {"message_id": found[0]}
    again = call_tool(
        Environment.of({"carrier_messages": []}), "send_carrier_message", call
    ).environment
    seeded = call_tool(
        Environment.of({"carrier_messages": [first]}), "send_carrier_message", call
    ).environment

    assert 200 == len({*found})
    assert found[0] == at(again.document, "carrier_messages", 0, "message_id")
    assert found[0] != at(seeded.document, "carrier_messages", 1, "message_id")


def test_b67_no_id_comes_back() -> None:
    """B67: ids do not repeat within a session, and forks mint the same ones."""
    world = Environment.of({"appointments": {}})
    ids = []
    for _ in range(3):
        world, new_id = created(
            world, "schedule_appointment", APPOINTMENT, "appointments"
        )
        ids.append(new_id)
    call = {"appointment_id": ids[0]}
    world = call_tool(world, "cancel_appointment", call).environment
    forks = [
        created(world, "schedule_appointment", APPOINTMENT, "appointments")
        for _ in range(2)
    ]

    assert 4 == len({*ids, forks[0][1]})
    assert forks[0][1] == forks[1][1]
    assert forks[0][0].to_json() == forks[1][0].to_json()


def test_b67_a_removed_record_does_not_give_its_id_away() -> None:
    """B67: after a record is gone, a new one meets no record that is still there."""
    world = Environment.of({"appointments": {}})
    ids = []
    for _ in range(3):
        world, new_id = created(
            world, "schedule_appointment", APPOINTMENT, "appointments"
        )
        ids.append(new_id)
    rows = dict(at(world.document, "appointments"))
    del rows[ids[0]]
    world = Environment.of({"appointments": rows})
    world, new_id = created(world, "schedule_appointment", APPOINTMENT, "appointments")

    assert new_id not in ids[1:]
    assert 3 == len(at(world.document, "appointments"))
