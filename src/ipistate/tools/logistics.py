"""Logistics: shipments, customs, carriers and stock (docs/reference/tools.md, section 4.8)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import JsonObject, JsonValue
from ipistate.tools.arguments import given
from ipistate.tools.filters import eq, select
from ipistate.tools.messaging import current_sender, entries
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import (
    add,
    field,
    first_with,
    less,
    lower,
    text,
    walk,
)
from ipistate.tools.world import (
    Change,
    assign,
    create,
    enlist,
    look_up,
    put_back,
    record,
    revise,
    table,
    update,
)


@attrs.frozen(kw_only=True)
class Shipment(Row):
    """A row of ``shipments``."""

    shipment_id: str
    status: str | None = None
    origin: str | None = None
    eta: str | None = None
    notes: str | None = None


@attrs.frozen(kw_only=True)
class CustomsDeclaration(Row):
    """A row of ``customs_declarations``; created and updated ones differ in order."""

    declaration_id: str
    shipment_id: str
    hs_code: str | None = None
    declared_value: float | None = None
    status: str | None = None
    additional_info: str | None = None


@attrs.frozen(kw_only=True)
class DeliverySchedule(Row):
    """A row of ``delivery_schedules``."""

    schedule_id: str
    shipment_id: str
    date: str | None = None
    window: str | None = None


@attrs.frozen(kw_only=True)
class InventoryItem(Row):
    """A row of ``warehouse_inventories``."""

    inventory_id: str
    sku: str
    description: str | None = None
    quantity: float | None = None
    warehouse_location: str | None = None
    comments: str | None = None


RECORDS: Final[Records] = {
    "shipments": Shipment,
    "customs_declarations": CustomsDeclaration,
    "delivery_schedules": DeliverySchedule,
    "warehouse_inventories": InventoryItem,
}


def get_carrier_messages(
    world: JsonObject, shipment_id: JsonValue = None, **_: JsonValue
) -> Change:
    """Read carrier messages, optionally about one shipment."""
    messages = entries(table(world, "carrier_messages"))
    return world, select(messages, eq("shipment_id", shipment_id))


def send_carrier_message(
    world: JsonObject, to: JsonValue, subject: JsonValue, body: JsonValue
) -> Change:
    """Send a message to a carrier."""
    sender = current_sender(world, "system@logistics.example")
    message = record(
        **{"from": sender, "to": to}, subject=subject, body=body, timestamp="sent"
    )
    in_table = isinstance(world.get("carrier_messages"), dict)
    store = create if in_table else enlist
    world, _ = store(world, "carrier_messages", ("message_id", "CM-"), message)
    return world, f"Carrier message sent to {text(to)}."


def get_customs_declaration_by_shipment(
    world: JsonObject, shipment_id: JsonValue
) -> Change:
    """Read a shipment's customs declaration."""
    declarations = table(world, "customs_declarations")
    return world, _about(declarations, shipment_id, "customs declaration")


def submit_customs_declaration(
    world: JsonObject,
    shipment_id: JsonValue,
    hs_code: JsonValue,
    declared_value: JsonValue,
    additional_info: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Submit, or submit again, a shipment's customs declaration."""
    collection = "customs_declarations"
    declared = {"hs_code": hs_code, "declared_value": declared_value}
    more = given({"additional_info": additional_info})
    found = first_with(table(world, collection), "shipment_id", shipment_id)
    if found is not None:
        key, old = found
        row = assign(old, {**declared, **more, "status": "submitted"})
        return put_back(world, collection, key, row), row
    members = record(shipment_id=shipment_id, **declared, status="submitted", **more)
    return create(world, collection, ("declaration_id", "CD-"), members)


def get_delivery_schedule(world: JsonObject, shipment_id: JsonValue) -> Change:
    """Read a shipment's delivery schedule."""
    schedules = table(world, "delivery_schedules")
    return world, _about(schedules, shipment_id, "delivery schedule")


def _about(rows: JsonValue, shipment_id: JsonValue, noun: str) -> JsonValue:
    found = first_with(rows, "shipment_id", shipment_id)
    if found is None:
        return record(error=f"No {noun} found for shipment {text(shipment_id)}.")
    _, row = found
    return row


def get_shipment_by_id(world: JsonObject, shipment_id: JsonValue) -> Change:
    """Read a shipment."""
    return world, look_up(table(world, "shipments"), shipment_id, "Shipment")


def search_shipments_by_status(world: JsonObject, status: JsonValue) -> Change:
    """Search shipments by status."""
    wanted = lower(status)
    rows = walk(table(world, "shipments"))
    return world, select(rows, lambda row: lower(field(row, "status", "")) == wanted)


def update_shipment_status(
    world: JsonObject,
    shipment_id: JsonValue,
    status: JsonValue,
    eta: JsonValue = None,
    notes: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Set a shipment's status and, if given, its arrival time and notes."""
    members = {"status": status, **given({"eta": eta, "notes": notes})}
    reply = f"Shipment {text(shipment_id)} updated to status '{text(status)}'."
    return update(world, ("shipments", "Shipment", shipment_id), members, reply)


def get_warehouse_inventory_item(world: JsonObject, inventory_id: JsonValue) -> Change:
    """Read a warehouse inventory item."""
    items = table(world, "warehouse_inventories")
    return world, look_up(items, inventory_id, "Inventory item")


def list_low_stock_items(world: JsonObject, threshold: JsonValue) -> Change:
    """List the inventory items below a quantity."""
    rows = walk(table(world, "warehouse_inventories"))
    return world, select(rows, lambda row: less(field(row, "quantity", 0), threshold))


def add_warehouse_inventory(
    world: JsonObject,
    sku: JsonValue,
    description: JsonValue,
    quantity: JsonValue,
    warehouse_location: JsonValue,
    comments: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Add an item to the warehouse inventory."""
    members = record(
        sku=sku,
        description=description,
        quantity=quantity,
        warehouse_location=warehouse_location,
        **given({"comments": comments}),
    )
    form = ("inventory_id", "INV-")
    world, row = create(world, "warehouse_inventories", form, members)
    new_id = text(row["inventory_id"])
    return world, f"Inventory item {new_id} added (SKU: {text(sku)})."


def adjust_warehouse_quantity(
    world: JsonObject, inventory_id: JsonValue, adjustment: JsonValue
) -> Change:
    """Add to, or take from, an inventory item's quantity."""
    where = ("warehouse_inventories", "Inventory item", inventory_id)
    reply = f"Inventory {text(inventory_id)} quantity adjusted by {text(adjustment)}."

    def adjusted(row: JsonValue) -> dict[str, JsonValue]:
        return {"quantity": add(field(row, "quantity", 0), adjustment)}

    return revise(world, where, adjusted, reply)


LOGISTICS: Final = (
    tool(get_carrier_messages, "logistics", reads=["carrier_messages"]),
    tool(
        send_carrier_message,
        "logistics",
        reads=["current_user"],
        writes=["carrier_messages"],
    ),
    tool(
        get_customs_declaration_by_shipment, "logistics", reads=["customs_declarations"]
    ),
    tool(submit_customs_declaration, "logistics", writes=["customs_declarations"]),
    tool(get_delivery_schedule, "logistics", reads=["delivery_schedules"]),
    tool(get_shipment_by_id, "logistics", reads=["shipments"]),
    tool(search_shipments_by_status, "logistics", reads=["shipments"]),
    tool(update_shipment_status, "logistics", writes=["shipments"]),
    tool(get_warehouse_inventory_item, "logistics", reads=["warehouse_inventories"]),
    tool(list_low_stock_items, "logistics", reads=["warehouse_inventories"]),
    tool(add_warehouse_inventory, "logistics", writes=["warehouse_inventories"]),
    tool(adjust_warehouse_quantity, "logistics", writes=["warehouse_inventories"]),
)
