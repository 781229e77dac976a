"""E-commerce: orders, products, refunds and tickets (docs/reference/tools.md, section 4.3)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import JsonObject, JsonValue
from ipistate.tools.filters import ci_field_first, eq, phrase, select
from ipistate.tools.keys import json_key
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import Absent, find, text, walk
from ipistate.tools.world import (
    Change,
    assign,
    create,
    join,
    look_up,
    put_back,
    record,
    revise,
    table,
    truthy,
    update,
)


@attrs.frozen(kw_only=True)
class Order(Row):
    """A row of ``orders``."""

    order_id: str
    customer_id: str
    status: str | None = None
    total: float | None = None
    items: JsonValue = None
    notes: str | None = None


@attrs.frozen(kw_only=True)
class Product(Row):
    """A row of ``products``."""

    product_id: str
    name: str
    category: str | None = None
    description: str | None = None
    price: float | None = None
    stock_quantity: float | None = None


@attrs.frozen(kw_only=True)
class Refund(Row):
    """A row of ``refunds``; created and updated ones differ in order."""

    refund_id: str
    amount: float
    status: str
    order_id: str | None = None
    reason: str | None = None
    admin_notes: str | None = None


@attrs.frozen(kw_only=True)
class Ticket(Row):
    """A row of ``support_tickets``."""

    ticket_id: str
    customer_id: str
    subject: str | None = None
    description: str | None = None
    status: str | None = None
    priority: str | None = None
    order_id: str | None = None


RECORDS: Final[Records] = {
    "orders": Order,
    "products": Product,
    "refunds": Refund,
    "support_tickets": Ticket,
}


def search_orders(
    world: JsonObject,
    customer_id: JsonValue = None,
    status: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search orders by customer or status."""
    rows = walk(table(world, "orders"))
    tests = eq("customer_id", customer_id), ci_field_first("status", status)
    return world, select(rows, *tests)


def get_order_details(world: JsonObject, order_id: JsonValue) -> Change:
    """Read an order's details."""
    return world, look_up(table(world, "orders"), order_id, "Order")


def update_order_status(
    world: JsonObject, order_id: JsonValue, status: JsonValue
) -> Change:
    """Set an order's status."""
    where = ("orders", "Order", order_id)
    reply = f"Order {text(order_id)} status updated to '{text(status)}'."
    return update(world, where, {"status": status}, reply)


def add_order_note(world: JsonObject, order_id: JsonValue, note: JsonValue) -> Change:
    """Add a note to an order."""
    where = ("orders", "Order", order_id)
    reply = f"Note added to order {text(order_id)}."
    return revise(world, where, lambda row: {"notes": join(row, "notes", note)}, reply)


def search_products(
    world: JsonObject,
    query: JsonValue = None,
    category: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search products by text or category."""
    rows = walk(table(world, "products"))
    tests = ci_field_first("category", category), phrase(query, "name", "description")
    return world, select(rows, *tests)


def get_product_details(world: JsonObject, product_id: JsonValue) -> Change:
    """Read a product's details."""
    return world, look_up(table(world, "products"), product_id, "Product")


def update_product_stock(
    world: JsonObject, product_id: JsonValue, stock_quantity: JsonValue
) -> Change:
    """Set the stock of a product."""
    where = ("products", "Product", product_id)
    reply = f"Stock updated for product {text(product_id)} to {text(stock_quantity)}."
    return update(world, where, {"stock_quantity": stock_quantity}, reply)


def process_refund(
    world: JsonObject,
    refund_id: JsonValue,
    amount: JsonValue,
    reason: JsonValue = None,
    admin_notes: JsonValue = None,
) -> Change:
    """Process a refund, or open and process a new one."""
    reply = f"Refund {text(refund_id)} processed for ${text(amount)}."
    why = truthy(reason=reason, admin_notes=admin_notes)
    refunds = table(world, "refunds")
    key = json_key(refunds, refund_id)
    found = find(refunds, key)
    if isinstance(found, Absent):
        new = record(refund_id=refund_id, amount=amount, status="processed", **why)
        return put_back(world, "refunds", key, new), reply
    row = assign(found, {"status": "processed", "amount": amount, **why})
    return put_back(world, "refunds", key, row), reply


def create_support_ticket(
    world: JsonObject,
    customer_id: JsonValue,
    subject: JsonValue,
    description: JsonValue,
    order_id: JsonValue = None,
    priority: JsonValue = "medium",
) -> Change:
    """Open a support ticket for a customer."""
    members = record(
        customer_id=customer_id,
        subject=subject,
        description=description,
        status="open",
        priority=priority,
        **truthy(order_id=order_id),
    )
    world, row = create(world, "support_tickets", ("ticket_id", "T-"), members)
    return world, f"Support ticket {text(row['ticket_id'])} created."


def get_ticket_details(world: JsonObject, ticket_id: JsonValue) -> Change:
    """Read a support ticket's details."""
    return world, look_up(table(world, "support_tickets"), ticket_id, "Ticket")


def update_ticket_status(
    world: JsonObject,
    ticket_id: JsonValue,
    status: JsonValue,
    priority: JsonValue = None,
) -> Change:
    """Set a support ticket's status and, if given, its priority."""
    where = ("support_tickets", "Ticket", ticket_id)
    reply = f"Ticket {text(ticket_id)} updated to status '{text(status)}'."
    return update(world, where, {"status": status, **truthy(priority=priority)}, reply)


ECOMMERCE: Final = (
    tool(search_orders, "ecommerce", reads=["orders"]),
    tool(get_order_details, "ecommerce", reads=["orders"]),
    tool(update_order_status, "ecommerce", writes=["orders"]),
    tool(add_order_note, "ecommerce", writes=["orders"]),
    tool(search_products, "ecommerce", reads=["products"]),
    tool(get_product_details, "ecommerce", reads=["products"]),
    tool(update_product_stock, "ecommerce", writes=["products"]),
    tool(process_refund, "ecommerce", writes=["refunds"]),
    tool(create_support_ticket, "ecommerce", writes=["support_tickets"]),
    tool(get_ticket_details, "ecommerce", reads=["support_tickets"]),
    tool(update_ticket_status, "ecommerce", writes=["support_tickets"]),
)
