"""Typed rows: read strictly, written back as they were, unknown members included."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import Environment, JsonObject, SchemaError, call_tool, encode, freeze
from ipistate.testing import rows, worlds
from ipistate.tools import RECORDS
from ipistate.tools.healthcare import Patient
from ipistate.tools.row import Row


CLASSES = [
    pytest.param(collection, record, id=f"{domain}-{collection}")
    for domain, records in RECORDS.items()
    for collection, record in records.items()
]


@pytest.mark.parametrize(("collection", "record"), CLASSES)
@given(data=st.data())
def test_round_trip(collection: str, record: type[Row], data: st.DataObject) -> None:
    """A well-formed row comes back byte for byte, whatever the order of its members."""
    document = freeze(data.draw(rows(record)))
    row = record.from_document(document)

    assert encode(document) == encode(row.to_document())
    assert row == record.from_document(row.to_document())


@pytest.mark.parametrize("domain", RECORDS)
@given(data=st.data())
def test_tables(domain: str, data: st.DataObject) -> None:
    """Every table of a well-formed world can be read as typed rows, by id."""
    world: Any = data.draw(worlds(RECORDS[domain]))
    for collection, record in RECORDS[domain].items():
        table = record.table(world, collection)
        stored = world.document.get(collection, {})

        assert [*stored] == [*table]
        assert all(
            encode(at(stored, key)) == encode(row.to_document())
            for key, row in table.items()
        )


@pytest.mark.parametrize(("collection", "record"), CLASSES)
def test_first_field_is_the_id(collection: str, record: type[Row]) -> None:
    """The first field of each record is the id of its rows and is required."""
    inherited = {field.name for field in attrs.fields(Row)}
    first = next(f for f in attrs.fields(record) if f.name not in inherited)

    assert first.name.endswith("_id")
    assert first.default is attrs.NOTHING
    assert record.__doc__ is not None
    assert record.__doc__.startswith("A row of")


def test_made_by_hand() -> None:
    """A row made by hand leaves out what is None; unknown members stand last."""
    row = Patient(patient_id="P-1", name="Ada", extra=JsonObject({"ssn": "1"}))
    full = attrs.evolve(row, dob="2000-01-01", medications=("x",))

    assert (
        '{"patient_id":"P-1","name":"Ada","conditions":[],"medications":[],"ssn":"1"}'
        == encode(row.to_document()).decode()
    )
    assert (
        '{"patient_id":"P-1","name":"Ada","dob":"2000-01-01","conditions":[],'
        '"medications":["x"],"ssn":"1"}' == encode(full.to_document()).decode()
    )


def test_changed_row() -> None:
    """A changed row keeps the order in which it was read."""
    read = Patient.from_document({"ssn": "1", "name": "Ada", "patient_id": "P-1"})
    changed = attrs.evolve(read, name="Eve", dob="2000-01-01")

    assert (
        '{"ssn":"1","name":"Eve","patient_id":"P-1","dob":"2000-01-01"}'
        == encode(changed.to_document()).decode()
    )


def test_null_is_not_absent() -> None:
    """A member that was null when it was read is written as null."""
    text = '{"patient_id":"P-1","dob":null,"name":"Ada"}'

    assert (
        text
        == encode(
            Patient.from_document(
                {"patient_id": "P-1", "dob": None, "name": "Ada"}
            ).to_document()
        ).decode()
    )


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        ({"name": "Ada"}, "missing_member", "$.patient_id"),
        ({"patient_id": 5, "name": "Ada"}, "wrong_type", "$.patient_id"),
        ({"patient_id": "P", "name": "A", "dob": 5}, "wrong_type", "$.dob"),
        (
            {"patient_id": "P", "name": "A", "conditions": ["a", 5]},
            "wrong_type",
            "$.conditions[1]",
        ),
        ([], "wrong_type", "$"),
    ],
)
def test_malformed_rows(
    document: dict[str, Any] | list[Any], code: str, path: str
) -> None:
    """A row of another shape is refused with the path of what is wrong."""
    with pytest.raises(SchemaError) as caught:
        Patient.from_document(document)

    assert (code, path) == (caught.value.code, caught.value.path)


def test_table_shapes() -> None:
    """A missing table has no rows; what is not a table is refused with its path."""
    assert {} == Patient.table(Environment.of({}), "patients")
    with pytest.raises(SchemaError) as caught:
        Patient.table(Environment.of({"patients": []}), "patients")

    assert ("wrong_type", "$.patients") == (caught.value.code, caught.value.path)


def test_rows_after_a_call() -> None:
    """What a tool created can be read as a typed row."""
    call = {"patient_id": "P-1", "date": "2026-03-01", "time": "9:00", "reason": "r"}
    world = call_tool(
        Environment.of({"appointments": {}}), "schedule_appointment", call
    ).environment
    record = RECORDS["healthcare"]["appointments"]
    ((key, found),) = record.table(world, "appointments").items()
    row: Any = found

    assert (key, "scheduled", "2026-03-01") == (
        row.appointment_id,
        row.status,
        row.date,
    )
