"""``ipistate replay``: stored rollouts are executed again, and every reply compared."""

from __future__ import annotations

import copy
import io
import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest

from rich.console import Console

from ipistate import Environment, ToolCall, replay
from ipistate.cli import progress
from ipistate.cli.files import numbered_lines
from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject


if TYPE_CHECKING:
    from click.testing import Result


def test_stored_rollouts_replay_without_divergence(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """The demo's own rows give the same replies again, ids included."""
    result = run("replay", write("rows.jsonl", *stored))

    assert (0, "") == (result.exit_code, result.stderr)
    assert "10 rollouts: 10 same; 51 replies equal, 0 ids renamed\n" == result.stdout


def conversation(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Write the same rollout as a Chat Completions agent stores it."""
    items = row["response"]["output"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Please."}]
    for item in items:
        if item["type"] == "function_call":
            function = {name: item[name] for name in ("name", "arguments")}
            call = {"id": item["call_id"], "type": "function", "function": function}
            messages.append({"role": "assistant", "tool_calls": [call]})
        elif item["type"] == "function_call_output":
            reply = {"tool_call_id": item["call_id"], "content": item["output"]}
            messages.append({"role": "tool", **reply})
    return messages


def test_conversations(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """Rollouts stored as messages replay as those stored as items do."""
    told = [
        {"environment": row["environment"], "messages": conversation(row)}
        for row in stored
    ]
    shown = document("replay", write("rows.jsonl", *told), "--json")

    assert {"same": 10} == shown["counts"]
    assert 51 == sum(row["equal"] for row in shown["rows"])


def test_choices(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """Calls of a stored completion are executed; their replies are not known."""
    (message,) = conversation(stored[0])[1:2]
    choices = [{"index": 0, "message": message}]
    row = {"environment": stored[0]["environment"], "response": {"choices": choices}}
    (shown,) = document("replay", write("rows.jsonl", row), "--json")["rows"]

    assert ("same", 1, 0) == tuple(shown[n] for n in ("status", "calls", "equal"))


def test_world_of_a_task_row(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """A rollout without its world replays on the task row with its prompt."""
    bare = [{n: v for n, v in row.items() if n != "environment"} for row in stored]
    tasks = write("tasks.jsonl", *[task.to_json() for task in builtin.rows()])
    file = write("rows.jsonl", *bare)
    shown = document("replay", file, "--tasks", tasks, "--json")

    assert {"same": 10} == shown["counts"]


def tampered(row: dict[str, Any], number: int, old: str, new: str) -> dict[str, Any]:
    """Return a copy of a row with a text of its n-th reply replaced."""
    changed = copy.deepcopy(row)
    items = changed["response"]["output"]
    replies = [item for item in items if item["type"] == "function_call_output"]
    said = json.loads(replies[number]["output"])["output"]
    assert old in said
    replies[number]["output"] = json.dumps({"output": said.replace(old, new)})
    return changed


@pytest.mark.parametrize("number", range(4))
def test_tampered_reply_is_found_at_its_call(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
    number: int,
) -> None:
    """The first reply that differs is named, and what came before it is the same."""
    row = tampered(stored[0], number, '"', '"!')
    file = write("rows.jsonl", stored[1], row, stored[2])
    shown = document("replay", file, "--json", code=1)
    found = shown["rows"][1]

    assert {"same": 2, "different": 1} == shown["counts"]
    assert (number, number) == (found["equal"], found["divergence"]["call"])


def test_divergence_is_shown(
    run: Callable[..., Result],
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """Call, tool, path and both texts are shown; with --json the texts are whole."""
    row = tampered(stored[0], 1, "Miriam Castellanos", "Mallory\\nline 9: same")
    file = write("rows.jsonl", row)
    (shown,) = document("replay", file, "--json", code=1)["rows"]
    lines = run("replay", file).stdout.splitlines()

    assert 4 == len(lines)
    assert "line 1: different: call 1 (get_patient_record) at $.name" == lines[0]
    assert '"name": "Mallory\\nline 9: same"' in lines[1]
    assert '"name": "Miriam Castellanos"' in lines[2]
    assert "$.name" == shown["divergence"]["path"]
    assert json.loads(shown["divergence"]["executed"])["name"] == "Miriam Castellanos"
    assert len(lines[1]) < 160 < len(shown["divergence"]["recorded"])


def test_divergence_of_a_plain_text(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    """A reply that is not JSON differs after so many characters."""
    items = [
        {"type": "function_call", "call_id": "1", "name": "nothing"},
        {
            "type": "function_call_output",
            "call_id": "1",
            "output": "Unknown tool\nline 9: same",
        },
    ]
    row = {"environment": {}, "response": {"output": items}}
    result = run("replay", write("rows.jsonl", row))

    assert 1 == result.exit_code
    assert "different: call 0 (nothing) after 12 characters\n" in result.stdout
    assert "  recorded Unknown tool\\nline 9: same\n" in result.stdout
    assert "  executed Unknown tool: nothing\n" in result.stdout


def test_what_calls_change(
    run: Callable[..., Result],
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """With --diff every call is followed by what it changed in the world."""
    file = write("rows.jsonl", stored[0])
    result = run("replay", file, "--diff")
    (shown,) = document("replay", file, "--diff", "--json")["rows"]
    world = stored[0]["environment"]
    for call in shown["changes"]:
        world = jsonpatch.apply_patch(world, call["patch"])
    *_, last = replay(Environment.of(stored[0]["environment"]), _calls(stored[0]))

    assert "line 1: same\n  call 0 (search_patients) changed nothing\n" in result.stdout
    assert '~ $.patients["P-2041"].chart_notes: ' in result.stdout
    assert last.environment.to_json() == Environment.of(world).to_json()
    assert {"patients": {"added": 0, "removed": 0, "changed": 1}} == shown["changes"][
        -1
    ]["counts"]


def test_changes_end_with_the_divergence(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """After the reply that differs nothing is executed, so nothing more is shown."""
    row = tampered(stored[0], 1, "Miriam", "Mallory")
    result = run("replay", write("rows.jsonl", row), "--diff")

    assert "  call 1 (get_patient_record) changed nothing\n" in result.stdout
    assert "call 2" not in result.stdout
    assert "line 1: same" not in result.stdout


def test_changes_only_if_asked_for(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """Without --diff a document has no changes."""
    shown = document("replay", write("rows.jsonl", stored[0]), "--json")

    assert "changes" not in shown["rows"][0]


def _calls(row: dict[str, Any]) -> list[ToolCall]:
    return [
        ToolCall(item["name"], JsonObject(json.loads(item["arguments"])))
        for item in row["response"]["output"]
        if item["type"] == "function_call"
    ]


def _with_reply(row: dict[str, Any], number: int, old: str, new: str) -> dict[str, Any]:
    """Replace a text in everything from one item of the trace on."""
    changed = copy.deepcopy(row)
    for item in changed["response"]["output"][number:]:
        for member in ("arguments", "output"):
            if member in item:
                item[member] = item[member].replace(old, new)
    return changed


def test_random_ids_are_compared_by_renaming(
    document: Callable[..., Any],
    write: Callable[..., Path],
) -> None:
    """A recording with other minted ids is the same, also where it quotes them."""
    world = {"claims": {}, "policies": {"POL-1": {"policy_id": "POL-1"}}}
    filed: dict[str, Any] = {
        "policy_id": "POL-1",
        "claim_type": "x",
        "date_of_loss": "2025-01-02",
    }
    filed |= {"description": "d", "amount_requested": 5}
    filed |= {"claim_number": "N-1", "adjuster_id": "J-1"}
    row = {"environment": world, "response": {"output": []}}
    first = _executed(row, ("create_claim", filed))
    (minted,) = [word for word in first.split('"') if word.startswith("CL-")]
    _executed(row, ("get_claim_by_id", {"claim_id": minted}))
    shown = document(
        "replay",
        write("rows.jsonl", _with_reply(row, 0, minted, "CL-00BEEF")),
        "--json",
    )

    assert ("same", 2, 1) == tuple(
        shown["rows"][0][name] for name in ("status", "calls", "renamed")
    )


def _executed(row: dict[str, Any], call: tuple[str, dict[str, Any]]) -> str:
    """Append a call with the reply that the kernel gives it; return the reply."""
    output = row["response"]["output"]
    calls = [*_calls(row), ToolCall(call[0], JsonObject(call[1]))]
    *_, last = replay(Environment.of(row["environment"]), calls)
    call_id = f"c{len(output)}"
    output += [
        {
            "type": "function_call",
            "call_id": call_id,
            "name": call[0],
            "arguments": json.dumps(call[1]),
        },
        {
            "type": "function_call_output",
            "call_id": call_id,
            "output": json.dumps({"output": last.output}),
        },
    ]
    return last.output


def test_rollout_without_world(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """A rollout whose world is unknown says so, and is not an error."""
    row = {n: v for n, v in stored[0].items() if n != "environment"}
    result = run("replay", write("rows.jsonl", row))

    assert result.exit_code == 0
    assert "line 1: no world: it carries no environment" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("{", "syntax"),
        ('"{}"', "wrong_type"),
        ("null", "wrong_type"),
        ([], "wrong_type"),
    ],
)
def test_b74_refused_calls(
    run: Callable[..., Result],
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
    arguments: str | list[Any],
    code: str,
) -> None:
    """A call whose arguments are no object is reported, and the next one goes on."""
    row = copy.deepcopy(stored[0])
    row["response"]["output"][2]["arguments"] = arguments
    file = write("rows.jsonl", row)
    (shown,) = document("replay", file, "--json")["rows"]
    result = run("replay", file, "--diff")

    assert ("same", 5, 4) == tuple(shown[n] for n in ("status", "calls", "equal"))
    assert [(1, code)] == [(one["call"], one["code"]) for one in shown["refused"]]
    assert "line 1: call 1 (get_patient_record) refused: $: " in result.stdout
    assert "call 1 (get_patient_record) changed" not in result.stdout
    assert result.stdout.endswith("4 replies equal, 1 call refused, 0 ids renamed\n")


@pytest.mark.parametrize("recorded", [None, "plain text"])
def test_replies_that_are_not_bodies(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
    recorded: str | None,
) -> None:
    """A reply that is missing is not compared; one that is only text is."""
    row = copy.deepcopy(stored[0])
    row["response"]["output"][1]["output"] = recorded
    code = 0 if recorded is None else 1

    assert document("replay", write("rows.jsonl", row), "--json", code=code)


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b'{"response": {"output": 1}}'])
def test_lines_that_are_not_rollouts(
    run: Callable[..., Result],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
    line: bytes,
) -> None:
    """A line that is not a rollout is refused with its number; others are replayed."""
    result = run("replay", write("rows.jsonl", line, stored[0]))

    assert result.exit_code == 3
    assert "line 1: refused" in result.stdout
    assert "2 rollouts: 1 refused, 1 same" in result.stdout


def test_rollouts_of_other_rows(document: Callable[..., Any], data: Path) -> None:
    """Rollouts without a world, of prompts in no task row: each row says so."""
    shown = document(
        *["replay", data / "rollouts.jsonl"],
        *["--tasks", data / "task_rows.jsonl", "--json"],
    )

    assert {"no world": 5} == shown["counts"]


def test_deepest_world(
    document: Callable[..., Any],
    write: Callable[..., Path],
) -> None:
    """A rollout may carry a world as deep as worlds can be, and show its change."""
    deep = json.loads("[" * 198 + "]" * 198)
    rows = {"claims": {"C-1": {"claim_id": "C-1"}}, "deep": {"a": deep}}
    row = {"environment": rows, "response": {"output": []}}
    arguments = {"claim_id": "C-1", "adjuster_id": "J-1", "note_text": deep}
    _executed(row, ("add_adjuster_note", arguments))
    shown = document("replay", write("rows.jsonl", row), "--json", "--diff")

    assert {"same": 1} == shown["counts"]


def test_long_file_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Result],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """On a terminal a bar is on standard error, and the data is what it is elsewhere."""
    shown = io.StringIO()

    def terminal() -> Console:
        return Console(file=shown, force_terminal=True)

    row = tampered(stored[0], 1, "Miriam", "Mallory")
    file = write("rows.jsonl", stored[1], row)
    expected = run("replay", file).stdout
    monkeypatch.setattr(progress, "stderr_console", terminal)
    result = run("replay", file)

    assert expected == result.stdout
    assert "100%" in shown.getvalue()


def test_lines_are_read_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is given before the next one is there."""
    written = [b"first\n"]

    class Pipe:
        """Standard input whose second line has not been written yet."""

        def readline(self, _longest: int) -> bytes:
            assert written, "nobody asked for a second line"
            return written.pop()

    class Stdin:
        """Its text layer."""

        buffer = Pipe()

    monkeypatch.setattr("sys.stdin", Stdin())

    assert (1, b"first") == next(numbered_lines("-"))


def test_standard_input(
    run: Callable[..., Result], stored: list[dict[str, Any]]
) -> None:
    """A file called - is standard input."""
    lines = "\n".join(map(json.dumps, stored))

    assert "10 rollouts: 10 same" in run("replay", "-", given=lines).stdout


@pytest.mark.parametrize("verb", ["replay", "verify"])
def test_standard_input_is_read_once(run: Callable[..., Result], verb: str) -> None:
    """Rollouts and task rows cannot both be standard input."""
    result = run(verb, "-", "--tasks", "-")

    assert (2, "") == (result.exit_code, result.stdout)


def test_empty_standard_input_is_named(run: Callable[..., Result]) -> None:
    """Standard input goes by its name in messages."""
    assert "Error: standard input: the file has no rows\n" == run("replay", "-").stderr


@pytest.mark.parametrize("name", ["none", "", "x" * 5000])
def test_file_that_cannot_be_read(
    run: Callable[..., Result], tmp_path: Path, name: str
) -> None:
    """A file that is not there, is a directory or has no possible name is refused."""
    result = run("replay", tmp_path / name)

    assert (3, "") == (result.exit_code, result.stdout)


def test_strict(run: Callable[..., Result], write: Callable[..., Path]) -> None:
    """What was recorded with strict arguments replays with them, and only with them."""
    world = {"products": {"P-1": {"name": "Tea", "stock_quantity": 3}}}
    arguments = '{"product_id": "P-1", "stock_quantity": "many"}'
    call = {"type": "function_call", "name": "update_product_stock", "call_id": "c"}
    reply = (
        "Error executing tool 'update_product_stock' (InvalidArguments): "
        "$.stock_quantity: expected a number, not a string"
    )
    output = {"type": "function_call_output", "call_id": "c", "output": reply}
    items = [{**call, "arguments": arguments}, output]
    file = write("r.jsonl", {"environment": world, "response": {"output": items}})

    assert 0 == run("replay", file, "--strict").exit_code
    assert 1 == run("replay", file).exit_code


def test_a25_rollouts_without_a_world_are_hinted_at(
    run: Callable[..., Result],
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """A25: the hint names ``--tasks``, or the file that did not help; strict is 1."""
    row = {n: v for n, v in stored[0].items() if n != "environment"}
    file, other = write("rows.jsonl", row, row), builtin.rows()[-1].to_json()
    tasks = write("tasks.jsonl", other)
    hint = "2 rollouts without a world: name the file of the task rows with --tasks"

    assert f"{hint}\n" == run("replay", file).stderr
    assert hint == document("replay", file, "--json")["hint"]
    assert f"{tasks} has no row" in run("replay", file, "--tasks", tasks).stderr
    assert 1 == run("replay", file, "--strict").exit_code
    assert 0 == run("replay", write("whole.jsonl", stored[0]), "--strict").exit_code
