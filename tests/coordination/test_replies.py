"""Replies: the spec's examples literally, unknown members kept, wrong ones refused."""

from __future__ import annotations

import json

from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.coordination.replies import (
    CommitReply,
    ForgetReply,
    Introduction,
    PrepareReply,
    RenewReply,
    RestoreReply,
    ResumeReply,
    RetireReply,
    StatusReply,
    episodes_of,
    in_order,
)
from ipistate.errors import SchemaError
from ipistate.kernel.schema import structure
from ipistate.protocol.episode import EpisodeId


lists = st.lists(
    st.builds(EpisodeId, st.sampled_from(["r", "s", "t"]), st.integers(0, 12)),
    max_size=8,
)
REPORT = """{"ready": false, "blockers": ["ipi-3", "ipi-9-a1"], "blocker_count": 2,
  "counts": {"inflight": 3, "sessions": 40}, "restarts": ["x-a2"]}"""
DIGEST = "0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086"
EXAMPLES = {
    StatusReply: f"""{{"kind": "resources", "instance": "ipi", "phase": "prepared",
      "checkpoint_id": "step-120", "lease_expires_at": 1790000630.0,
      "retired_rollouts": 0, "report": {REPORT},
      "mode": "exported", "verify": "wait", "retired_sessions": 0}}""",
    PrepareReply: f'{{"phase": "preparing", "report": {REPORT}}}',
    CommitReply: f"""{{"phase": "committed",
      "manifest": {{"schema_version": 1, "kind": "resources", "instance": "ipi",
        "checkpoint_id": "step-120", "records_file": "records-{DIGEST}.jsonl",
        "records_sha256": "{DIGEST}", "record_count": 2}},
      "episode_ids": ["ipi-7", "ipi-9-a1"]}}""",
    RestoreReply: """{"phase": "restored", "source_checkpoint_id": "step-120",
      "restored": ["ipi-7-a1", "ipi-9-a2"]}""",
    ResumeReply: '{"phase": "idle", "idempotent": false}',
    RenewReply: '{"lease_expires_at": 1790000930.0}',
    RetireReply: '{"retired": ["ipi-9-a1"]}',
    ForgetReply: '{"forgotten": ["ipi-7", "ipi-9"]}',
    Introduction: '{"kind": "model"}',
}
CASES = [pytest.param(*case, id=case[0].__name__) for case in EXAMPLES.items()]


@pytest.mark.parametrize(("record", "text"), CASES)
def test_examples_of_the_spec(record: type[object], text: str) -> None:
    """Each example is read, all of its members where they belong."""
    document = json.loads(text)
    reply: Any = structure(document, record)
    extra = {name: document[name] for name in reply.extra}
    named = {name: member for name, member in document.items() if name not in extra}

    assert extra == reply.extra
    assert {*named} <= {*dir(reply)}
    assert ({*extra} == {"mode", "verify", "retired_sessions"}) == (
        record is StatusReply
    )


@pytest.mark.parametrize(("record", "text"), CASES)
def test_unknown_members_are_kept(record: type[object], text: str) -> None:
    """A later revision may say more."""
    document = json.loads(text) | {"workers": [1, {"x": None}]}
    reply: Any = structure(document, record)

    assert document["workers"] == reply.extra["workers"]


@pytest.mark.parametrize(("record", "text"), CASES)
@pytest.mark.parametrize("other", [[], None, "text", {}, {"error": {"code": "x"}}])
def test_other_documents_are_refused(
    record: type[object], text: str, other: Any
) -> None:
    """What lacks the reply's members is no reply."""
    with pytest.raises(SchemaError):
        structure(other, record)


def changed(record: type[object], *path: str, to: Any) -> dict[str, Any]:
    """Return an example with one member changed."""
    document: dict[str, Any] = json.loads(EXAMPLES[record])
    part: Any = document
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = to
    return document


WRONG = [
    (StatusReply, "kind", "gateway"),
    (StatusReply, "phase", "frozen"),
    (StatusReply, "lease_expires_at", "soon"),
    (StatusReply, "retired_rollouts", True),
    (PrepareReply, "phase", "ready"),
    (PrepareReply, "report", "ready", 1),
    (PrepareReply, "report", "blockers", "ipi-3"),
    (PrepareReply, "report", "blocker_count", 2.0),
    (PrepareReply, "report", "counts", {"inflight": "3"}),
    (PrepareReply, "report", "restarts", ["-a1"]),
    (CommitReply, "phase", "prepared"),
    (CommitReply, "manifest", None),
    (CommitReply, "manifest", "record_count", "2"),
    (CommitReply, "episode_ids", ["r-a1-a2"]),
    (CommitReply, "staging_keys", [1]),
    (RestoreReply, "phase", "idle"),
    (RestoreReply, "restored", [""]),
    (ResumeReply, "phase", "prepared"),
    (ResumeReply, "idempotent", 0),
    (RenewReply, "lease_expires_at", None),
    (RetireReply, "retired", ["a b"]),
    (ForgetReply, "forgotten", "ipi-7"),
    (Introduction, "kind", "gateway"),
]


@pytest.mark.parametrize(
    "wrong", WRONG, ids=[".".join(map(str, one[1:])) for one in WRONG]
)
def test_wrong_members_are_refused(wrong: tuple[Any, ...]) -> None:
    """Nothing is coerced, and a phase is the one that the operation leads to."""
    record, *path, value = wrong
    with pytest.raises(SchemaError) as caught:
        structure(changed(record, *path, to=value), record)

    assert path[-1] in str(caught.value)


def test_blockers_need_not_be_episodes() -> None:
    """A server with several workers may name what is no episode (section 2.9)."""
    others = ["agent-workers-unreported:1", "ipi-9-a1"]
    document = changed(PrepareReply, "report", "blockers", to=others)
    reply = structure(document, PrepareReply)

    assert tuple(others) == reply.report.blockers
    assert (EpisodeId("ipi-9", 1),) == reply.report.blocking_episodes


def test_members_of_a_model_commit() -> None:
    """A model's commit names what the token store must keep."""
    document = json.loads(EXAMPLES[CommitReply]) | {
        "staging_keys": ["k-1"],
        "staging_keys_by_episode": {"ipi-7": ["k-1"]},
    }
    reply = structure(document, CommitReply)

    assert (("k-1",), {"ipi-7": ["k-1"]}) == (
        reply.staging_keys,
        reply.staging_keys_by_episode,
    )


@given(lists)
def test_in_order_sorts_numbers_as_numbers(named: list[EpisodeId]) -> None:
    """Attempt 10 stands behind attempt 9, and nothing twice."""
    assert sorted({(one.rollout_id, one.attempt) for one in named}) == [
        (one.rollout_id, one.attempt) for one in in_order(named)
    ]


@given(lists)
def test_capture_keys_are_read(named: list[EpisodeId]) -> None:
    """Keys give back the episodes."""
    assert tuple(named) == episodes_of([one.capture_key for one in named])
