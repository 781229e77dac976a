"""Tool calls: against the same work on plain dicts that are changed in place."""

from __future__ import annotations

import json

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson

from measure import Comparison, compare, fresh, repeated
from report import Row, row
from worlds import accented, chart, clinic, compact, laboratory

from ipistate import Environment, JsonObject, call_tool


_PATIENT = JsonObject({"patient_id": "P0000"})
_CALLS = 20


def rows() -> Iterator[Row]:
    """Measure reading tools first and again, then writing tools."""
    for size in (5, 50, 500):
        name = f"get_patient_record, {size} kB of text"
        world = chart(size * 1000)
        yield from _reading(name, world, "get_patient_record", "patients", 0.8)
    for size in (5, 50, 500):
        name = f"get_lab_results, {size} kB of records"
        world = laboratory(size * 1000)
        yield from _reading(name, world, "get_lab_results", "lab_results", 1)
    for size in (50, 500):
        for tool, arguments in _WRITES:
            yield _writing(size, tool, arguments)
    for size, budget in ((50, 5), (500, 6)):
        yield _writing_to_a_long_text(size, budget)


def _reading(
    name: str, world: dict[str, Any], tool: str, collection: str, budget: float
) -> Iterator[Row]:
    data = compact(world)

    def call(environment: Environment) -> str:
        return call_tool(environment, tool, _PATIENT).output

    def look_up(plain: dict[str, Any]) -> str:
        return json.dumps(plain[collection][_PATIENT["patient_id"]])

    known, plain = Environment.from_json(data), orjson.loads(data)
    assert call(known) == look_up(plain)
    number = 3 if len(data) > 100_000 else 20
    floor = "lookup + json.dumps"
    first = compare(
        fresh(partial(Environment.from_json, data), call, number),
        fresh(partial(orjson.loads, data), look_up, number),
    )
    yield row(f"{name}, first", floor, first, budget)
    again = compare(
        repeated(lambda: call(known), 200), repeated(lambda: look_up(plain), number)
    )
    yield row(f"{name}, again", floor, again, 0.1)


def _update_chart(world: dict[str, Any], patient_id: str, notes: str) -> str:
    patient = world["patients"].get(patient_id)
    if patient is None:
        return f"Error: Patient {patient_id} not found."
    existing = patient.get("chart_notes", "")
    patient["chart_notes"] = f"{existing}\n{notes}" if existing else notes
    return f"Chart updated for patient {patient_id}."


def _cancel(world: dict[str, Any], appointment_id: str) -> str:
    appointment = world["appointments"].get(appointment_id)
    if appointment is None:
        return f"Error: Appointment {appointment_id} not found."
    appointment["status"] = "cancelled"
    return f"Appointment {appointment_id} has been cancelled."


def _send(world: dict[str, Any], to: str, subject: str, body: str) -> str:
    user = world.get("current_user", {})
    sender = user.get("email") or user.get("name", "system@example.com")
    message = {
        "from": sender,
        "to": to,
        "subject": subject,
        "body": body,
        "timestamp": "sent",
    }
    world.setdefault("messages", []).append(message)
    return f"Message sent to {to}."


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "update_patient_chart": _update_chart,
    "cancel_appointment": _cancel,
    "send_message": _send,
}
_WRITES: tuple[tuple[str, dict[str, str]], ...] = (
    ("update_patient_chart", {"patient_id": "P0000", "notes": "Feels better."}),
    ("cancel_appointment", {"appointment_id": "A00001"}),
    ("send_message", {"to": "a@x.example", "subject": "Hi", "body": "Hello."}),
)


def _execute(world: dict[str, Any], name: str, arguments: dict[str, Any]) -> str:
    # What any server of these tools does for one call (docs/reference/tools.md, section 2).
    function = _FUNCTIONS.get(name)
    if function is None:
        return f"Unknown tool: {name}"
    try:
        given = {n: value for n, value in arguments.items() if value is not None}
        result = function(world, **given)
    except Exception as error:  # noqa: BLE001 - as the reference does
        return f"Error executing tool '{name}' ({type(error).__name__}): {error}"
    return result if isinstance(result, str) else json.dumps(result)


def _writing(size: int, tool: str, arguments: dict[str, str]) -> Row:
    found = _change(compact(clinic(size * 1000)), tool, arguments, _CALLS)
    return row(f"{_CALLS} x {tool}, {size} kB", "in place on dicts", found, 3)


def _writing_to_a_long_text(size: int, budget: float) -> Row:
    tool, arguments = _WRITES[0]
    found = _change(compact(accented(size * 1000)), tool, arguments, 1)
    name = f"writing tool, text an eighth of the world, {size} kB"
    return row(name, "in place on dicts", found, budget)


def _change(
    data: bytes, tool: str, arguments: dict[str, str], number: int
) -> Comparison:
    environment, plain = Environment.from_json(data), orjson.loads(data)
    frozen = JsonObject(arguments)  # as both come from a request's parser
    called = call_tool(environment, tool, frozen)
    assert called.output == _execute(plain, tool, arguments)
    assert called.environment.to_json() == orjson.dumps(plain)

    def in_place(world: dict[str, Any]) -> None:
        for _ in range(number):
            _execute(world, tool, arguments)

    def calls(world: Environment) -> None:
        for _ in range(number):
            world = call_tool(world, tool, frozen).environment

    return compare(
        fresh(partial(Environment.from_json, data), calls, 10),
        fresh(partial(orjson.loads, data), in_place, 10),
    )
