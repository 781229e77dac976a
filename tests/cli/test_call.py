"""``ipistate call``."""

from __future__ import annotations

import sys

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest


if TYPE_CHECKING:
    from click.testing import Result


WORLD = '{"patients": {"P-1": {"name": "A. Berg", "chart_notes": "Stable."}}}'
FIND = ("call", "get_patient_record", "-a", '{"patient_id": "P-1"}', "-e")


def test_prints_reply_and_world(run: Callable[..., Result]) -> None:
    """The reply comes first, the world after the call last."""
    lines = run(*FIND, "-", given=WORLD).stdout.splitlines()

    assert lines == [
        '{"name": "A. Berg", "chart_notes": "Stable."}',
        '{"patients":{"P-1":{"name":"A. Berg","chart_notes":"Stable."}}}',
    ]


def test_json_is_one_document(
    document: Callable[..., Any],
) -> None:
    """With --json reply, error and world are members of one document."""
    shown = document(*FIND, "-", "--json", given=WORLD)

    assert list(shown) == ["output", "error", "environment"]
    assert shown["error"] is None


def test_output_file_serves_the_next_call(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """The world that -o writes is what the next call reads."""
    world = tmp_path / "world.json"
    world.write_text(WORLD)
    change = '{"patient_id": "P-1", "notes": "Seen."}'
    run("call", "update_patient_chart", "-a", change, "-e", world, "-o", world)

    assert "Seen." in run(*FIND, world).stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("tool", "reply"),
    [
        ("get_patient_record", "Error executing tool 'get_patient_record' (TypeError)"),
        ("no_such_tool", "Unknown tool: no_such_tool"),
    ],
)
def test_error_replies_are_findings(
    run: Callable[..., Result], tool: str, reply: str
) -> None:
    """An error reply is printed like any other, with exit code 1."""
    result = run("call", tool, "-e", "-", given=WORLD)

    assert result.exit_code == 1
    assert result.stdout.startswith(reply)


def test_error_in_json(
    document: Callable[..., Any],
) -> None:
    """With --json the exception's name and message are members."""
    shown = document(
        "call", "get_patient_record", "-e", "-", "--json", given=WORLD, code=1
    )

    assert shown["error"]["type"] == "TypeError"


@pytest.mark.parametrize("world", ["[]", "{", '{"a": NaN}'])
def test_refused_world(run: Callable[..., Result], world: str) -> None:
    """What is not a world is refused with exit code 3; nothing is on stdout."""
    result = run(*FIND, "-", given=world)

    assert (3, "") == (result.exit_code, result.stdout)
    assert "standard input" in result.stderr


def test_refused_arguments(run: Callable[..., Result]) -> None:
    """Arguments that are not JSON are refused."""
    result = run("call", "get_messages", "-a", "{", "-e", "-", given=WORLD)

    assert result.exit_code == 3
    assert "--arguments" in result.stderr


def test_missing_file(run: Callable[..., Result], tmp_path: Path) -> None:
    """A file that is not there is refused by its name."""
    result = run(*FIND, tmp_path / "none.json")

    assert result.exit_code == 3
    assert "none.json: No such file" in result.stderr


def test_reply_cannot_command_the_terminal(run: Callable[..., Result]) -> None:
    """Control characters of a hostile world are escaped on the way out."""
    world = '{"messages": [], "patients": {}}'
    result = run("call", "x\x1b[2J", "-e", "-", given=world)

    assert "\x1b" not in result.stdout


def test_deepest_world(
    document: Callable[..., Any],
) -> None:
    """A world as deep as worlds can be is called and printed, in JSON as well."""
    world = '{"messages": ' + "[" * 199 + "]" * 199 + "}"

    assert document("call", "get_inbox", "-e", "-", "--json", given=world)


def test_strict(run: Callable[..., Result]) -> None:
    """With --strict an argument of another type is refused; without it is taken."""
    verb = ("call", "update_patient_chart", "-e", "-", "-a")
    wrong = '{"patient_id": "P-1", "notes": ["Seen."]}'
    refused = run(*verb, wrong, "--strict", given=WORLD)
    taken = run(*verb, wrong.replace('["Seen."]', '"Seen."'), "--strict", given=WORLD)

    assert 1 == refused.exit_code
    assert refused.stdout.splitlines()[0] == (
        "Error executing tool 'update_patient_chart' (InvalidArguments): "
        "$.notes: expected a string, not an array"
    )
    assert "Chart updated for patient P-1." == taken.stdout.splitlines()[0]
    assert "(InvalidArguments)" not in run(*verb, wrong, given=WORLD).stdout


def test_strict_needs_its_extra(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without jsonschema the option says what to install, before anything is called."""
    monkeypatch.delitem(sys.modules, "ipistate.tools.strict", raising=False)
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    result = run("call", "get_patient_record", "--strict", "-e", "-", given=WORLD)

    assert (2, "") == (result.exit_code, result.stdout)
    assert "pip install 'ipistate[strict]'" in result.stderr


def test_d7_an_unknown_tool_is_suggested(
    run: Callable[..., Result], document: Callable[..., Any]
) -> None:
    """D7: the tool that was probably meant stands on stderr, or in the JSON."""
    args = ("call", "get_patient_recrod", "-e", "-")
    result = run(*args, given=WORLD)
    shown = document(*args, "--json", given=WORLD, code=1)
    error = {
        "type": "UnknownTool",
        "message": "Unknown tool: get_patient_recrod",
        "suggestion": "get_patient_record",
    }

    assert result.stdout.startswith("Unknown tool: get_patient_recrod\n")
    assert "did you mean get_patient_record?" in result.stderr
    assert (1, error) == (result.exit_code, shown["error"])


def test_d7_a_name_that_is_like_none_has_no_hint(run: Callable[..., Result]) -> None:
    """D7: nothing is suggested for a name that is like no tool's."""
    assert "" == run("call", "fly", "-e", "-", given=WORLD).stderr
