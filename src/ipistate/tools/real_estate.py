"""Real estate: clients, properties and inspections (docs/reference/tools.md, section 4.9)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import JsonObject, JsonValue, trusted_array
from ipistate.tools.filters import Test, at_least, at_most, phrase, select, sub
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import text, walk
from ipistate.tools.world import Change, create, look_up, record, table, truthy, update


@attrs.frozen(kw_only=True)
class Client(Row):
    """A row of ``clients``."""

    client_id: str
    name: str
    email: str | None = None
    notes: str | None = None


@attrs.frozen(kw_only=True)
class Property(Row):
    """A row of ``property_listings``."""

    property_id: str
    address: str
    price: float | None = None
    bedrooms: float | None = None
    bathrooms: float | None = None
    status: str | None = None
    description: str | None = None
    listing_date: str | None = None


@attrs.frozen(kw_only=True)
class InspectionReport(Row):
    """A row of ``inspection_reports``."""

    report_id: str
    property_id: str
    inspector_name: str | None = None
    inspection_date: str | None = None
    findings: str | None = None
    recommendations: str | None = None
    overall_condition: str | None = None


RECORDS: Final[Records] = {
    "clients": Client,
    "property_listings": Property,
    "inspection_reports": InspectionReport,
}


def list_clients(world: JsonObject, **_: JsonValue) -> Change:
    """List all clients."""
    return world, trusted_array(walk(table(world, "clients")))


def get_client_details(world: JsonObject, client_id: JsonValue) -> Change:
    """Read a client's details."""
    return world, look_up(table(world, "clients"), client_id, "Client")


def add_client_note(
    world: JsonObject, client_id: JsonValue, notes: JsonValue
) -> Change:
    """Replace the notes about a client."""
    where = ("clients", "Client", client_id)
    reply = f"Notes updated for client {text(client_id)}."
    return update(world, where, {"notes": notes}, reply)


def schedule_inspection(
    world: JsonObject,
    property_id: JsonValue,
    inspector_name: JsonValue,
    inspection_date: JsonValue,
) -> Change:
    """Schedule the inspection of a property."""
    members = record(
        property_id=property_id,
        inspector_name=inspector_name,
        inspection_date=inspection_date,
        findings="",
        recommendations="",
        overall_condition="",
    )
    world, row = create(world, "inspection_reports", ("report_id", "IR-"), members)
    new_id = text(row["report_id"])
    return world, f"Inspection {new_id} scheduled for property {text(property_id)}."


def get_inspection_report(world: JsonObject, report_id: JsonValue) -> Change:
    """Read an inspection report."""
    reports = table(world, "inspection_reports")
    return world, look_up(reports, report_id, "Inspection report")


def submit_inspection_findings(
    world: JsonObject,
    report_id: JsonValue,
    findings: JsonValue,
    recommendations: JsonValue,
) -> Change:
    """Replace an inspection report's findings and recommendations."""
    where = ("inspection_reports", "Inspection report", report_id)
    members = {"findings": findings, "recommendations": recommendations}
    reply = f"Findings submitted for inspection report {text(report_id)}."
    return update(world, where, members, reply)


def search_properties(
    world: JsonObject,
    keywords: JsonValue = None,
    min_price: JsonValue = None,
    max_price: JsonValue = None,
    location: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search properties by words, price or location."""
    tests: tuple[Test, ...] = (
        None if min_price is None else at_least("price", min_price, 0),
        None if max_price is None else at_most("price", max_price, 0),
        sub("address", location),
        phrase(keywords, "address", "description"),
    )
    return world, select(walk(table(world, "property_listings")), *tests)


def get_property_details(world: JsonObject, property_id: JsonValue) -> Change:
    """Read a property's details."""
    return world, look_up(table(world, "property_listings"), property_id, "Property")


def create_property(
    world: JsonObject,
    address: JsonValue,
    price: JsonValue,
    bedrooms: JsonValue,
    bathrooms: JsonValue,
    description: JsonValue = None,
    status: JsonValue = "active",
    listing_date: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """List a new property."""
    members = record(
        address=address,
        price=price,
        bedrooms=bedrooms,
        bathrooms=bathrooms,
        status=status,
        **truthy(description=description, listing_date=listing_date),
    )
    world, row = create(world, "property_listings", ("property_id", "PROP-"), members)
    new_id = text(row["property_id"])
    return world, f"Property {new_id} created at {text(address)}."


def update_property_description(
    world: JsonObject, property_id: JsonValue, description: JsonValue
) -> Change:
    """Replace a property's description."""
    where = ("property_listings", "Property", property_id)
    reply = f"Property {text(property_id)} description updated."
    return update(world, where, {"description": description}, reply)


REAL_ESTATE: Final = (
    tool(list_clients, "real_estate", reads=["clients"]),
    tool(get_client_details, "real_estate", reads=["clients"]),
    tool(add_client_note, "real_estate", writes=["clients"]),
    tool(schedule_inspection, "real_estate", writes=["inspection_reports"]),
    tool(get_inspection_report, "real_estate", reads=["inspection_reports"]),
    tool(submit_inspection_findings, "real_estate", writes=["inspection_reports"]),
    tool(search_properties, "real_estate", reads=["property_listings"]),
    tool(get_property_details, "real_estate", reads=["property_listings"]),
    tool(create_property, "real_estate", writes=["property_listings"]),
    tool(update_property_description, "real_estate", writes=["property_listings"]),
)
