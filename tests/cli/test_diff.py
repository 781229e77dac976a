"""``ipistate diff``."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest

from ipistate import Environment, call_tool, encode, freeze
from ipistate.cli.diff import summary
from ipistate.kernel import MAX_DEPTH, JsonObject
from ipistate.kernel.diff import diff


if TYPE_CHECKING:
    from click.testing import Result


BEFORE = Environment.of(
    {
        "patients": {"P-1": {"name": "A\u202e", "age": 41, "chart_notes": ""}},
        "messages": [],
        "doctors": {"D-1": {}},
    }
)
CALLS = (
    ("update_patient_chart", {"patient_id": "P-1", "notes": "Seen.\x1b[2J"}),
    ("send_message", {"to": "a@x.example", "subject": "s", "body": "b"}),
)


@pytest.fixture
def worlds(tmp_path: Path) -> tuple[Path, Path]:
    """Write a world and what two calls made of it; return the names of the files."""
    after = BEFORE
    for name, arguments in CALLS:
        after = call_tool(after, name, arguments).environment
    (tmp_path / "a.json").write_bytes(BEFORE.to_json())
    (tmp_path / "b.json").write_bytes(after.to_json())
    return tmp_path / "a.json", tmp_path / "b.json"


def test_changes_are_lines_and_counts(
    run: Callable[..., Result], worlds: tuple[Path, Path]
) -> None:
    """A line for each operation and one with counts; what a terminal obeys is escaped."""
    result = run("diff", *worlds)
    chart, message, counts = result.stdout.splitlines()

    assert (1, "") == (result.exit_code, result.stderr)
    assert r'~ $.patients["P-1"].chart_notes: "" -> "Seen.\u001b[2J"' == chart
    assert message.startswith('+ $.messages[0]: {"from":')
    assert "2 operations; patients 1 changed; messages 1 added" == counts


def test_equal_worlds(
    run: Callable[..., Result],
    document: Callable[..., Any],
    worlds: tuple[Path, Path],
) -> None:
    """Without a difference the exit code is 0, and that is said."""
    result = run("diff", worlds[0], worlds[0])

    assert (0, "no difference\n") == (result.exit_code, result.stdout)
    assert [] == document("diff", worlds[0], worlds[0], "--patch")
    assert document("diff", worlds[0], worlds[0], "--json")["same"]


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        ('{"a":1}', '{"a":1.0}', 1),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', 1),
        ("{}", " {} ", 0),
    ],
)
def test_types_and_order_count(
    run: Callable[..., Result], tmp_path: Path, one: str, other: str, code: int
) -> None:
    """What replies would show differently is a difference; spaces in a file are none."""
    (tmp_path / "a").write_text(one)
    (tmp_path / "b").write_text(other)

    assert code == run("diff", tmp_path / "a", tmp_path / "b").exit_code


def test_the_patch_gives_the_other_file(
    document: Callable[..., Any],
    worlds: tuple[Path, Path],
) -> None:
    """The patch, applied by a library to the first file, gives the second one."""
    before, after = worlds
    patch = document("diff", before, after, "--patch", code=1)
    result = jsonpatch.apply_patch(json.loads(before.read_bytes()), patch)

    assert after.read_bytes() == encode(freeze(result))


def test_report_in_json(
    document: Callable[..., Any],
    worlds: tuple[Path, Path],
) -> None:
    """With --json there are the counts, and the operations with both values."""
    shown = document("diff", *worlds, "--json", code=1)
    chart, message = shown["operations"]

    assert [*map(str, worlds), False] == [
        shown["before"],
        shown["after"],
        shown["same"],
    ]
    assert {"added": 0, "removed": 0, "changed": 1} == shown["counts"]["patients"]
    assert ("/patients/P-1/chart_notes", '$.patients["P-1"].chart_notes') == (
        chart["path"],
        chart["jsonpath"],
    )
    assert ("", "Seen.\x1b[2J") == (chart["old"], chart["value"])
    assert "old" not in message


def test_standard_input(run: Callable[..., Result], worlds: tuple[Path, Path]) -> None:
    """One of the two may come from standard input; both cannot."""
    before, after = worlds
    given = after.read_bytes()

    assert run("diff", before, "-", given=given).exit_code == 1
    assert run("diff", "-", after, given=given).exit_code == 0
    assert run("diff", "-", "-", given=given).exit_code == 2


def test_one_form_at_a_time(
    run: Callable[..., Result], worlds: tuple[Path, Path]
) -> None:
    """A patch is a document of its own."""
    assert run("diff", *worlds, "--patch", "--json").exit_code == 2


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"a": NaN}', b"\xff", None])
def test_refused_files(
    run: Callable[..., Result],
    tmp_path: Path,
    worlds: tuple[Path, Path],
    content: bytes | None,
) -> None:
    """A file that is no world is refused with exit code 3, and named."""
    bad = tmp_path / "bad.json"
    if content is not None:
        bad.write_bytes(content)
    for pair in ((worlds[0], bad), (bad, worlds[0])):
        result = run("diff", *pair)

        assert (3, "") == (result.exit_code, result.stdout)
        assert f"Error: {bad}: " in result.stderr


@pytest.mark.parametrize("option", ["--json", "--patch"])
def test_deepest_worlds(
    run: Callable[..., Result], tmp_path: Path, option: str
) -> None:
    """A world of the greatest depth fits into a report."""
    deep = '{"a":' * (MAX_DEPTH - 1) + "{}" + "}" * (MAX_DEPTH - 1)
    (tmp_path / "deep").write_text(deep)
    (tmp_path / "flat").write_text('{"a":1}')

    assert run("diff", tmp_path / "deep", tmp_path / "flat", option).exit_code == 1
    assert run("diff", tmp_path / "flat", tmp_path / "deep", option).exit_code == 1


def test_summary_names_collections_safely() -> None:
    """The names of collections are escaped, and only what happened is counted."""
    found = diff(
        JsonObject({"a\x1b": [1, 2], "b": 1}), JsonObject({"a\x1b": [3], "b": 1})
    )

    assert r"2 operations; a\x1b 1 removed, 1 changed" == summary(found)
    assert r"1 operation; a\n b 1 added" == summary(
        diff(JsonObject({}), JsonObject({"a\n b": 1}))
    )
