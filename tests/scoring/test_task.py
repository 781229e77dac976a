"""Task rows: reading, writing, and what the check of a task file finds."""

from __future__ import annotations

import json
import random

from pathlib import Path
from typing import Any

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    DecodeError,
    EncodeError,
    Environment,
    Injection,
    SchemaError,
    Task,
    encode,
)
from ipistate.generate.builtin import rows
from ipistate.kernel.values import JsonObject
from ipistate.scoring.task import check_rows
from ipistate.testing import json_objects


def row(**changes: Any) -> dict[str, Any]:
    """Return a built-in row as plain data, with some members changed."""
    return {**json.loads(rows()[0].to_json()), **changes}


def found(*lines: str | bytes) -> list[tuple[int, str, str, str]]:
    """Return line, severity, code and path of what is found in some lines."""
    return [(f.line, f.severity, f.code, f.path) for f in check_rows(lines)]


def changed(**members: Any) -> list[str]:
    """Return what is found in one row with some members of its injection changed."""
    injection = {**row()["injection"], **members}
    return [code for _, _, code, _ in found(json.dumps(row(injection=injection)))]


def test_rows_of_a_file(data: Path) -> None:
    """Rows of the published form come back byte for byte; nothing is wrong with them."""
    lines = (data / "task_rows.jsonl").read_bytes().splitlines()
    compact = [
        json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")).encode()
        for line in lines
    ]

    assert compact == [Task.from_json(line).to_json() for line in lines]
    assert [] == [f for f in check_rows(lines) if f.severity == "error"]


def test_a24_a_forced_number_is_not_written_as_null() -> None:
    """A24: a row whose world was given a NaN past its immutability is refused."""
    world = JsonObject({"a": None})
    dict.__setitem__(world, "a", float("nan"))
    task = attrs.evolve(
        Task.from_json(json.dumps(row())), environment=Environment(world)
    )

    with pytest.raises(EncodeError) as caught:
        task.to_json()
    assert (caught.value.code, caught.value.path) == ("not_finite", "$.environment.a")


@given(json_objects(), json_objects(), st.randoms(use_true_random=False))
def test_round_trip(world: JsonObject, more: JsonObject, random: random.Random) -> None:
    """A row is written as it was read: unknown members, any order, to the byte."""
    members = row(environment=world)
    members["injection"] = {**more, **members["injection"]}
    members = {**more, **members, "member_order": 1, "extra": None}
    names = list(members)
    random.shuffle(names)
    # Piece by piece: the row itself is one level deeper than a value may be.
    texts = [encode(name) + b":" + encode(members[name]) for name in names]
    line = b"{" + b",".join(texts) + b"}"

    assert line == Task.from_json(line).to_json()
    assert line == Task.from_document(json.loads(line)).to_json()


@pytest.mark.parametrize("absent", ["required_tools", "domain"])
def test_absent_members_stay_absent(absent: str) -> None:
    """An optional member that the row lacks is not invented."""
    members = row()
    del members[absent]

    assert json.dumps(members) == json.dumps(Task.from_document(members).to_document())


def test_null_is_not_absent() -> None:
    """A null domain stays null."""
    members = row(domain=None)

    assert json.dumps(members) == json.dumps(Task.from_document(members).to_document())


def test_changed_task() -> None:
    """A changed field is written in its old place, a new one last."""
    members = row()
    del members["domain"]
    task = attrs.evolve(Task.from_document(members), domain="x", required_tools=("a",))

    assert {**members, "required_tools": ["a"], "domain": "x"} == task.to_document()
    assert [*members, "domain"] == list(task.to_document())


def test_task_made_by_hand() -> None:
    """A task that was never read has all of its members, in the published order."""
    task = Task(
        responses_create_params=JsonObject(),
        environment=Environment.of({"a": 1}),
        injection=rows()[0].injection,
    )
    names = ["responses_create_params", "environment", "required_tools", "injection"]

    assert [*names, "domain"] == list(task.to_document())


def test_full_depth() -> None:
    """A world may be as deep as a value can be, though the row is around it."""
    world = "[" * 199 + "]" * 199
    members = json.dumps(row(environment=None), separators=(",", ":"))
    line = members.replace('"environment":null', f'"environment":{{"a":{world}}}')

    assert json.loads(line) == json.loads(Task.from_json(line).to_json())


def test_refused_members() -> None:
    """A row of the wrong shape is refused with every path."""
    members = row(environment=[], required_tools=None, domain=3)
    del members["injection"]
    with pytest.raises(SchemaError) as caught:
        Task.from_document(members)
    problems = {(problem.code, problem.path) for problem in caught.value.problems}

    assert {
        ("wrong_type", "$.environment"),
        ("wrong_type", "$.required_tools"),
        ("wrong_type", "$.domain"),
        ("missing_member", "$.injection"),
    } == problems


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", "syntax"),
        (b"{} {}", "syntax"),
        (b"\xff", "not_utf8"),
        (b'{"a": 1e400}', "not_finite"),
        (b"[" * 1000 + b"]" * 1000, "too_deep"),
    ],
)
def test_not_json(line: bytes, code: str) -> None:
    """A line that is not acceptable JSON is a decoding error."""
    with pytest.raises(DecodeError) as caught:
        Task.from_json(line)

    assert code == caught.value.code


GOOD = json.dumps(row())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (GOOD, []),
        ("  \r\n", [("warning", "empty_line", "$")]),
        (b"\n", [("warning", "empty_line", "$")]),
        (GOOD[:-1], [("error", "syntax", "$")]),
        (GOOD + " x", [("error", "syntax", "$")]),
        ("[" * 1000 + "]" * 1000, [("error", "too_deep", "$")]),
        ("[]", [("error", "wrong_type", "$")]),
        (
            json.dumps(row(environment="{}")),
            [("error", "wrong_type", "$.environment")],
        ),
        (
            GOOD.replace('"domain": ', '"domain": "x", "domain": '),
            [("error", "duplicate_key", "$.domain")],
        ),
        (
            json.dumps(row(required_tools=["get_lab_results", "no_tool"])),
            [("warning", "unknown_tool", "$.required_tools[1]")],
        ),
        (
            json.dumps(row(required_tools=["get_inbox"])),
            [("warning", "tool_not_offered", "$.required_tools[0]")],
        ),
        (
            json.dumps(row(responses_create_params={"tools": None})),
            [
                ("warning", "tool_not_offered", "$.injection.target_tool"),
                ("warning", "tool_not_offered", "$.required_tools[0]"),
                ("warning", "tool_not_offered", "$.required_tools[1]"),
            ],
        ),
    ],
)
def test_findings(line: str | bytes, expected: list[tuple[str, str, str]]) -> None:
    """Each kind of flaw is found, with its line, its path and its severity."""
    assert [(2, *finding) for finding in expected] == found(GOOD, line, GOOD)


@pytest.mark.parametrize("data", [GOOD, GOOD.encode()])
def test_text_and_bytes(data: str | bytes) -> None:
    """Lines may be text or bytes."""
    assert [] == found(data)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"verification_type": "check_x"}, ["unknown_verification_type"]),
        ({"target_args": {}}, ["unmatchable_target"]),
        ({"target_args": {"recipient": " ", "body": "x"}}, ["unmatchable_target"]),
        ({"injection_text": "not there"}, ["injection_not_found"]),
        ({"target_tool": "Send_Message"}, ["unknown_tool"]),
    ],
)
def test_findings_about_the_injection(
    members: dict[str, Any], expected: list[str]
) -> None:
    """An injection that cannot work is pointed out, and is no error."""
    assert expected == changed(**members)


def test_repeated_keys_are_found_at_any_depth() -> None:
    """A repeated key is an error wherever it stands, in a row of any shape."""
    line = '{"a": [{"b": 1, "b": 2, "c": {"d": 1, "d": 1}}]}'
    paths = [path for _, _, code, path in found(line) if code == "duplicate_key"]

    assert ["$.a[0].b", "$.a[0].c.d"] == paths


@pytest.mark.parametrize("lines", [(), ("",), ("", " ")])
def test_no_rows(lines: tuple[str, ...]) -> None:
    """A file without rows is an error."""
    assert (0, "error", "no_rows", "$") == found(*lines)[-1]


@given(st.lists(st.one_of(st.text(), st.binary(), st.just(GOOD))))
def test_total(lines: list[str | bytes]) -> None:
    """Whatever stands in the lines, the check ends with findings, not an exception."""
    for finding in check_rows(lines):
        assert 0 <= finding.line <= len(lines)


def test_the_tools_that_a_row_offers() -> None:
    """Names of definitions in their order; what has no name is passed over."""
    tools = [{"name": "b"}, 3, {"type": "function"}, {"name": 4}, {"name": "a"}]
    task = Task.from_document(row(responses_create_params={"tools": tools}))

    assert ("b", "a") == task.offered_tools
    assert () == Task.from_document(row(responses_create_params={})).offered_tools


@given(
    st.dictionaries(
        st.sampled_from(["recipient", "to", "recipients", "patient_id", "body"]),
        st.sampled_from(["x", "", " ", None, 0, False, []]),
        min_size=1,
    )
)
def test_a10_targets_that_nothing_matches_are_pointed_out(
    arguments: dict[str, Any],
) -> None:
    """A10: a deciding argument that is null or blank silences the verdict."""
    target = {"target_args": arguments, "verification_type": "check_message_sent"}
    deciding = Injection.from_document({**row()["injection"], **target}).deciding_keys
    silent = [
        k for k in deciding if arguments[k] is None or not str(arguments[k]).strip()
    ]

    assert ["unmatchable_target"] * len(silent) == changed(**target)
