"""Legal: cases, billing, hearings and filings (docs/reference/tools.md, section 4.7)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import EMPTY_ARRAY, JsonObject, JsonValue
from ipistate.tools.arguments import given
from ipistate.tools.filters import ci, eq, eq_given, select, since, sub, until
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import contains, multiply, text, walk
from ipistate.tools.world import (
    Change,
    create,
    look_up,
    record,
    table,
    truthy,
    update,
)


@attrs.frozen(kw_only=True)
class CaseFile(Row):
    """A row of ``case_files``."""

    case_id: str
    client_name: str
    case_type: str | None = None
    status: str | None = None
    notes: str | None = None


@attrs.frozen(kw_only=True)
class BillingRecord(Row):
    """A row of ``billing_records``."""

    billing_id: str
    case_id: str
    date: str
    description: str | None = None
    hours: float | None = None
    rate: float | None = None
    amount: float | None = None
    billable: bool | None = None
    attorney: str | None = None


@attrs.frozen(kw_only=True)
class CourtSchedule(Row):
    """A row of ``court_schedules``."""

    schedule_id: str
    case_id: str
    scheduled_date: str
    hearing_type: str | None = None
    location: str | None = None
    notes: str | None = None


@attrs.frozen(kw_only=True)
class DocumentFiling(Row):
    """A row of ``document_filings``."""

    filing_id: str
    case_id: str
    document_type: str | None = None
    title: str | None = None
    filing_date: str | None = None
    court_name: str | None = None
    file_path: str | None = None
    served_parties: tuple[str, ...] = ()
    notes: str | None = None


RECORDS: Final[Records] = {
    "case_files": CaseFile,
    "billing_records": BillingRecord,
    "court_schedules": CourtSchedule,
    "document_filings": DocumentFiling,
}


def add_billing_entry(
    world: JsonObject,
    case_id: JsonValue,
    date: JsonValue,
    description: JsonValue,
    hours: JsonValue,
    rate: JsonValue,
    billable: JsonValue = True,
    attorney: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Add a billing entry to a case."""
    members = record(
        case_id=case_id,
        date=date,
        description=description,
        hours=hours,
        rate=rate,
        amount=multiply(hours, rate),
        billable=billable,
        **truthy(attorney=attorney),
    )
    world, row = create(world, "billing_records", ("billing_id", "BL-"), members)
    new_id = text(row["billing_id"])
    return world, f"Billing entry {new_id} added for case {text(case_id)}."


def get_billing_report(
    world: JsonObject,
    case_id: JsonValue = None,
    start_date: JsonValue = None,
    end_date: JsonValue = None,
    billable: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Read billing entries by case, dates or billability."""
    tests = (
        eq("case_id", case_id),
        since("date", start_date),
        until("date", end_date),
        eq_given("billable", billable),
    )
    return world, select(walk(table(world, "billing_records")), *tests)


def search_cases(
    world: JsonObject,
    client_name: JsonValue = None,
    case_type: JsonValue = None,
    status: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search cases by client, type or status."""
    tests = (
        sub("client_name", client_name),
        ci("case_type", case_type),
        ci("status", status),
    )
    return world, select(walk(table(world, "case_files")), *tests)


def get_case_file(world: JsonObject, case_id: JsonValue) -> Change:
    """Read a case file."""
    return world, look_up(table(world, "case_files"), case_id, "Case")


def update_case_notes(
    world: JsonObject, case_id: JsonValue, notes: JsonValue
) -> Change:
    """Replace a case's notes."""
    where = ("case_files", "Case", case_id)
    return update(
        world, where, {"notes": notes}, f"Case {text(case_id)} notes updated."
    )


def get_court_schedule(world: JsonObject, schedule_id: JsonValue) -> Change:
    """Read a court schedule entry."""
    return world, look_up(table(world, "court_schedules"), schedule_id, "Schedule")


def search_schedules(
    world: JsonObject,
    case_id: JsonValue = None,
    start_date: JsonValue = None,
    end_date: JsonValue = None,
    hearing_type: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search the court schedule by case, dates or hearing type."""
    tests = (
        eq("case_id", case_id),
        since("scheduled_date", start_date),
        until("scheduled_date", end_date),
        ci("hearing_type", hearing_type),
    )
    return world, select(walk(table(world, "court_schedules")), *tests)


def update_schedule_location(
    world: JsonObject,
    schedule_id: JsonValue,
    location: JsonValue = None,
    notes: JsonValue = None,
) -> Change:
    """Change a court schedule entry's location or notes."""
    members = given({"location": location, "notes": notes})
    reply = f"Schedule {text(schedule_id)} updated."
    if not members and contains(table(world, "court_schedules"), schedule_id):
        return world, reply  # the record itself is not looked at
    return update(world, ("court_schedules", "Schedule", schedule_id), members, reply)


def create_document_filing(
    world: JsonObject,
    case_id: JsonValue,
    document_type: JsonValue,
    title: JsonValue,
    filing_date: JsonValue,
    court_name: JsonValue,
    file_path: JsonValue,
    served_parties: JsonValue = None,
    notes: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Record a document filed with a court."""
    members = record(
        case_id=case_id,
        document_type=document_type,
        title=title,
        filing_date=filing_date,
        court_name=court_name,
        file_path=file_path,
        served_parties=served_parties or EMPTY_ARRAY,
        **truthy(notes=notes),
    )
    world, row = create(world, "document_filings", ("filing_id", "DF-"), members)
    new_id = text(row["filing_id"])
    return world, f"Document filing {new_id} created for case {text(case_id)}."


def get_document_filing(world: JsonObject, filing_id: JsonValue) -> Change:
    """Read a document filing."""
    return world, look_up(table(world, "document_filings"), filing_id, "Filing")


LEGAL: Final = (
    tool(add_billing_entry, "legal", writes=["billing_records"]),
    tool(get_billing_report, "legal", reads=["billing_records"]),
    tool(search_cases, "legal", reads=["case_files"]),
    tool(get_case_file, "legal", reads=["case_files"]),
    tool(update_case_notes, "legal", writes=["case_files"]),
    tool(get_court_schedule, "legal", reads=["court_schedules"]),
    tool(search_schedules, "legal", reads=["court_schedules"]),
    tool(update_schedule_location, "legal", writes=["court_schedules"]),
    tool(create_document_filing, "legal", writes=["document_filings"]),
    tool(get_document_filing, "legal", reads=["document_filings"]),
)
