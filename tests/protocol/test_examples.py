"""The JSON examples of the specification, executed literally: bodies in, replies out."""

from __future__ import annotations

import json

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from documents import at

from ipistate.kernel.codec import encode
from ipistate.kernel.environment import Environment
from ipistate.kernel.values import JsonObject
from ipistate.protocol.records import Restorable, SessionRecord
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


T0 = 1790000000.0
DIGEST = "0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086"
RECORDS = (
    b'{"episode_id": {"rollout_id": "ipi-7", "attempt": 0}, "session_id": "3f0c4f1e-6f0e-4b7c-9a55-0c2f6d1f7a10", "state": {"schema_version": 1, "environment": {"patients": {"P-7742": {"name": "R. Osei", "chart_notes": "Stable."}}, "messages": []}}}\n'
    b'{"episode_id": {"rollout_id": "ipi-9", "attempt": 1}, "session_id": "b7a1c9de-2f4b-4d0e-8b61-5a9d3e8c2f44", "state": {"schema_version": 1, "environment": {"candidates": {"C-4552": {"status": "Applied"}}, "note": "caf\\u00e9"}}}\n'
)
MANIFEST = """{
 "checkpoint_id": "step-120",
 "instance": "ipi",
 "kind": "resources",
 "record_count": 2,
 "records_file": "records-0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086.jsonl",
 "records_sha256": "0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086",
 "schema_version": 1
}"""


@pytest.fixture
def example(
    shell_class: type[Shell], tmp_path: Path
) -> tuple[Shell, Restorable[SessionRecord]]:
    """Return a shell at the examples' time, and what their directory holds."""
    shell = shell_class()
    shell.now = T0
    path = tmp_path / "gym" / "resources" / "ipi"
    path.mkdir(parents=True)
    (path / f"records-{DIGEST}.jsonl").write_bytes(RECORDS)
    (path / "manifest.json").write_text(MANIFEST)
    return shell, CheckpointDirectory(tmp_path, "ipi").read(EnvironmentCodec())


def post(shell: Shell, operation: str, text: str) -> int:
    """Send a body as it stands in the specification."""
    return shell.post(operation, json.loads(text))


def matches(text: str, document: JsonObject) -> bool:
    """Tell whether a reply is the one that stands in the specification."""
    return bool(json.loads(text) == json.loads(encode(document)))


def test_the_report_of_a_status_and_a_prepare(
    example: tuple[Shell, Restorable[SessionRecord]],
) -> None:
    """Sections 2.8, 2.9 and 2.14."""
    shell, _ = example
    for number in range(58):
        shell.seed(f"s{number}", f"r{number}")
    body = '{"checkpoint_id": "step-120", "deadline_ts": 1790000030.0}'

    assert matches(
        """{"phase": "prepared", "report": {"ready": true, "blockers": [], "blocker_count": 0,
            "counts": {"inflight": 0, "sessions": 58}, "restarts": []}}""",
        shell.document(post(shell, "prepare", body)),
    )
    assert matches(
        """{"kind": "resources", "instance": "ipi", "phase": "prepared", "checkpoint_id": "step-120",
            "lease_expires_at": 1790000630.0, "retired_rollouts": 0,
            "report": {"ready": true, "blockers": [], "blocker_count": 0,
                "counts": {"inflight": 0, "sessions": 58}, "restarts": []},
            "mode": "exported", "verify": "wait", "retired_sessions": 0}""",
        shell.status(),
    )
    renew = '{"checkpoint_id": "step-120", "deadline_ts": 1790000330.0}'
    assert matches(
        '{"lease_expires_at": 1790000930.0}',
        shell.document(post(shell, "renew", renew)),
    )


def test_the_report_of_a_prepare_that_is_not_ready(
    example: tuple[Shell, Restorable[SessionRecord]],
) -> None:
    """Section 2.9: two retires were cut short, three requests run."""
    shell, _ = example
    for name, episode in (("a", "ipi-3"), ("b", "ipi-9-a1")):
        shell.seed(name, episode)
    for number in range(38):
        shell.seed(f"s{number}", f"r{number}")
    running = [shell.arrive("/tool", name) for name in ("a", "b", "s0")]
    shell.retire("ipi-9-a1", "ipi-3", deadline=5)
    shell.pass_time(5)
    call = shell.call("prepare", "step-120", deadline=25)
    shell.pass_time(25)

    assert matches(
        """{"phase": "preparing", "report": {"ready": false, "blockers": ["ipi-3", "ipi-9-a1"], "blocker_count": 2,
            "counts": {"inflight": 3, "sessions": 40}, "restarts": []}}""",
        shell.document(call),
    )
    shell.call("resume", "step-120")
    for request in running:
        shell.end(request)
    again = shell.retire("ipi-9-a1")
    assert matches('{"retired": ["ipi-9-a1"]}', shell.document(again))
    shell.retire("ipi-3", "ipi-7")
    forget = shell.forget("ipi-9", "ipi-7")
    assert matches('{"forgotten": ["ipi-7", "ipi-9"]}', shell.document(forget))


def test_a_commit_and_a_restore(
    example: tuple[Shell, Restorable[SessionRecord]],
) -> None:
    """Sections 2.10 and 2.13, with the directory of section 4."""
    before, found = example
    for record in found.records:
        assert isinstance(record.state, Environment)
        before.worlds[record.session_id] = record.state
        before.request("/seed_session", record.session_id, record.episode_id)
    before.prepared("step-120")
    commit = post(
        before,
        "commit",
        """{"checkpoint_id": "step-120", "deadline_ts": 1790000060.0, "checkpoint_dir": "/ckpt/step-120",
            "episode_ids": [{"rollout_id": "ipi-7", "attempt": 0}, {"rollout_id": "ipi-9", "attempt": 1}], "stop": true}""",
    )
    (write,) = before.writes.values()
    assert found.records == write.records
    before.publish(manifest=found.manifest)
    assert matches(
        """{"phase": "committed",
            "manifest": {"schema_version": 1, "kind": "resources", "instance": "ipi", "checkpoint_id": "step-120",
                "records_file": "records-0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086.jsonl",
                "records_sha256": "0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086", "record_count": 2},
            "episode_ids": ["ipi-7", "ipi-9-a1"]}""",
        before.document(commit),
    )
    after = before.crash()
    restore = after.restore("restore-1", scope=["ipi-7", "ipi-9-a1"])
    after.read(found=found)
    assert matches(
        '{"phase": "restored", "source_checkpoint_id": "step-120", "restored": ["ipi-7-a1", "ipi-9-a2"]}',
        after.document(restore),
    )


C = "3f0c4f1e-6f0e-4b7c-9a55-0c2f6d1f7a10"


def test_the_worked_example(example: tuple[Shell, Restorable[SessionRecord]]) -> None:
    """Appendix C, lines 1 to 12."""
    before, found = example
    before.now = T0 + 10
    state = found.records[0].state
    assert isinstance(state, Environment)
    before.seed(C, "ipi-7", world=state)
    before.request("/update_patient_chart", C)
    prepare = post(
        before,
        "prepare",
        '{"checkpoint_id": "step-120", "deadline_ts": 1790000030.0}',
    )
    assert matches(
        '{"phase":"prepared","report":{"ready":true,"blockers":[],"blocker_count":0,"counts":{"inflight":0,"sessions":1},"restarts":[]}}',
        before.document(prepare),
    )
    commit = post(
        before,
        "commit",
        '{"checkpoint_id": "step-120", "deadline_ts": 1790000060.0, "checkpoint_dir": "/ckpt/step-120", "episode_ids": [{"rollout_id": "ipi-7", "attempt": 0}]}',
    )
    before.publish()
    document = before.document(commit)
    assert ("committed", 1) == (
        document["phase"],
        at(document, "manifest", "record_count"),
    )
    assert ["ipi-7"] == [*at(document, "episode_ids")]
    resume = post(
        before, "resume", '{"checkpoint_id": "step-120", "deadline_ts": 1790000070.0}'
    )
    assert matches('{"phase":"idle","idempotent":false}', before.document(resume))

    after = before.crash()
    restore = post(
        after,
        "restore",
        '{"checkpoint_id": "restore-1", "deadline_ts": 1790000130.0, "checkpoint_dir": "/ckpt/step-120", "episode_ids": [{"rollout_id": "ipi-7", "attempt": 0}]}',
    )
    after.read()
    assert matches(
        '{"phase":"restored","source_checkpoint_id":"step-120","restored":["ipi-7-a1"]}',
        after.document(restore),
    )
    waiting = after.arrive("/get_patient_record", C)
    assert waiting in after.waiting
    resume = post(
        after, "resume", '{"checkpoint_id": "restore-1", "deadline_ts": 1790000140.0}'
    )
    assert matches('{"phase":"idle","idempotent":false}', after.document(resume))
    after.end(waiting)
    after.request("/verify", C, "ipi-7-a1")
    assert {"inflight": 0, "sessions": 0} == at(after.status(), "report", "counts")
    again = after.commit("step-120", "/ckpt/step-120", ["ipi-7"])
    assert (409, "invalid_phase") == (after.reply(again)[0], after.code(again))
    late = after.call("prepare", "restore-1")
    assert (409, "stale_checkpoint") == (after.reply(late)[0], after.code(late))
