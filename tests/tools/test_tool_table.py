"""A table of tools: read-only, short when printed, helpful about names it lacks."""

from __future__ import annotations

import copy
import pickle

from inspect import signature
from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    TOOLS,
    Environment,
    ImmutableError,
    Session,
    UnknownTool,
    call_tool,
    replay,
    verify,
)
from ipistate.testing import json_names
from ipistate.tools import ToolTable, nearest, table_of


WORLD = Environment.of({"messages": []})


def edits(name: str) -> st.SearchStrategy[str]:
    """Draw a name with one letter lost, doubled, or in upper case."""
    places = st.integers(0, len(name) - 1)
    return st.one_of(
        places.map(lambda n: name[:n] + name[n + 1 :]),
        places.map(lambda n: name[:n] + name[n] + name[n:]),
        places.map(lambda n: name[:n] + name[n].upper() + name[n + 1 :]),
    )


@given(st.sampled_from(sorted(TOOLS)).flatmap(edits).filter(lambda n: n not in TOOLS))
def test_d7_a_misspelt_tool_is_suggested(name: str) -> None:
    """D7: one typing error leads to a tool, whose name is hardly another one."""
    done = call_tool(WORLD, name, {})

    assert f"Unknown tool: {name}" == done.output
    assert WORLD is done.environment
    assert isinstance(done.error, UnknownTool)
    assert "unknown_tool" == done.error.code
    assert done.error.suggestion in TOOLS


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("functions.send_message", "send_message"),
        ("mcp__ipi__send_message", "send_message"),
        ("SEND_MESSAGE", "send_message"),
        ("get_patient_recrod", "get_patient_record"),
        ("resend_message", "send_message"),
        ("fly", None),
        ("", None),
        ("send_message" * 20_000, None),
        ("\ud83d", None),
    ],
)
def test_d7_which_tool_is_meant(name: str, meant: str | None) -> None:
    """D7: a prefix is seen through; what is like no tool, or too long, means none."""
    assert meant == nearest(name, TOOLS)


def test_d7_a_longer_name_goes_first() -> None:
    """D7: of two tools that a name ends with the longer one is meant."""
    assert "a_message" == nearest("x.a_message", ["message", "a_message"])
    assert "message" == nearest("xmessage", ["message"])


@given(json_names())
def test_d7_no_name_costs_before_it_is_asked_about(name: str) -> None:
    """D7: an answered call only notes the names; what is near is found when asked."""
    done = call_tool(WORLD, name, {})

    assert isinstance(done.error, UnknownTool)
    assert (name, tuple(TOOLS)) == (done.error.name, done.error.known)
    assert pickle.loads(pickle.dumps(done)) == done


def test_d7_a_table_names_what_was_meant() -> None:
    """D7: a subscript with a wrong name fails as ever, and says which one was meant."""
    with pytest.raises(KeyError, match="did you mean 'send_message'"):
        TOOLS["send_mesage"]
    with pytest.raises(KeyError, match="no tool is called 'fly'\""):
        TOOLS["fly"]
    assert TOOLS.get("fly") is None
    assert "fly" not in TOOLS


@pytest.mark.parametrize("function", [call_tool, replay, verify, Session.step])
def test_d5_help_does_not_print_the_tools(function: Any) -> None:
    """D5: the help on a function that takes a table shows it in a few characters."""
    assert len(str(signature(function))) < 400


def test_d5_a_table_is_shown_by_its_size() -> None:
    """D5: a table of tools is printed as how many there are."""
    assert "ToolTable(97 tools)" == repr(TOOLS)
    assert "ToolTable(0 tools)" == repr(table_of())


def test_a_table_cannot_be_changed() -> None:
    """Every way to change a table is refused, and copies are the table itself."""
    table: Any = table_of([TOOLS["get_inbox"]])
    changes = (
        lambda: table.update(x=1),
        lambda: table.pop("get_inbox"),
        table.clear,
        table.popitem,
        lambda: table.setdefault("x", 1),
        lambda: table.__delitem__("get_inbox"),
        lambda: table.__ior__({}),
    )
    for change in changes:
        with pytest.raises(ImmutableError):
            change()

    assert ["get_inbox"] == [*table]
    assert table is table.copy() is copy.copy(table) is copy.deepcopy(table)


def test_a_table_can_be_pickled() -> None:
    """A table whose functions can be found by name goes to another process."""
    table = table_of([TOOLS["get_inbox"]])
    back = pickle.loads(pickle.dumps(table))

    assert table == back
    assert ToolTable is type(back)
    assert dict is type({**TOOLS})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_built_in_table_is_pickled_by_name(protocol: int) -> None:
    """The built-in table is in every process, so a pickle of it is its name."""
    text = pickle.dumps(TOOLS, protocol)

    assert TOOLS is pickle.loads(text)
    assert len(text) < 100
