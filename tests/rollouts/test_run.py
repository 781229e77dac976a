"""Runs against a real server: what is scored, what is masked, what goes on."""

from __future__ import annotations

import asyncio
import json
import shutil

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from acting import Told, Watch, call, rows_of, saying, words

from ipistate.agents.policy import PolicyError, PolicyReply
from ipistate.errors import CheckpointError
from ipistate.generate import builtin
from ipistate.kernel.codec import encode
from ipistate.kernel.values import JsonObject
from ipistate.policies.scripted import ScriptedPolicy
from ipistate.rollouts.connection import ServerError
from ipistate.rollouts.lifecycle import RunOutcome
from ipistate.rollouts.lines import LineFile, RunFileError
from ipistate.rollouts.records import RunFiles
from ipistate.rollouts.runner import Ending
from ipistate.scoring.verify_request import VerifyRequest


def test_a_careful_run(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """Every row is scored, its reward is 1, and verifying it again agrees."""
    outcome, rows, _ = played(careful, count=27, repeats=2)
    metrics = json.loads((tmp_path / "rows_aggregate_metrics.json").read_bytes())

    assert (Ending.COMPLETE, 54, 0) == (outcome.ending, outcome.done, outcome.failed)
    assert {1.0} == {row["reward"] for row in rows}
    assert {1.0} == {VerifyRequest.from_document(row).verdict().reward for row in rows}
    assert 1.0 == metrics["key_metrics"]["avg_reward"]
    assert 27 == len(metrics["group_level_metrics"])
    assert 54 == len({(r["_ng_task_index"], r["_ng_rollout_index"]) for r in rows})


def test_a_row_has_the_task_and_the_response(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
) -> None:
    """A row is the task row, the response, the verdict and which attempt it is."""
    _, rows, _ = played(careful, count=1)
    (row,) = rows
    task = json.loads(builtin.rows()[0].to_json())

    assert [] == [name for name in task if row[name] != task[name]]
    assert "response" == row["response"]["object"]
    assert (0, 0, 0) == (
        row["_ng_task_index"],
        row["_ng_rollout_index"],
        row["attempt"],
    )
    assert row["_ng_rollout_id"].endswith("-0-0")
    assert row["injection_followed"] is False


def test_what_the_model_reads_is_the_whole_body(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """Tool outputs are the server's bodies; refused calls get one of ours."""
    calls = [call("get_messages", '{"to": "x"}', "a"), call("verify", "{}", "b")]
    calls += [call("get_messages", "[]", "c"), call("no_such_tool", "{}", "d")]
    _, rows, _ = played(Told([saying(*calls), saying(words())]), count=1)
    outputs = [
        json.loads(item["output"])
        for item in rows[0]["response"]["output"]
        if item["type"] == "function_call_output"
    ]

    assert [["output"]] * 4 == [list(one) for one in outputs]
    assert "Unknown tool: verify" == outputs[1]["output"]
    assert "not a JSON object" in outputs[2]["output"]
    assert "Unknown tool: no_such_tool" == outputs[3]["output"]


def test_turns_are_bounded(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """A policy that never stops is stopped after so many turns, and scored."""
    policy = Told([saying(call("get_messages"))])
    outcome, rows, _ = played(policy, count=1, max_steps=4)
    kinds = [item["type"] for item in rows[0]["response"]["output"]]

    assert 4 == kinds.count("function_call") == kinds.count("function_call_output")
    assert 4 == len(policy.asked)
    assert Ending.COMPLETE == outcome.ending


def test_a_truncated_reply_is_scored_as_such(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """A reply that was cut off ends the episode and takes its reward away."""
    cut = saying(call("get_messages"), incomplete_reason="max_output_tokens")
    _, rows, _ = played(Told([cut]), count=1)

    assert (0.0, True) == (rows[0]["reward"], rows[0]["thinking_incomplete"])
    assert {"reason": "max_output_tokens"} == rows[0]["response"]["incomplete_details"]


def test_a3_a_blocked_reply_counts_neither_way(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """A3: a rollout that a filter ended has a masked row, in no mean, and is done."""
    blocked = Told([saying(words(), incomplete_reason="content_filter")])
    outcome, rows, watch = played(careful, blocked, count=2, repeats=2)
    metrics = json.loads((tmp_path / "rows_aggregate_metrics.json").read_bytes())
    masked = [row for row in rows if row["mask_sample"]]

    assert (Ending.COMPLETE, 4, 0) == (outcome.ending, outcome.done, outcome.failed)
    assert [1, 1] == [row["_ng_rollout_index"] for row in masked]
    assert {"blocked_reply"} == {row["failure_kind"] for row in masked}
    assert (2, 2, 1.0) == (
        outcome.tally.masked,
        outcome.tally.counted,
        outcome.tally.mean_reward,
    )
    assert 2 == sum(one["rollouts"] for one in metrics["group_level_metrics"])
    assert [] == watch.failures

    outcome, again, _ = played(careful, blocked, count=2, repeats=2, resume=True)

    assert (4, 0) == (outcome.earlier, outcome.unfinished)
    assert rows == again


def test_a3_what_was_done_before_the_filter_is_done(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """A3: an injection that was followed counts, though a later reply is blocked."""
    target = builtin.rows()[0].injection
    arguments = JsonObject(target.target_args)
    obeyed = saying(call(target.target_tool, encode(arguments).decode()))
    blocked = saying(incomplete_reason="content_filter")
    outcome, rows, _ = played(Told([obeyed, blocked]), count=1)

    assert (True, False) == (rows[0]["injection_followed"], rows[0]["mask_sample"])
    assert (0, 1) == (outcome.tally.masked, outcome.tally.followed)


def test_failures_are_masked_and_run_again(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """What the endpoint fails is never scored; with resume it runs as the next attempt."""
    broken = Told(
        [saying(call("get_messages")), PolicyError("endpoint_timeout", "too slow")]
    )
    outcome, rows, watch = played(careful, broken, count=2, repeats=2)
    failures = rows_of(tmp_path / "rows_failures.jsonl")

    assert (2, 2, 2) == (outcome.done, outcome.failed, outcome.unfinished)
    assert 2 == len(rows) == len(watch.failures)
    assert [True] * 2 == [one["mask_sample"] for one in failures]
    assert {"endpoint_timeout"} == {one["failure_kind"] for one in failures}
    assert {"too slow"} == {one["failure_reason"] for one in failures}
    assert not any("reward" in one for one in failures)
    assert 2 == len(failures[0]["response"]["output"])

    before = (tmp_path / "rows.jsonl").read_bytes()
    outcome, rows, _ = played(careful, count=2, repeats=2, resume=True)

    assert (Ending.COMPLETE, 2, 4) == (outcome.ending, outcome.earlier, outcome.done)
    assert before == (tmp_path / "rows.jsonl").read_bytes()[: len(before)]
    assert [0, 0, 1, 1] == sorted(row["attempt"] for row in rows)


def test_a_run_whose_endpoint_is_down_ends_early(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """So many failures in a row end the run; nothing is scored."""
    down = Told([PolicyError("endpoint_unreachable", "nobody there")])
    outcome, rows, _ = played(down, count=5, repeats=10, most_failures=3, concurrency=1)

    assert (Ending.FAILING, 3, 50) == (
        outcome.ending,
        outcome.failed,
        outcome.unfinished,
    )
    assert [] == rows


def test_no_server_at_the_url(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
) -> None:
    """A server that is not there is said before anything is played."""
    with pytest.raises(ServerError) as caught:
        played(careful, url="http://127.0.0.1:9")

    assert "server_unreachable" == caught.value.code
    assert "ipistate serve" in caught.value.message


class Stopping(Told):
    """Stops the run when it is asked for a certain turn."""

    def at(self, turn: int) -> Stopping:
        """Say when."""
        self.stop, self.turn = asyncio.Event(), turn
        return self

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Stop everything, or reply."""
        if len(self.asked) == self.turn:
            self.asked.append(())
            self.stop.set()
            await asyncio.Event().wait()
        return await super().respond(conversation, tools)


def test_a_stopped_run_goes_on_from_its_turn(
    tmp_path: Path,
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """Stopped between two turns, the next process asks for that turn first."""
    replies = [saying(call("get_messages"))] * 3 + [saying(words())]
    kept = {"checkpoint_dir": tmp_path / "ck", "count": 1}
    first = Stopping(replies).at(2)
    outcome, rows, _ = played(first, stop=first.stop, **kept)

    assert (Ending.INTERRUPTED, 0) == (outcome.ending, len(rows))

    second = Told(replies)
    outcome, rows, watch = played(second, resume=True, **kept)

    assert (Ending.COMPLETE, 1) == (outcome.ending, outcome.continued)
    assert [1] == [row["attempt"] for row in rows]
    assert 2 == len(second.asked)
    assert 2 == sum(one["type"] == "function_call" for one in second.asked[0][2:])
    assert ["restoring 1 rollouts"] == [note[:20] for note in watch.notes]


@pytest.mark.parametrize("elsewhere", [None, "other"])
def test_a20_turns_of_a_checkpoint_are_not_asked_for_again(
    elsewhere: str | None,
    tmp_path: Path,
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """A20: resumed without its checkpoints, or beside them, a run says what that costs."""
    replies = [saying(call("get_messages"))] * 3 + [saying(words())]
    first, second = Stopping(replies).at(2), Told(replies)
    played(first, stop=first.stop, checkpoint_dir=tmp_path / "ck", count=1)
    other = None if elsewhere is None else tmp_path / elsewhere
    with pytest.raises(RunFileError) as caught:
        played(second, resume=True, checkpoint_dir=other, count=1)

    assert "other_checkpoints" == caught.value.code
    assert "2 turns of 1 rollouts" in caught.value.message
    assert f"--checkpoint-dir {tmp_path / 'ck'}" in caught.value.message
    assert [] == second.asked

    shutil.rmtree(tmp_path / "ck")
    outcome, _, watch = played(second, resume=True, checkpoint_dir=other, count=1)

    assert [
        f"{tmp_path / 'ck'} has no checkpoint of this run: 1 rollouts start over"
    ] == (watch.notes)
    assert (Ending.COMPLETE, 0) == (outcome.ending, outcome.continued)
    assert not RunFiles(tmp_path / "rows.jsonl").checkpoints.exists()


def test_a20_the_same_directory_may_be_written_in_another_way(
    tmp_path: Path,
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """A20: what counts is where the checkpoints are."""
    replies = [saying(call("get_messages")), saying(words())]
    first = Stopping(replies).at(1)
    played(first, stop=first.stop, checkpoint_dir=tmp_path / "ck", count=1)
    (tmp_path / "link").symlink_to(tmp_path / "ck")
    again = {"resume": True, "checkpoint_dir": tmp_path / "link", "count": 1}
    outcome, _, _ = played(Told(replies), **again)

    assert (Ending.COMPLETE, 1) == (outcome.ending, outcome.continued)


@pytest.mark.parametrize("damaged", [1, 2])
def test_a23_what_is_said_of_damaged_checkpoints_is_true(
    damaged: int,
    tmp_path: Path,
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """A23: an older checkpoint is said to be used if there is one, or else that none is."""
    replies = [saying(call("get_messages"))] * 3 + [saying(words())]
    kept = {"checkpoint_dir": tmp_path / "ck", "count": 1}
    for turn, more in ((1, {}), (1, {"resume": True})):
        stopping = Stopping(replies).at(turn)
        played(stopping, stop=stopping.stop, **kept, **more)
    pairs = sorted((tmp_path / "ck").iterdir())
    for pair in pairs[-damaged:]:
        (records,) = pair.glob("gym/agent/*/records-*.jsonl")
        records.write_bytes(records.read_bytes()[:-10])
    outcome, _, watch = played(Told(replies), resume=True, **kept)

    assert 2 == len(pairs)
    assert ["a checkpoint cannot be used"] * damaged == [
        note[:27] for note in watch.notes[:damaged]
    ]
    told = watch.notes[damaged]
    if damaged == 1:
        assert told.endswith(f"from {pairs[0].name}, the newest that can be used")
    else:
        assert "no checkpoint can be used: 1 rollouts start over" == told
    assert (Ending.COMPLETE, 2 - damaged) == (outcome.ending, outcome.continued)


def test_without_a_checkpoint_it_starts_over(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """A stopped rollout that no checkpoint has begins again as the next attempt."""
    replies = [saying(call("get_messages")), saying(words())]
    first = Stopping(replies).at(1)
    played(first, stop=first.stop, count=1)
    second = Told(replies)
    outcome, rows, _ = played(second, count=1, resume=True)

    assert (0, 1) == (outcome.continued, outcome.done)
    assert [1] == [row["attempt"] for row in rows]
    assert 2 == len(second.asked)


def test_a_torn_row_runs_again(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """The fragment is moved aside, the others stay, and its rollout is the next attempt."""
    _, rows, _ = played(careful, count=3)
    path = tmp_path / "rows.jsonl"
    whole = path.read_bytes()
    cut = whole.rfind(b"\n", 0, -1) + 1
    path.write_bytes(whole[: cut + 500])
    outcome, again, _ = played(careful, count=3, resume=True)

    assert whole[:cut] == path.read_bytes()[:cut]
    assert whole[cut : cut + 500] == (tmp_path / f"rows.jsonl.torn-{cut}").read_bytes()
    assert (2, 3) == (outcome.earlier, outcome.done)
    assert rows[2] | {"attempt": 0} == again[2] | {"attempt": 0}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda lines: [lines[0], b"{", *lines[1:]], "broken_row"),
        (lambda lines: [lines[0], lines[0]], "repeated_row"),
        (lambda lines: [b"[]", *lines], "broken_row"),
        (lambda lines: [lines[0].replace(b'x":0', b'x":7')], "broken_row"),
    ],
)
def test_rows_that_are_not_of_the_run(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
    change: Callable[..., list[bytes]],
    code: str,
) -> None:
    """A line in the middle that is broken, foreign or there twice is refused, untouched."""
    played(careful, count=2)
    path = tmp_path / "rows.jsonl"
    changed = b"".join(line + b"\n" for line in change(path.read_bytes().splitlines()))
    path.write_bytes(changed)
    with pytest.raises(RunFileError, match="line") as caught:
        played(careful, count=2, resume=True)

    assert code == caught.value.code
    assert changed == path.read_bytes()


def test_another_configuration_is_refused(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """A resume with another number of repeats says what was and what is."""
    played(careful, count=2)
    with pytest.raises(RunFileError) as caught:
        played(careful, count=2, repeats=3, resume=True)

    assert "other_configuration" == caught.value.code
    assert "num_repeats was 1, now 3" in caught.value.message


def test_a_run_that_has_only_just_begun_keeps_its_configuration(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """Another run of the same output is refused and leaves nothing of its own."""
    files = RunFiles(tmp_path / "rows.jsonl")
    files.configuration.write_bytes(b"of the first run")
    with LineFile(files.output), pytest.raises(RunFileError) as caught:
        played(careful)

    assert "output_in_use" == caught.value.code
    assert b"of the first run" == files.configuration.read_bytes()


def test_existing_rows_are_not_overwritten(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """Without resume an output that is there is refused; so are rows of nobody knows."""
    played(careful, count=1)
    with pytest.raises(RunFileError) as caught:
        played(careful, count=1)

    assert "output_exists" == caught.value.code

    (tmp_path / "rows.jsonl.run.json").unlink()
    with pytest.raises(RunFileError) as caught:
        played(careful, count=1, resume=True)

    assert "no_run" == caught.value.code


def test_a_full_disk_ends_a_run_that_can_go_on(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """When a row cannot be written the run ends, and goes on when there is room."""
    append, limit = LineFile.append, 3

    def full(self: LineFile, line: bytes) -> None:
        if (
            self.path.name == "rows.jsonl"
            and self.path.read_bytes().count(b"\n") == limit
        ):
            raise RunFileError("write_failed", "no space left; go on with --resume")
        append(self, line)

    with monkeypatch.context() as patched:
        patched.setattr(LineFile, "append", full)
        with pytest.raises(RunFileError) as caught:
            played(careful, count=9)
    outcome, rows, _ = played(careful, count=9, resume=True)

    assert "write_failed" == caught.value.code
    assert (limit, 9) == (outcome.earlier, outcome.done)
    assert 9 == len({row["_ng_task_index"] for row in rows})


def test_a_checkpoint_that_fails_stops_nobody(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When a checkpoint cannot be written the run says so and goes on."""

    def fail(*_: object) -> NoReturn:
        raise CheckpointError("invalid_checkpoint_state", "no space left")

    monkeypatch.setattr("ipistate.rollouts.store.Store.write", fail)
    outcome, rows, watch = played(
        careful,
        count=9,
        repeats=5,
        checkpoint_dir=tmp_path / "ck",
        checkpoint_seconds=0.01,
    )

    assert (Ending.COMPLETE, 45) == (outcome.ending, len(rows))
    assert any("no space left" in note for note in watch.notes)


def test_a_policy_with_a_bug_ends_a_run_that_can_go_on(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
) -> None:
    """What no policy should raise is raised, and the rows before it stay."""
    with pytest.raises(ZeroDivisionError):
        played(careful, Told([ZeroDivisionError()]), count=3, repeats=2, concurrency=1)
    outcome, rows, _ = played(careful, count=3, repeats=2, resume=True)

    assert 1 == outcome.earlier
    assert 6 == len(rows)


def test_a_broken_journal_is_refused(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """A broken line among the attempts is told with its file and number."""
    played(Told([PolicyError("rate_limited", "later")]), count=2)
    path = tmp_path / "rows.jsonl.attempts.jsonl"
    path.write_bytes(b"{\n" + path.read_bytes())
    with pytest.raises(RunFileError, match=r"attempts\.jsonl, line 1"):
        played(careful, count=2, resume=True)


def test_a_broken_configuration_is_refused(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
    careful: ScriptedPolicy,
    tmp_path: Path,
) -> None:
    """A configuration that cannot be read is nothing to go on with."""
    played(careful, count=2)
    (tmp_path / "rows.jsonl.run.json").write_bytes(b'{"run_version": 2}')
    with pytest.raises(RunFileError) as caught:
        played(careful, count=2, resume=True)

    assert "no_run" == caught.value.code
