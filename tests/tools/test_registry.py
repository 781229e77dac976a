"""What a tool says about itself, and tables of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import attrs
import pytest

from documents import at

from ipistate import TOOLS, Environment, Tool, ToolCall, call_tool, encode, replay
from ipistate.kernel import JsonObject, with_member
from ipistate.tools import RECORDS, function_definition, table_of, tool
from ipistate.tools.glossary import GLOSSARY


IGNORING = [
    "add_billing_entry",
    "add_warehouse_inventory",
    "adjust_financial_aid",
    "create_course",
    "create_document_filing",
    "create_property",
    "get_billing_report",
    "get_carrier_messages",
    "get_messages",
    "list_clients",
    "list_courses",
    "search_assets",
    "search_cases",
    "search_incidents",
    "search_kb_articles",
    "search_orders",
    "search_products",
    "search_properties",
    "search_schedules",
    "search_students",
    "send_message",
    "submit_customs_declaration",
    "submit_grade",
    "update_shipment_status",
]


def water(
    world: JsonObject, plant_id: str, liters: int = 1, **_: object
) -> tuple[JsonObject, str]:
    """Water a plant.

    The rest of the docstring is for people.
    """
    return with_member(world, "log", plant_id), f"{liters}"


def test_counts() -> None:
    """There are 97 tools, 106 registrations and 24 tools that ignore extras."""
    assert 97 == len(TOOLS)
    assert 106 == sum(len(one.domains) for one in TOOLS.values())
    assert sorted(IGNORING) == [n for n in sorted(TOOLS) if TOOLS[n].ignores_unknown]
    assert {*RECORDS} == {name for one in TOOLS.values() for name in one.domains}


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_each_tool_describes_itself(name: str) -> None:
    """Each tool has a name, a sentence, a schema and the collections it works on."""
    one = TOOLS[name]
    properties: Any = one.parameters["properties"]

    assert name == one.name == one.run.__name__
    assert one.description.endswith(".")
    assert "\n" not in one.description
    assert "object" == one.parameters["type"]
    assert [*one.names] == [*properties]
    assert [*one.required] == one.parameters["required"]
    assert all(
        at(schema, "type") and schema["description"] for schema in properties.values()
    )
    assert one.reads or one.writes


def test_glossary_has_no_strays() -> None:
    """Every entry of the glossary is a parameter of some tool."""
    used = {name for one in TOOLS.values() for name in one.names}

    assert used == {*GLOSSARY}


def test_tables_are_read_only() -> None:
    """The table of tools cannot be changed by accident."""
    with pytest.raises(TypeError):
        TOOLS["x"] = 1  # type: ignore[index]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        TOOLS["send_email"].name = "x"  # type: ignore[misc]


def test_making_a_tool() -> None:
    """A tool is made of a function: its name, docstring, parameters and defaults."""
    glossary = {"plant_id": {"type": "string"}}
    one = tool(water, "garden", "farm", reads=["a"], writes=["log"], glossary=glossary)

    assert ("water", "Water a plant.") == (one.name, one.description)
    assert (("garden", "farm"), ("a",), ("log",)) == (
        one.domains,
        one.reads,
        one.writes,
    )
    assert (("plant_id", "liters"), ("plant_id",)) == (one.names, one.required)
    assert (frozenset({"plant_id", "liters"}), frozenset({"plant_id"})) == (
        one.known,
        one.needed,
    )
    assert one.ignores_unknown
    assert (
        '{"type":"object","properties":{"plant_id":{"type":"string"},"liters":{}},'
        '"required":["plant_id"]}'
    ) == encode(one.parameters).decode()


def test_a_tool_without_a_docstring() -> None:
    """A function without a docstring makes a tool without a description."""

    def nothing(world: JsonObject) -> tuple[JsonObject, str]:
        return world, "done"

    one = tool(nothing)

    assert ("", (), (), False) == (
        one.description,
        one.names,
        one.domains,
        one.ignores_unknown,
    )
    assert "{}" == encode(one.parameters["properties"]).decode()


def test_glossary_is_the_default() -> None:
    """Parameters with a known name are described by the glossary."""

    def read(world: JsonObject, order_id: str) -> tuple[JsonObject, str]:
        """Read."""
        return world, order_id

    schema = at(tool(read).parameters, "properties", "order_id")

    assert {"type": "string", "description": "Id of the order."} == schema


class Callable:
    """An object that can be called, and has no name."""

    def __call__(self, world: JsonObject) -> tuple[JsonObject, str]:
        """Do nothing."""
        return world, "done"


def by_position(world: JsonObject, what: str, /) -> tuple[JsonObject, str]:
    """Take an argument by position only."""
    return world, what


def by_number(world: JsonObject, *what: str) -> tuple[JsonObject, str]:
    """Take any number of arguments."""
    return world, what[0]


def world_by_name(*, world: JsonObject) -> tuple[JsonObject, str]:
    """Take the world by name."""
    return world, "done"


def anything(**members: Any) -> tuple[JsonObject, str]:
    """Take no world."""
    return JsonObject(), str(members)


def nothing_at_all() -> tuple[JsonObject, str]:
    """Take nothing."""
    return JsonObject(), "done"


async def awaited(world: JsonObject) -> tuple[JsonObject, str]:
    """Return a result that has to be awaited."""
    return world, "done"


def yielding(world: JsonObject) -> Iterator[JsonObject]:
    """Return results one by one."""
    yield world


async def streaming(world: JsonObject) -> AsyncIterator[JsonObject]:
    """Return results one by one, awaited."""
    yield world


UNFIT: dict[str, tuple[Any, str]] = {
    "by position": (by_position, "by_position must take its arguments by name"),
    "by number": (by_number, "by_number must take its arguments by name"),
    "world by name": (world_by_name, "must take the world by position"),
    "no world": (anything, "must take the world by position"),
    "nothing": (nothing_at_all, "must take the world, first"),
    "async": (awaited, "must return its result at once"),
    "generator": (yielding, "must return its result at once"),
    "async generator": (streaming, "must return its result at once"),
    "class": (Environment, "Environment is a class"),
    "nameless": (Callable(), "takes a function with a name"),
    "partial": (partial(water, plant_id="P-1"), "takes a function with a name"),
    "no function": ("water", "takes a function, not str 'water'"),
    "a tool": (TOOLS["get_inbox"], "takes a function, not Tool"),
}


@pytest.mark.parametrize(("function", "reason"), UNFIT.values(), ids=UNFIT)
def test_d6_what_cannot_be_called_as_a_tool(function: Any, reason: str) -> None:
    """D6: a function that would fail at its first call is refused when it is made."""
    with pytest.raises(TypeError, match=reason) as caught:
        tool(function, "garden")

    assert "; write def name(world, argument" in str(caught.value)


def test_the_world_may_be_taken_in_any_way_by_position() -> None:
    """Only the arguments have names; how the world is called does not matter."""

    def first(world: JsonObject, /, what: str) -> tuple[JsonObject, str]:
        """Take the world by position only."""
        return world, what

    def several(*worlds: JsonObject) -> tuple[JsonObject, str]:
        """Take the world as one of several."""
        return worlds[0], "done"

    table = table_of([tool(first), tool(several)])
    world = Environment.of({})

    assert "x" == call_tool(world, "first", {"what": "x"}, tools=table).output
    assert "done" == call_tool(world, "several", {}, tools=table).output


@pytest.mark.parametrize("option", ["reads", "writes"])
@pytest.mark.parametrize("names", ["cars", b"cars", {"cars": 1}, 7])
def test_d6_collections_are_several_names(option: str, names: Any) -> None:
    """D6: one name in place of several is refused, and not read letter by letter."""
    with pytest.raises(TypeError, match=rf"{option}= takes names .* write {option}="):
        tool(water, "garden", **{option: names})


@pytest.mark.parametrize("group", ["ab", {"water": water}, [water], ["water"], 7])
def test_d6_a_table_is_made_of_tools(group: Any) -> None:
    """D6: functions and names in place of tools are refused when the table is made."""
    with pytest.raises(TypeError, match=r"; write table_of\("):
        table_of(group)


def test_table_of() -> None:
    """Groups are gathered in order; two tools of one name are refused."""
    one = tool(water)
    group = [TOOLS["send_email"], one]

    assert ["send_email", "water"] == [*table_of(group)]
    assert ["water", "get_inbox"] == [*table_of([one], [TOOLS["get_inbox"]])]
    assert {} == table_of()
    with pytest.raises(ValueError, match="two tools are called 'water'"):
        table_of(group, [one])


def test_function_definition() -> None:
    """A definition has the members of the Responses API, in their order."""
    definition = function_definition(tool(water))

    assert ["type", "name", "description", "parameters", "strict"] == [*definition]
    assert b'"strict":false' in encode(definition)
    assert definition["parameters"] is definition["parameters"]
    assert "function" == definition["type"]
    assert [len(TOOLS)] == [
        len({function_definition(one)["name"] for one in TOOLS.values()})
    ]


def test_a_tenth_domain() -> None:
    """Tools of a user's own are served by call_tool and replay without registration."""
    tools = table_of([tool(water)], TOOLS.values())
    world = Environment(JsonObject())
    done = call_tool(world, "water", {"plant_id": "P-1", "x": 1}, tools=tools)
    (again,) = replay(
        world, [ToolCall("water", JsonObject({"plant_id": "P-1"}))], tools=tools
    )

    assert ("1", b'{"log":"P-1"}') == (done.output, done.environment.to_json())
    assert done == again
    assert isinstance(tools["water"], Tool)
    assert "Unknown tool: water" == call_tool(world, "water", {}).output


def test_kinds_of_a_parameter() -> None:
    """The types of a schema, one or several; a parameter that has none takes anything."""
    glossary: dict[str, dict[str, Any]] = {
        "one": {"type": "string"},
        "two": {"type": ["number", "string"]},
    }

    def look(
        world: JsonObject, one: str, two: float, other: object
    ) -> tuple[JsonObject, str]:
        """Look."""
        return world, one

    made = tool(look, glossary=glossary)

    assert ("string",) == made.kinds_of("one")
    assert ("number", "string") == made.kinds_of("two")
    assert (None,) == made.kinds_of("other") == made.kinds_of("unknown")
