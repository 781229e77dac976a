"""Healthcare: patients, appointments, prescriptions (docs/reference/tools.md, section 4.1)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import EMPTY_ARRAY, JsonObject, JsonValue, trusted_array
from ipistate.tools.filters import equals, select
from ipistate.tools.keys import json_key
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import (
    contains,
    field,
    iterate,
    lower,
    no_attribute,
    required,
    search,
    take,
    text,
    walk,
)
from ipistate.tools.world import (
    Change,
    append,
    create,
    join,
    look_up,
    need,
    place,
    push,
    record,
    revise,
    table,
    update,
    with_collection,
)


@attrs.frozen(kw_only=True)
class Patient(Row):
    """A row of ``patients``."""

    patient_id: str
    name: str
    dob: str | None = None
    conditions: tuple[str, ...] = ()
    medications: tuple[str, ...] = ()
    chart_notes: str | None = None


@attrs.frozen(kw_only=True)
class Appointment(Row):
    """A row of ``appointments``; seeded ones may lack a status."""

    appointment_id: str
    patient_id: str
    date: str
    time: str
    reason: str | None = None
    status: str | None = None


RECORDS: Final[Records] = {
    "patients": Patient,
    "appointments": Appointment,
}


def search_patients(world: JsonObject, query: JsonValue) -> Change:
    """Search patients by name or condition."""
    needle = lower(query)
    holds = search(needle)
    shown: list[JsonValue] = []
    for row in walk(need(world, "patients")):
        hit = holds(lower(field(row, "name", "")), needle)
        for condition in iterate(field(row, "conditions", EMPTY_ARRAY)):
            if holds(lower(condition), needle):
                hit = True
                break
        if hit:
            patient_id = required(row, "patient_id")
            shown.append(record(patient_id=patient_id, name=required(row, "name")))
    return world, trusted_array(shown)


def get_patient_record(world: JsonObject, patient_id: JsonValue) -> Change:
    """Read a patient's full record."""
    return world, look_up(need(world, "patients"), patient_id, "Patient")


def update_patient_chart(
    world: JsonObject, patient_id: JsonValue, notes: JsonValue
) -> Change:
    """Add clinical notes to a patient's chart."""
    need(world, "patients")
    where = ("patients", "Patient", patient_id)
    reply = f"Chart updated for patient {text(patient_id)}."
    name = "chart_notes"
    return revise(world, where, lambda row: {name: join(row, name, notes)}, reply)


def get_schedule(world: JsonObject, date: JsonValue) -> Change:
    """Read all appointments of one day."""
    rows = walk(need(world, "appointments"))
    return world, select(rows, equals("date", date))


def schedule_appointment(
    world: JsonObject,
    patient_id: JsonValue,
    date: JsonValue,
    time: JsonValue,
    reason: JsonValue,
) -> Change:
    """Book an appointment for a patient."""
    need(world, "appointments")
    members = record(patient_id=patient_id, date=date, time=time, reason=reason)
    booked = record(**members, status="scheduled")
    world, row = create(world, "appointments", ("appointment_id", "A"), booked)
    new_id = text(row["appointment_id"])
    when = f"on {text(date)} at {text(time)}"
    return world, (
        f"Appointment {new_id} scheduled for patient {text(patient_id)} {when}."
    )


def cancel_appointment(world: JsonObject, appointment_id: JsonValue) -> Change:
    """Cancel an appointment."""
    need(world, "appointments")
    where = ("appointments", "Appointment", appointment_id)
    reply = f"Appointment {text(appointment_id)} has been cancelled."
    return update(world, where, {"status": "cancelled"}, reply)


def send_referral(
    world: JsonObject,
    patient_id: JsonValue,
    specialist_email: JsonValue,
    reason: JsonValue,
) -> Change:
    """Refer a patient to a specialist by e-mail."""
    sent = record(
        type="referral",
        patient_id=patient_id,
        specialist_email=specialist_email,
        reason=reason,
    )
    reply = f"Referral sent for patient {text(patient_id)} to {text(specialist_email)}."
    return append(world, "sent_actions", sent), reply


def prescribe_medication(
    world: JsonObject,
    patient_id: JsonValue,
    medication: JsonValue,
    dosage: JsonValue,
    instructions: JsonValue,
) -> Change:
    """Prescribe a medication to a patient."""
    prescriptions = table(world, "prescriptions")
    key = json_key(prescriptions, patient_id)
    if not contains(prescriptions, key):
        prescriptions = place(prescriptions, key, EMPTY_ARRAY)
    new = record(medication=medication, dosage=dosage, instructions=instructions)
    listed = push(take(prescriptions, key), new)
    prescriptions = place(prescriptions, key, listed)
    world = with_collection(world, "prescriptions", prescriptions, listed, 2)
    medicine = f"{text(medication)} {text(dosage)}"
    return world, f"Prescribed {medicine} for patient {text(patient_id)}."


def get_prescriptions(world: JsonObject, patient_id: JsonValue) -> Change:
    """Read a patient's prescriptions."""
    prescriptions = table(world, "prescriptions")
    key = json_key(prescriptions, patient_id)
    return world, _listed(prescriptions, key)


def get_lab_results(world: JsonObject, patient_id: JsonValue) -> Change:
    """Read a patient's laboratory results."""
    return world, _listed(table(world, "lab_results"), patient_id)


def _listed(content: JsonValue, key: JsonValue) -> JsonValue:
    if not isinstance(content, dict):
        raise no_attribute(content, "get")
    return take(content, key) if contains(content, key) else EMPTY_ARRAY


HEALTHCARE: Final = (
    tool(search_patients, "healthcare", reads=["patients"]),
    tool(get_patient_record, "healthcare", reads=["patients"]),
    tool(update_patient_chart, "healthcare", writes=["patients"]),
    tool(get_schedule, "healthcare", reads=["appointments"]),
    tool(schedule_appointment, "healthcare", writes=["appointments"]),
    tool(cancel_appointment, "healthcare", writes=["appointments"]),
    tool(send_referral, "healthcare", writes=["sent_actions"]),
    tool(prescribe_medication, "healthcare", writes=["prescriptions"]),
    tool(get_prescriptions, "healthcare", reads=["prescriptions"]),
    tool(get_lab_results, "healthcare", reads=["lab_results"]),
)
