"""``ipistate replay``, and comparison by renaming."""

from __future__ import annotations

import copy
import json

import pytest

from ipistate import Environment, ToolCall, builtin, freeze, replay
from ipistate.renaming import Renaming


def test_stored_rollouts_replay_without_divergence(run, write, stored):
    """The demo's own rows give the same replies again, ids included."""
    result = run("replay", write("rows.jsonl", *stored))

    assert result.exit_code == 0
    assert result.stdout.startswith("10 rollouts: 10 same;")
    assert result.stdout.endswith("0 ids renamed\n")


def test_world_of_a_task_row(document, write, stored):
    """A rollout without its world replays on the task row with its prompt."""
    bare = [{n: v for n, v in row.items() if n != "environment"} for row in stored]
    tasks = write("tasks.jsonl", *[task.to_json() for task in builtin.rows()])
    file = write("rows.jsonl", *bare)
    shown = document("replay", file, "--tasks", tasks, "--json")

    assert {"same": 10} == shown["counts"]


def test_tampered_reply_is_found_at_its_call(run, document, write, stored):
    """The first reply that differs is named with both texts."""
    row = copy.deepcopy(stored[0])
    row["response"]["output"][3]["output"] = '{"output":"Nothing."}'
    file = write("rows.jsonl", row)
    (shown,) = document("replay", file, "--json", code=1)["rows"]

    assert (1, "Nothing.") == (
        shown["divergence"]["call"],
        shown["divergence"]["recorded"],
    )
    assert "  recorded Nothing." in run("replay", file).stdout


def _with_reply(row, number, old, new):
    """Replace a text in everything from one item of the trace on."""
    changed = copy.deepcopy(row)
    for item in changed["response"]["output"][number:]:
        for member in ("arguments", "output"):
            if member in item:
                item[member] = item[member].replace(old, new)
    return changed


def test_random_ids_are_compared_by_renaming(document, write):
    """A recording with other minted ids is the same, also where it quotes them."""
    world = {"claims": {}, "policies": {"POL-1": {"policy_id": "POL-1"}}}
    filed = {"policy_id": "POL-1", "claim_type": "x", "date_of_loss": "2025-01-02"}
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


def _executed(row, call):
    """Append a call with the reply that the kernel gives it; return the reply."""
    output = row["response"]["output"]
    calls = [
        ToolCall(item["name"], freeze(json.loads(item["arguments"])))
        for item in output
        if item["type"] == "function_call"
    ]
    calls.append(ToolCall(call[0], freeze(call[1])))
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


@pytest.mark.parametrize(
    ("pairs", "same"),
    [
        ([("CL-AAAAAA", "CL-BBBBBB")], True),
        ([("A123456", "A654321")], True),
        ([("CL-AAAAAA x", "CL-BBBBBB y")], False),
        ([("CL-AAAAAA", "PO-BBBBBB")], False),
        ([("CL-AAAAAA", "CL-BBBBBB"), ("CL-CCCCCC", "CL-BBBBBB")], False),
        ([("CL-AAAAAA CL-AAAAAA", "CL-BBBBBB CL-CCCCCC")], False),
        ([("CL-AAAAAA", "CL-BBBBBB"), ("CL-AAAAAA", "CL-CCCCCC")], False),
    ],
)
def test_renaming_is_one_to_one(pairs, same):
    """Texts agree only under one map of ids, and no two ids become one."""
    names = Renaming()
    for recorded, executed in pairs:
        names = names and names.extended(recorded, executed)

    assert same == (names is not None)


def test_rollout_without_world(run, write, stored):
    """A rollout whose world is unknown says so, and is not an error."""
    row = {n: v for n, v in stored[0].items() if n != "environment"}
    result = run("replay", write("rows.jsonl", row))

    assert result.exit_code == 0
    assert "line 1: no world: it carries no environment" in result.stdout


def test_unreadable_arguments(document, write, stored):
    """A call whose arguments are not JSON ends the comparison there."""
    row = copy.deepcopy(stored[0])
    row["response"]["output"][2]["arguments"] = "{"
    (shown,) = document("replay", write("rows.jsonl", row), "--json")["rows"]

    assert ("unreadable", 1) == (shown["status"], shown["calls"])


@pytest.mark.parametrize("recorded", [None, "plain text"])
def test_replies_that_are_not_bodies(document, write, stored, recorded):
    """A reply that is missing is not compared; one that is only text is."""
    row = copy.deepcopy(stored[0])
    row["response"]["output"][1]["output"] = recorded
    code = 0 if recorded is None else 1

    assert document("replay", write("rows.jsonl", row), "--json", code=code)


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b'{"response": {"output": 1}}'])
def test_lines_that_are_not_rollouts(run, write, line):
    """A line that is not a rollout is refused with its number."""
    result = run("replay", write("rows.jsonl", line))

    assert result.exit_code == 3
    assert "line 1: refused" in result.stdout


def test_recorded_rollouts(document, shared):
    """The reference's published rollouts have no worlds; each row says so."""
    data = shared / "data"
    shown = document(
        *["replay", data / "nemo_gym_ipi_example_rollouts.jsonl"],
        *["--tasks", data / "nemo_gym_ipi_example.jsonl", "--json"],
    )

    assert {"no world": 5} == shown["counts"]


def test_deepest_world(document, write):
    """A rollout may carry a world as deep as worlds can be."""
    row = b'{"environment": {"a": %b}, "response": {"output": []}}'
    deep = b"[" * 199 + b"]" * 199
    shown = document("replay", write("rows.jsonl", row % deep), "--json")

    assert {"same": 1} == shown["counts"]
