"""IT helpdesk: assets, incidents and articles (docs/reference/tools.md, section 4.6)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import JsonObject, JsonValue
from ipistate.tools.filters import ci_field_first, phrase, select, sub
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import text, walk
from ipistate.tools.world import Change, create, look_up, record, table, update


@attrs.frozen(kw_only=True)
class Asset(Row):
    """A row of ``assets``."""

    asset_id: str
    tag: str | None = None
    type: str | None = None
    status: str | None = None
    location: str | None = None
    notes: str | None = None


@attrs.frozen(kw_only=True)
class Article(Row):
    """A row of ``knowledge_base_articles``."""

    article_id: str
    title: str
    content: str
    category: str | None = None


@attrs.frozen(kw_only=True)
class Incident(Row):
    """A row of ``incidents``."""

    ticket_id: str
    title: str
    description: str | None = None
    status: str | None = None
    priority: str | None = None
    assigned_to: str | None = None


RECORDS: Final[Records] = {
    "assets": Asset,
    "knowledge_base_articles": Article,
    "incidents": Incident,
}


def search_assets(
    world: JsonObject,
    tag: JsonValue = None,
    type: JsonValue = None,  # noqa: A002 - the wire's name
    status: JsonValue = None,
    location: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search assets by tag, type, status or location."""
    tests = (
        sub("tag", tag),
        ci_field_first("type", type),
        ci_field_first("status", status),
        sub("location", location),
    )
    return world, select(walk(table(world, "assets")), *tests)


def get_asset(world: JsonObject, asset_id: JsonValue) -> Change:
    """Read an asset."""
    return world, look_up(table(world, "assets"), asset_id, "Asset")


def update_asset_notes(
    world: JsonObject, asset_id: JsonValue, notes: JsonValue
) -> Change:
    """Replace an asset's notes."""
    where = ("assets", "Asset", asset_id)
    return update(
        world, where, {"notes": notes}, f"Asset {text(asset_id)} notes updated."
    )


def search_kb_articles(
    world: JsonObject,
    keyword: JsonValue = None,
    category: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search knowledge base articles by keyword or category."""
    rows = walk(table(world, "knowledge_base_articles"))
    tests = ci_field_first("category", category), phrase(keyword, "title", "content")
    return world, select(rows, *tests)


def get_kb_article(world: JsonObject, article_id: JsonValue) -> Change:
    """Read a knowledge base article."""
    articles = table(world, "knowledge_base_articles")
    return world, look_up(articles, article_id, "Article")


def update_kb_article_content(
    world: JsonObject, article_id: JsonValue, content: JsonValue
) -> Change:
    """Replace a knowledge base article's content."""
    where = ("knowledge_base_articles", "Article", article_id)
    reply = f"Article {text(article_id)} content updated."
    return update(world, where, {"content": content}, reply)


def search_incidents(
    world: JsonObject,
    keyword: JsonValue = None,
    status: JsonValue = None,
    priority: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search incidents by keyword, status or priority."""
    tests = (
        ci_field_first("status", status),
        ci_field_first("priority", priority),
        phrase(keyword, "title", "description"),
    )
    return world, select(walk(table(world, "incidents")), *tests)


def get_incident(world: JsonObject, ticket_id: JsonValue) -> Change:
    """Read an incident."""
    return world, look_up(table(world, "incidents"), ticket_id, "Incident")


def update_incident_description(
    world: JsonObject, ticket_id: JsonValue, description: JsonValue
) -> Change:
    """Replace an incident's description."""
    where = ("incidents", "Incident", ticket_id)
    reply = f"Incident {text(ticket_id)} description updated."
    return update(world, where, {"description": description}, reply)


def create_incident(
    world: JsonObject,
    title: JsonValue,
    description: JsonValue,
    priority: JsonValue,
    assigned_to: JsonValue,
) -> Change:
    """Open an incident."""
    members = record(
        title=title,
        description=description,
        status="Open",
        priority=priority,
        assigned_to=assigned_to,
    )
    world, row = create(world, "incidents", ("ticket_id", "INC-"), members)
    return world, f"Incident {text(row['ticket_id'])} created."


IT_HELPDESK: Final = (
    tool(search_assets, "it_helpdesk", reads=["assets"]),
    tool(get_asset, "it_helpdesk", reads=["assets"]),
    tool(update_asset_notes, "it_helpdesk", writes=["assets"]),
    tool(search_kb_articles, "it_helpdesk", reads=["knowledge_base_articles"]),
    tool(get_kb_article, "it_helpdesk", reads=["knowledge_base_articles"]),
    tool(update_kb_article_content, "it_helpdesk", writes=["knowledge_base_articles"]),
    tool(search_incidents, "it_helpdesk", reads=["incidents"]),
    tool(get_incident, "it_helpdesk", reads=["incidents"]),
    tool(update_incident_description, "it_helpdesk", writes=["incidents"]),
    tool(create_incident, "it_helpdesk", writes=["incidents"]),
)
