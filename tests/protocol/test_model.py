"""The part of a policy model, carried by the control machine."""

from __future__ import annotations

import json

from typing import Any

import attrs
import pytest

from machines import LATE, NOW, Machine

from ipistate import SchemaError
from ipistate.capture import (
    CommittedRow,
    CutContinuation,
    FailureRow,
    GenerationCutRecord,
)
from ipistate.errors import CheckpointError
from ipistate.protocol import EpisodeId, Phase, Restorable, participant_status
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.parts import model_events as model
from ipistate.protocol.parts.model import ModelPart
from ipistate.protocol.parts.model_records import ModelRecord, ModelRecords


R0, R1 = EpisodeId("r", 0), EpisodeId("r", 1)
CUT = GenerationCutRecord(
    model_call_id="c9",
    request_digest="d" * 64,
    continuation=CutContinuation(
        source_capture_key="r",
        source_model_call_id="c9",
        staging_keys=("cut/r/c9",),
        prefix_token_count=57,
        prefix_digest="e" * 64,
        effective_output_limit=1024,
    ),
)


def row(call: str = "c1", **members: Any) -> CommittedRow:
    """Make a row of the ledger."""
    whole: dict[str, Any] = {
        "model_call_id": call,
        "fingerprint": "f",
        "context_len": 1,
        "context_digest": "d",
        "digest": "e",
        "staging_key": f"key/{call}",
    }
    return CommittedRow(**{**whole, **members})


class ModelMachine(Machine[ModelPart]):
    """A policy model's machine; calls are numbered from 101."""

    requests = 100

    def arrive(self, episode: EpisodeId | None = R0) -> do.Action | None:
        """Send a call, and return what it caused."""
        self.requests += 1
        actions = self.feed(model.CallArrived(self.requests, episode))
        return actions[0] if actions else None

    def admitted(self, episode: EpisodeId | None = R0, call: str | None = None) -> int:
        """Send a call that is let in."""
        assert do.Admit(self.requests + 1) == self.arrive(episode)
        if call is not None:
            self.feed(model.CallCaptured(self.requests, call))
        return self.requests

    def saved(self, ledger: dict[str, tuple[Any, ...]], *scope: EpisodeId) -> list[Any]:
        """Take a checkpoint of these ledgers."""
        self.call("prepare")
        assert Phase.PREPARED is self.phase()
        self.call("commit", checkpoint_dir="d", episode_ids=scope)
        export = self.last(do.Export)
        states = {key: ledger[key] for key in export.keys if key in ledger}
        self.feed(on.Exported(export.write, states))
        write = self.last(do.Write)
        self.feed(on.WriteEnded(write.write, self.manifest()))
        return list(write.records)


@pytest.fixture
def machine() -> ModelMachine:
    """Return a fresh machine."""
    return ModelMachine(ModelPart())


def test_a_response_that_started_holds_a_prepare_up(machine: ModelMachine) -> None:
    """It finishes; one that could start now is held, and starts at the resume."""
    first, second = machine.admitted(), machine.admitted(R1)
    assert (model.StartResponse(first),) == machine.feed(model.ResponseReady(first))
    prepare = machine.call("prepare")
    assert () == machine.feed(model.ResponseReady(second))
    report = machine.part.report()
    assert (("r",), 2, 1) == (
        report.blockers,
        report.counts["inflight"],
        report.counts["held"],
    )
    machine.feed(model.CallEnded(first))
    assert "prepared" == machine.reply(prepare)["phase"]
    machine.call("resume")

    assert model.StartResponse(second) == machine.last(model.StartResponse)
    assert not machine.part.is_ready


def test_a_call_waits_for_the_resume(machine: ModelMachine) -> None:
    """It is no call of this process before; one that leaves is none at all."""
    machine.call("prepare")
    assert None is machine.arrive()
    assert None is machine.arrive(None)
    machine.feed(model.CallEnded(102))
    assert not machine.part.has_served
    machine.call("resume")

    admits = [action for action in machine.log if isinstance(action, do.Admit)]
    assert [do.Admit(101)] == admits
    machine.call("prepare", checkpoint_id="c2")
    machine.arrive()
    machine.feed(model.CallEnded(103), NOW + 9_999)
    assert [*admits] == [one for one in machine.log if isinstance(one, do.Admit)]


def test_what_nobody_knows_changes_nothing(machine: ModelMachine) -> None:
    """Events of calls that are over, and of other kinds."""
    for event in (
        model.CallCaptured(7, "c"),
        model.ResponseReady(7),
        model.CallEnded(7),
        on.RequestEnded(7, 200, "s"),
    ):
        machine.feed(event)

    assert ModelPart() == machine.part


def test_undelivered_calls_are_not_recorded(machine: ModelMachine) -> None:
    """Their agents make them again; the reply names what a trainer must keep."""
    machine.admitted(R0, "c2")
    held = machine.admitted(R0, "c3")
    machine.call("prepare")
    machine.feed(model.ResponseReady(held))
    ledger = {"r": (row("c1"), row("c2"), row("c3")), "s": (row("x"),)}
    records = machine.saved(ledger, R0, EpisodeId("t", 0))

    assert [ModelRecord(episode_id=R0, rows=(row("c1"),))] == records
    document: Any = machine.last(do.Reply).document
    assert (["key/c1"], {"r": ["key/c1"]}) == (
        document["staging_keys"],
        document["staging_keys_by_episode"],
    )
    assert 2 == machine.part.report().counts["cut_skipped"]


def test_a_commit_needs_a_scope(machine: ModelMachine) -> None:
    """The ledger has rows of rollouts that ended long ago."""
    machine.call("prepare")

    assert "checkpoint_error" == machine.code(
        machine.call("commit", checkpoint_dir="d")
    )


def test_a_restore_replaces_ledgers(machine: ModelMachine) -> None:
    """Rows are stamped once; the executions that ended are retired."""
    old = row("c0", capture_key="r-older")
    failure = FailureRow(model_call_id="f", failure_reason="lost")
    record = ModelRecord(episode_id=R1, rows=(row("c1"), old, failure))
    call = machine.restore(record)
    wanted = machine.last(model.ImportLedger)
    assert {"r-a2": (row("c1", capture_key="r-a1"), old, failure)} == wanted.ledgers
    assert ("r", "r-a1") == wanted.retired
    machine.feed(on.Installed(wanted.read))

    assert ["r-a2"] == machine.reply(call)["restored"]
    assert Phase.RESTORED is machine.phase()


def test_an_episode_without_a_record_gets_an_empty_ledger(
    machine: ModelMachine,
) -> None:
    """What a dead execution has left for the next attempt is no part of it."""
    machine.call("restore", checkpoint_dir="d", episode_ids=(R0,))
    found = Restorable[ModelRecord](machine.manifest(), ())
    machine.feed(on.ReadEnded(machine.last(do.Read).read, found))

    assert {"r-a1": ()} == machine.last(model.ImportLedger).ledgers


def test_an_import_that_fails(machine: ModelMachine) -> None:
    """Calls are admitted again, and nothing is pending."""
    call = machine.restore(ModelRecord(episode_id=R0, rows=(row(),)))
    assert None is machine.arrive()
    read = machine.last(model.ImportLedger).read
    problem = CheckpointError("invalid_checkpoint_state", "no room")
    machine.feed(on.Installed(read, problem))

    assert "invalid_checkpoint_state" == machine.code(call)
    assert do.Admit(101) == machine.last(do.Admit)
    assert {} == machine.part.restored


def test_a_process_that_has_served_cannot_restore(machine: ModelMachine) -> None:
    """Also when its calls are over."""
    machine.feed(model.CallEnded(machine.admitted()))

    assert "checkpoint_error" == machine.code(machine.restore())


@pytest.mark.parametrize("scope", [(), (R1,)])
def test_restored_attempts_that_no_call_has_reached(
    machine: ModelMachine, scope: tuple[EpisodeId, ...]
) -> None:
    """In the scope their rows and their cut are written again, else deleted."""
    machine.restore(ModelRecord(episode_id=R0, rows=(row(),), generation_cuts=(CUT,)))
    machine.feed(on.Installed(machine.last(model.ImportLedger).read))
    machine.call("resume", checkpoint_id="r1")
    assert ["r-a1"] == participant_status(machine.participant)[
        "restored_generation_cuts"
    ]
    written = machine.saved({"r-a1": (row(capture_key="r"),)}, *scope)

    if scope:
        cut = ModelRecord(
            episode_id=R1, rows=(row(capture_key="r"),), generation_cuts=(CUT,)
        )
        assert [cut] == written
        assert ("cut/r/c9", "key/c1") == cut.staging_keys
    else:
        assert [] == written
        assert ("r-a1",) == machine.last(do.Free).keys
        machine.feed(on.Freed(machine.last(do.Free).removal))
        assert {} == machine.part.restored
        assert Phase.COMMITTED is machine.phase()


def test_a_call_reaches_a_restored_attempt(machine: ModelMachine) -> None:
    """From then on its ledger is live."""
    machine.restore(ModelRecord(episode_id=R0, rows=(row(),)))
    machine.feed(on.Installed(machine.last(model.ImportLedger).read))
    machine.call("resume", checkpoint_id="r1")
    machine.admitted(R1)

    assert {} == machine.part.restored
    assert () == machine.part.unwanted(frozenset())
    assert () == machine.part.unwanted(None)


def test_a_retire_cancels_once_and_then_fences(machine: ModelMachine) -> None:
    """A response of a cancelled call does not start; late calls are refused."""
    running, other = machine.admitted(), machine.admitted(EpisodeId("s", 0))
    retire = machine.call("retire", episode_ids=(R1,))
    assert model.CancelCall(running) == machine.last(model.CancelCall)
    assert () == machine.feed(model.ResponseReady(running))
    machine.feed(model.CallEnded(running))
    fence = machine.last(model.RetireLedger)
    assert ("r", "r-a1") == fence.keys
    machine.feed(model.CallEnded(other))
    machine.feed(on.Freed(fence.removal + 5))
    machine.feed(on.Freed(fence.removal))

    assert ["r-a1"] == machine.reply(retire)["retired"]
    cancels = [one for one in machine.log if isinstance(one, model.CancelCall)]
    assert [model.CancelCall(running)] == cancels
    refused = machine.arrive(R1)
    assert isinstance(refused, do.Refuse)
    assert "stale_attempt" == refused.code
    machine.call("forget", rollout_ids=("r",))
    assert isinstance(machine.arrive(R1), do.Admit)


def test_a_retire_wakes_calls_that_wait(machine: ModelMachine) -> None:
    """They are refused at once, others go on waiting."""
    machine.restore(ModelRecord(episode_id=R0))
    machine.feed(on.Installed(machine.last(model.ImportLedger).read))
    machine.arrive(R1)
    machine.arrive(None)
    machine.call("retire", LATE - 1, checkpoint_id="r1", episode_ids=(R1,))

    assert 101 == machine.last(do.Refuse).request
    assert [102] == list(machine.part.waiting)
    assert {} == machine.part.restored


# Records


def test_a_record_is_a_line() -> None:
    """Rows as their ledger has them; reading gives the same record."""
    records = ModelRecords()
    failure = FailureRow(model_call_id="f", failure_reason="lost")
    record = ModelRecord(episode_id=R1, rows=(row(), failure), generation_cuts=(CUT,))
    (line,) = records.lines([record])
    plain: Any = json.loads(line)

    assert ["episode_id", "rows", "generation_cuts"] == list(plain)
    assert record == records.reader(None)(line)
    assert None is records.reader([R0])(line)
    assert "r-a1" == records.key(record)


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        ({"generation_cuts": [{}, {}]}, "missing_member", "$.generation_cuts[0]"),
        ({"rows": [{"model_call_id": 3}]}, "missing_member", "$.rows[0]"),
        ({"rows": 3}, "wrong_type", "$.rows"),
        ({"more": 1}, "unknown_member", "$.more"),
    ],
)
def test_what_is_no_record(change: Any, code: str, path: str) -> None:
    """It is named with its place."""
    (line,) = ModelRecords().lines([ModelRecord(episode_id=R0)])
    changed = json.dumps({**json.loads(line), **change}).encode()
    with pytest.raises(SchemaError) as caught:
        ModelRecords().reader(None)(changed)

    found = caught.value.problems[0]
    assert code in {problem.code for problem in caught.value.problems}
    assert found.path.startswith(path)


@pytest.mark.parametrize("reason", [True, 1.5, [], {}])
def test_a_stop_reason_of_another_kind(reason: Any) -> None:
    """It is a text or an integer, as engines give it."""
    with pytest.raises(SchemaError) as caught:
        attrs.evolve(CUT.continuation, terminal_stop_reason=reason)

    assert "wrong_type" == caught.value.code
    assert (
        3 == attrs.evolve(CUT.continuation, terminal_stop_reason=3).terminal_stop_reason
    )


def test_a_record_has_one_cut_at_most() -> None:
    """Two could not both be continued."""
    record = ModelRecord(episode_id=R0, generation_cuts=(CUT, CUT))
    (line,) = ModelRecords().lines([record])
    with pytest.raises(SchemaError) as caught:
        ModelRecords().reader(None)(line)

    assert ("too_many_cuts", "$.generation_cuts") == (
        caught.value.code,
        caught.value.path,
    )


def cuttable(machine: ModelMachine, call: str, episode: EpisodeId = R0) -> int:
    """Send a call whose generation may be cut."""
    request = machine.admitted(episode)
    machine.feed(model.CallCaptured(request, call, "d" * 64, 5.0))
    return request


def continuation(count: int = 3) -> CutContinuation:
    """Return how a call goes on."""
    return attrs.evolve(CUT.continuation, prefix_token_count=count)


def test_a_prepare_waits_for_one_round_of_cuts(machine: ModelMachine) -> None:
    """Of calls that may be cut; the last one's cut is in the record of its episode."""
    early, late = cuttable(machine, "c1"), cuttable(machine, "c2")
    machine.admitted(R0, "constrained")
    other = cuttable(machine, "c3", EpisodeId("s", 4))
    prepare = machine.call("prepare")
    machine.call("prepare")
    (asked,) = (one for one in machine.log if isinstance(one, model.CutCalls))
    assert {early, late, other} == asked.calls.keys()
    assert ("s", 4, "c3", 5.0) == attrs.astuple(asked.calls[other])[1:]
    assert (0, 0, 1) == cuts(machine)
    machine.feed(model.CutsEnded(asked.round + 1, {early: continuation()}))
    assert Phase.PREPARING is machine.phase()
    machine.feed(
        model.CutsEnded(asked.round, {early: continuation(), late: continuation(9)})
    )

    assert "prepared" == machine.reply(prepare)["phase"]
    assert (2, 1, 1) == cuts(machine)
    # The constrained one was admitted after both, and is what its agent waits for.
    assert [] == machine.saved({}, R0)


def cuts(machine: ModelMachine) -> tuple[int, ...]:
    """Return what the report counts of cuts."""
    counts = machine.part.report().counts
    return tuple(counts[name] for name in ("cut", "cut_failed", "cut_skipped"))


def test_the_cut_of_the_last_call_is_recorded(machine: ModelMachine) -> None:
    """With the digest of what it asked; a resume drops it."""
    cuttable(machine, "c1")
    late = cuttable(machine, "c2")
    cuttable(machine, "c9", EpisodeId("s", 0))
    machine.call("prepare")
    asked = machine.last(model.CutCalls)
    machine.feed(model.CutsEnded(asked.round, {late: continuation(9)}))
    records = machine.saved({}, R0, EpisodeId("s", 0))
    assert [
        ModelRecord(
            episode_id=R0,
            generation_cuts=(
                GenerationCutRecord(
                    model_call_id="c2",
                    request_digest="d" * 64,
                    continuation=continuation(9),
                ),
            ),
        )
    ] == records
    machine.call("resume")

    assert (0, 0, 0) == cuts(machine)
    machine.feed(model.CutsEnded(asked.round, {late: continuation(9)}))
    assert (0, 0, 0) == cuts(machine)


def test_a_round_of_cuts_has_half_of_a_prepare(machine: ModelMachine) -> None:
    """The rest of its time is for what comes after; a round knows when it is over."""
    cuttable(machine, "c1")
    machine.call("prepare", deadline_ts=NOW + 30.0)

    assert NOW + 15.0 == machine.last(model.CutCalls).until


def test_a_call_that_has_left_has_no_cut(machine: ModelMachine) -> None:
    """Its client went away during the round."""
    request = cuttable(machine, "c1")
    machine.call("prepare")
    asked = machine.last(model.CutCalls)
    machine.feed(model.CallEnded(request))
    machine.feed(model.CutsEnded(asked.round, {request: continuation()}))

    assert [] == machine.saved({}, R0)


def test_a_resume_does_not_wait_for_cuts(machine: ModelMachine) -> None:
    """A round that ends after it changes nothing, and the next one is another."""
    request = cuttable(machine, "c1")
    machine.call("prepare")
    first = machine.last(model.CutCalls)
    machine.call("resume")
    machine.feed(model.CutsEnded(first.round, {request: continuation()}))
    assert 0 == cuts(machine)[0]
    machine.call("prepare", checkpoint_id="c2")

    assert machine.last(model.CutCalls).round > first.round


def test_a_restored_cut_is_kept_until_its_call_is_answered(
    machine: ModelMachine,
) -> None:
    """A call that claims it, and dies undelivered, leaves it to the next execution."""
    machine.restore(ModelRecord(episode_id=R0, generation_cuts=(CUT,)))
    machine.feed(on.Installed(machine.last(model.ImportLedger).read))
    machine.call("resume", checkpoint_id="r1")
    request = machine.admitted(R1)
    machine.feed(model.CallCaptured(request, "c10", None, 5.0, claims_cut=True))
    assert ["r-a1"] == machine.part.status()["restored_generation_cuts"]
    kept = ModelRecord(episode_id=R1, generation_cuts=(CUT,))
    assert [kept] == machine.saved({}, R1)
    machine.call("resume")
    machine.feed(model.ResponseReady(request))

    assert [] == machine.part.status()["restored_generation_cuts"]


def test_calls_of_nobody_are_not_recorded(machine: ModelMachine) -> None:
    """A cut of one would be nobody's, so it is not asked for."""
    request = machine.admitted(None)
    machine.feed(model.CallCaptured(request, "c1", "d" * 64, 5.0, claims_cut=True))
    prepare = machine.call("prepare")
    assert "prepared" == machine.reply(prepare)["phase"]
    assert [] == [one for one in machine.log if isinstance(one, model.CutCalls)]
    machine.call("resume")

    assert model.StartResponse(request) in machine.feed(model.ResponseReady(request))
