"""One call in, one world and one reply out; whatever a model sends is answered."""

from __future__ import annotations

import datetime as dt
import json

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from documents import at
from hypothesis import given

from ipistate import (
    TOOLS,
    EncodeError,
    Environment,
    IPICheckpointState,
    JsonArray,
    JsonObject,
    SchemaError,
    Session,
    ToolCall,
    ToolError,
    Transition,
    UnknownTool,
    call_tool,
    decode,
    encode,
    freeze,
    replay,
)
from ipistate.kernel import (
    EMPTY_OBJECT,
    MAX_DEPTH,
    JsonValue,
    trusted_object,
    with_member,
)
from ipistate.testing import json_names, json_values, plain_json, worlds
from ipistate.tools import RECORDS, table_of, tool, world_after
from ipistate.tools.world import append, create, enlist, place, record, update


WORLD = Environment.of(
    {
        "patients": {"P-1": {"patient_id": "P-1", "name": "Ada", "chart_notes": "old"}},
        "products": {
            "A": {"name": "Apple", "description": "", "stock_quantity": 3},
            "B": {"name": "Bread", "description": "", "stock_quantity": 0},
        },
        "warehouse_inventories": {
            "I-1": {"inventory_id": "I-1", "quantity": 3},
            "I-2": {"inventory_id": "I-2", "quantity": "many"},
        },
        "orders": {"O-1": {"order_id": "O-1", "customer_id": "C-1"}},
    }
)


def output(
    name: str, arguments: dict[str, int | str], world: Environment = WORLD
) -> str:
    """Return the reply to a call."""
    return call_tool(world, name, arguments).output


def test_unknown_tools() -> None:
    """An unknown name is answered with the name as it came, and changes nothing."""
    for name in ("", "Send_Email", "send_email ", "verify", "\ud83d", "a\nb"):
        done = call_tool(WORLD, name, {"env": 1})
        reply = f"Unknown tool: {name}"
        error = UnknownTool("UnknownTool", reply, name, tuple(TOOLS))
        assert Transition(WORLD, reply, error) == done
        assert WORLD is done.environment


def test_reading_and_writing() -> None:
    """A reading call returns its input world, a writing call a new one."""
    read = call_tool(WORLD, "get_patient_record", {"patient_id": "P-1"})
    written = call_tool(
        WORLD, "update_patient_chart", {"patient_id": "P-1", "notes": "x"}
    )

    assert read.environment is WORLD
    assert '{"patient_id": "P-1", "name": "Ada", "chart_notes": "old"}' == read.output
    assert "old\nx" == at(
        written.environment.document, "patients", "P-1", "chart_notes"
    )
    assert "old" == at(WORLD.document, "patients", "P-1", "chart_notes")
    assert (None, None) == (read.error, written.error)


def test_text_replies_are_not_quoted() -> None:
    """A text is sent as it is, also by a tool that usually sends JSON."""
    world = Environment.of({"patients": {"P-1": "a\u2028é", "P-2": None}})

    assert "a\u2028é" == output("get_patient_record", {"patient_id": "P-1"}, world)
    assert "null" == output("get_patient_record", {"patient_id": "P-2"}, world)


def test_errors_are_answers() -> None:
    """A failing call names tool, exception and message; its world is its input."""
    done = call_tool(WORLD, "get_schedule", {"date": "x"})

    assert (
        "Error executing tool 'get_schedule' (KeyError): 'appointments'" == done.output
    )
    assert ToolError("KeyError", "'appointments'") == done.error
    assert WORLD is done.environment


@given(plain_json().filter(lambda value: not isinstance(value, dict)))
def test_arguments_that_are_no_object(value: Any) -> None:
    """Arguments of another kind are answered, not raised."""
    done = call_tool(WORLD, "get_inbox", value)
    name = type(value).__name__

    assert done.error is not None
    assert f"arguments must be an object, not {name}" == done.error.message
    assert WORLD is done.environment


def test_arguments_that_are_no_json() -> None:
    """Arguments that no model can send are the caller's mistake, with their path."""
    for bad, path in (
        (dt.date(2026, 3, 1), "$.a"),
        (float("nan"), "$.a"),
        ({1: 2}, "$.a"),
    ):
        with pytest.raises(EncodeError) as caught:
            call_tool(WORLD, "get_inbox", {"a": bad})
        assert path == caught.value.path


@given(worlds(RECORDS["hr"]), json_names(), json_values())
def test_total(world: Environment, name: str, arguments: JsonValue) -> None:
    """Whatever a model sends is answered with a text."""
    for called in (name, "send_email", "search_candidates"):
        done = call_tool(world, called, arguments)
        assert isinstance(done.output, str)
        assert done.error is None or world is done.environment


def test_replay_is_lazy_and_continues() -> None:
    """Replaying yields each transition as it is asked for, each from the last world."""
    calls = [
        ToolCall("update_patient_chart", JsonObject({"patient_id": "P-1", "notes": n}))
        for n in "ab"
    ]
    steps = replay(WORLD, iter(calls))
    first, second = next(steps), next(steps)

    assert "old\na" == at(first.environment.document, "patients", "P-1", "chart_notes")
    assert "old\na\nb" == at(
        second.environment.document, "patients", "P-1", "chart_notes"
    )
    assert [] == [*steps]
    assert [] == [*replay(WORLD, [])]


def test_calls_without_arguments() -> None:
    """A call may have no arguments at all."""
    (step,) = replay(WORLD, [ToolCall("get_open_positions")])

    assert "[]" == step.output


def broken(world: JsonObject, how: str) -> tuple[Any, Any]:
    """Do something that no tool should do."""
    if how == "raise":
        raise ZeroDivisionError("division by zero")
    if how == "date":
        return {**world, "when": dt.date(2026, 3, 1)}, "done"
    if how == "list":
        return [world], "done"
    if how == "plain":
        return {"a": {"b": [1]}}, {"c": (1, 2)}
    if how == "reply":
        return with_member(world, "a", 1), {1, 2}
    if how == "deep reply":
        return world, [world] * 2 + [None]
    return None, "done"


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("raise", "ZeroDivisionError", "division by zero"),
        ("date", "EncodeError", "$.when: JSON cannot carry datetime.date"),
        ("list", "SchemaError", "an environment is a JSON object"),
        ("reply", "EncodeError", "$: JSON cannot carry builtins.set"),
        ("none", "SchemaError", "an environment is a JSON object"),
    ],
)
def test_b22_a_users_tool_that_breaks_the_rules(
    how: str, kind: str, message: str
) -> None:
    """B22: what a plug-in returns is checked; the call is refused and nothing changes."""
    done = call_tool(WORLD, "broken", {"how": how}, tools=table_of([tool(broken)]))

    assert done.error is not None
    assert kind == done.error.type
    assert message in done.error.message
    assert WORLD is done.environment
    assert (
        f"Error executing tool 'broken' ({kind}): {done.error.message}" == done.output
    )


ODD_PARTS = {
    "date": dt.date(2026, 3, 1),
    "nan": float("nan"),
    "set": {1},
    "key": {1: 2},
}


def storing(world: JsonObject, how: str, what: str) -> tuple[JsonObject, JsonValue]:
    """Store something with the operations that tools are written with."""
    odd: Any = ODD_PARTS[what]
    if how == "update":
        return update(world, ("patients", "Patient", "P-1"), {"at": odd}, "done")
    if how == "create":
        row: Any = {"at": odd}
        return create(world, "rows", ("id", "R-"), row)
    if how == "enlist":
        row = {"at": odd}
        return enlist(world, "rows", ("id", "R-"), row)
    return append(world, "messages", record(at=odd)), "done"


@pytest.mark.parametrize("how", ["update", "create", "enlist", "append"])
@pytest.mark.parametrize("what", ODD_PARTS)
def test_b22_operations_store_json_only(how: str, what: str) -> None:
    """B22: no operation that stores takes what JSON cannot carry."""
    tools = table_of([tool(storing)])
    done = call_tool(WORLD, "storing", {"how": how, "what": what}, tools=tools)

    assert done.error is not None
    assert "EncodeError" == done.error.type
    assert WORLD is done.environment


def test_b26_operations_keep_no_foreign_list() -> None:
    """B26: plain data that is stored is copied first."""
    mine: Any = [1]
    world = append(WORLD.document, "rows", record(list=mine))
    world, _ = update(world, ("patients", "Patient", "P-1"), {"list": mine}, "done")
    before = encode(world)
    mine.append(2)

    assert before == encode(world)
    assert JsonArray is type(at(world, "patients", "P-1", "list"))


def growing(world: JsonObject) -> tuple[JsonObject, str]:
    """Nest the whole world once more."""
    inner: Any = place(EMPTY_OBJECT, "inner", world)
    return inner, "done"


def test_b17_a_users_tool_cannot_nest_without_end() -> None:
    """B17: the limit is checked on the resulting world, call after call."""
    tools = table_of([tool(growing)])
    world = Environment.of({})
    for _ in range(MAX_DEPTH - 1):
        step = call_tool(world, "growing", {}, tools=tools)
        assert step.error is None
        world = step.environment
    refused = call_tool(world, "growing", {}, tools=tools)

    assert refused.error is not None
    assert "EncodeError" == refused.error.type
    assert world is refused.environment
    assert world.document == Environment.from_json(world.to_json()).document


class Speechless(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> NoReturn:
        raise RuntimeError


def test_an_error_that_cannot_be_printed() -> None:
    """A tool's exception is an answer even if it cannot be printed."""

    def fail(world: JsonObject) -> NoReturn:
        raise Speechless

    done = call_tool(WORLD, "fail", {}, tools=table_of([tool(fail)]))

    assert "Error executing tool 'fail' (Speechless): " == done.output


def test_a_users_tool_may_return_plain_data() -> None:
    """Plain data from a plug-in is frozen; its reply may be any JSON."""
    tools = table_of([tool(broken)])
    done = call_tool(WORLD, "broken", {"how": "plain"}, tools=tools)

    assert b'{"a":{"b":[1]}}' == done.environment.to_json()
    assert JsonObject is type(done.environment.document["a"])
    assert '{"c": [1, 2]}' == done.output
    reply = call_tool(WORLD, "broken", {"how": "deep reply"}, tools=tools).output
    assert json.dumps([WORLD.document] * 2 + [None]) == reply


def test_interrupts_are_not_answers() -> None:
    """An interrupt of the process is not swallowed."""

    def stop(world: JsonObject) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_tool(WORLD, "stop", {}, tools=table_of([tool(stop)]))


def test_b08_infinite_products_are_refused() -> None:
    """B08: two finite numbers whose product is infinite are answered with an error."""
    entry = {"case_id": "C", "date": "d", "description": "x", "hours": 1e200}
    done = call_tool(WORLD, "add_billing_entry", {**entry, "rate": 1e200})
    after = call_tool(done.environment, "add_billing_entry", {**entry, "rate": 2})

    assert ToolError("OverflowError", "the result is not a finite number") == done.error
    assert WORLD is done.environment
    assert after.error is None
    assert after.environment.document == decode(after.environment.to_json())


def test_b64_reserved_and_prefixed_names() -> None:
    """B64: names of routes and prefixed names are no tools, in no spelling."""
    for name in ("verify", "close_session", "..%2Fverify", "mcp__ipi__send_message"):
        assert name not in TOOLS
        assert f"Unknown tool: {name}" == output(name, {})


def test_b71_numbers_as_text_as_the_reference_does() -> None:
    """B71: by default text is stored as it came, and a product repeats it."""
    entry = {"case_id": "C", "date": "d", "description": "x", "hours": "2", "rate": 3}
    world = call_tool(WORLD, "add_billing_entry", entry).environment
    (row,) = at(world.document, "billing_records").values()
    stock = {"product_id": "A", "stock_quantity": "12"}
    world = call_tool(world, "update_product_stock", stock).environment

    assert "222" == at(row, "amount")
    assert "12" == at(world.document, "products", "A", "stock_quantity")


def test_b73_missing_null_and_empty_arguments() -> None:
    """B73: missing and null are errors that name the argument; empty is intended."""
    missing = "missing 1 required positional argument: 'notes'"
    chart = {"patient_id": "P-1"}
    for arguments in (chart, {**chart, "notes": None}):
        done = call_tool(WORLD, "update_patient_chart", arguments)
        assert done.error is not None
        assert f"update_patient_chart() {missing}" == done.error.message
        assert WORLD is done.environment
    empty = call_tool(WORLD, "update_patient_chart", {**chart, "notes": ""})
    assert "old\n" == at(empty.environment.document, "patients", "P-1", "chart_notes")
    null = call_tool(WORLD, "update_patient_chart", None)
    assert null.error is not None
    assert "arguments must be an object, not NoneType" == null.error.message


def test_b74_arguments_of_the_wrong_kind() -> None:
    """B74: arguments are objects, never decoded twice; inner texts stay texts."""
    for arguments in ('{"order_id": "O-1"}', [1], True):
        done = call_tool(WORLD, "get_order_details", freeze(arguments))
        assert done.error is not None
        assert "TypeError" == done.error.type
        assert done.error.message.startswith("arguments must be an object, not ")
    sent = call_tool(WORLD, "send_message", {"recipients": '["a@b.test"]'})
    assert 'Message sent to ["a@b.test"].' == sent.output


def test_b76_one_bad_record_as_in_the_reference() -> None:
    """B76: by default a text quantity fails the listing, and other tools still work."""
    done = call_tool(WORLD, "list_low_stock_items", {"threshold": 5})
    stock = {"product_id": "A", "stock_quantity": "many"}
    world = call_tool(WORLD, "update_product_stock", stock).environment
    items = json.loads(output("search_products", {}, world))

    expected = "'<' not supported between instances of 'str' and 'int'"
    assert ToolError("TypeError", expected) == done.error
    assert ["Apple", "Bread"] == [item["name"] for item in items]
    found = output("get_warehouse_inventory_item", {"inventory_id": "I-1"})
    assert '{"inventory_id": "I-1", "quantity": 3}' == found


def test_b77_ranges_and_references_as_in_the_reference() -> None:
    """B77: by default stock may become negative and an unknown order be refunded."""
    adjust = {"inventory_id": "I-1", "adjustment": -50}
    world = call_tool(WORLD, "adjust_warehouse_quantity", adjust).environment
    refund: dict[str, int | str] = {"refund_id": "O-404", "amount": 9}

    assert -47 == at(world.document, "warehouse_inventories", "I-1", "quantity")
    assert "Refund O-404 processed for $9." == output("process_refund", refund)


@pytest.mark.parametrize(
    ("tool_name", "collection", "arguments"),
    [
        ("process_refund", "refunds", {"refund_id": 5, "amount": 1}),
        (
            "prescribe_medication",
            "prescriptions",
            {"patient_id": 5, "medication": "m", "dosage": "d", "instructions": "i"},
        ),
    ],
)
def test_ids_that_are_numbers_are_texts(
    tool_name: str, collection: str, arguments: dict[str, int | str]
) -> None:
    """A number as an id is the key that its JSON text is, found by either."""
    world = call_tool(Environment.of({}), tool_name, arguments).environment
    key = next(iter(arguments))
    again = call_tool(world, tool_name, {**arguments, key: "5"}).environment
    for value, text in ((5, "5"), (1.5, "1.5"), (True, "true"), (1e16, "1e+16")):
        other = call_tool(Environment.of({}), tool_name, {**arguments, key: value})
        assert [text] == [*at(other.environment.document, collection)]

    assert ["5"] == [*at(world.document, collection)]
    assert ["5"] == [*at(again.document, collection)]


def test_deep_results_are_refused() -> None:
    """A call whose result passes the depth limit is answered and changes nothing."""
    deep = freeze(json.loads("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)))
    world = Environment(trusted_object({"prescriptions": JsonObject()}))
    call = {"patient_id": "P", "medication": deep, "dosage": 1, "instructions": 1}
    done = call_tool(world, "prescribe_medication", call)

    assert ToolError("ValueError", "more than 200 levels of nesting") == done.error
    assert world is done.environment


def test_the_world_after_calls() -> None:
    """It is the one that the last call left; without calls it is the first."""
    call = ToolCall("update_patient_chart", {"patient_id": "P-1", "notes": "x"})
    steps = [*replay(WORLD, [call, call])]

    assert steps[-1].environment == world_after(WORLD, [call, call])
    assert WORLD is world_after(WORLD, [])


MISUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a dict as the world": (
        lambda: call_tool({"patients": {}}, "get_inbox", {}),  # type: ignore[arg-type]
        r"made in an Environment, not dict; write Environment.of\(world\)",
    ),
    "a document as the world": (
        lambda: call_tool(WORLD.document, "nope", {}),  # type: ignore[arg-type]
        r"write Environment.of\(world\)",
    ),
    "no world": (
        lambda: call_tool(None, "get_inbox", {}),  # type: ignore[arg-type]
        r"write Environment.of\(world\)",
    ),
    "a session as the world": (
        lambda: call_tool(Session(WORLD), "get_inbox", {}),  # type: ignore[arg-type]
        "write session.environment",
    ),
    "a state as the world": (
        lambda: call_tool(IPICheckpointState(WORLD), "get_inbox", {}),  # type: ignore[arg-type]
        "write ipicheckpointstate.environment",
    ),
    "a tool as the name": (
        lambda: call_tool(WORLD, TOOLS["get_inbox"], {}),  # type: ignore[arg-type]
        "called by its name, not Tool",
    ),
    "a list as the table": (
        lambda: call_tool(WORLD, "get_inbox", {}, tools=[TOOLS["get_inbox"]]),  # type: ignore[arg-type]
        r"takes a table, not list; write table_of",
    ),
    "a function in the table": (
        lambda: call_tool(WORLD, "f", {}, tools={"f": print}),  # type: ignore[dict-item]
        r"write table_of\(\[tool\(function",
    ),
    "names as calls": (
        lambda: [*replay(WORLD, ["get_inbox"])],  # type: ignore[list-item]
        r"calls are ToolCalls, not str 'get_inbox'; write ToolCall\(",
    ),
    "one name as calls": (
        lambda: world_after(WORLD, "get_inbox"),  # type: ignore[arg-type]
        "calls are ToolCalls, not str 'g'",
    ),
    "a dict as the world of a replay": (
        lambda: [*replay({}, [ToolCall("get_inbox")])],  # type: ignore[arg-type]
        r"write Environment.of\(world\)",
    ),
}


@pytest.mark.parametrize(("misuse", "hint"), MISUSED.values(), ids=MISUSED)
def test_d6_misuse_is_no_reply(misuse: Callable[[], object], hint: str) -> None:
    """D6: a wrong kind of argument is the caller's error, with what to write instead."""
    with pytest.raises(TypeError, match=hint):
        misuse()


@pytest.mark.parametrize("arguments", ["{}", None, 3, [1]])
def test_d6_a_call_has_an_object_as_arguments(arguments: Any) -> None:
    """D6: a call with arguments of another kind cannot be made."""
    with pytest.raises(SchemaError, match="arguments are an object") as caught:
        ToolCall("get_inbox", arguments)

    assert "wrong_type" == caught.value.code


def test_d5_a_transition_shows_its_output_first() -> None:
    """D5: what the model reads stands first, then the error and the size of the world."""
    done = call_tool(WORLD, "get_patient_recrod", {})

    assert repr(done).startswith("Transition(output='Unknown tool: get_patient_recrod'")
    assert "suggestion='get_patient_record'" in repr(done)
    assert "environment=Environment(patients: 1, " in repr(done)


def test_d5_a_transition_in_a_notebook() -> None:
    """D5: a notebook shows reply, error and world; a hostile reply is text."""
    world = Environment.of({"patients": {"P-1": "<script>"}})
    read = call_tool(world, "get_patient_record", {"patient_id": "P-1"})
    page = read._repr_html_()

    assert "<td>&lt;script&gt;</td>" in page
    assert "<td>error</td><td></td>" in page
    assert "Environment(patients: 1)" in page
    assert "UnknownTool" in call_tool(world, "nope", {})._repr_html_()
