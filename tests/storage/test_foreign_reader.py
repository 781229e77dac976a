"""A reader written from the specification alone reads what we write (section 4)."""

from __future__ import annotations

import hashlib
import json
import re

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel.environment import Environment
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag
from ipistate.testing import worlds
from ipistate.tools import RECORDS


def read_as_specified(
    checkpoint_dir: str, kind: str, instance: str
) -> tuple[dict[str, int | str], list[dict[str, Any]]]:
    """Read a participant's records with the standard library, check by check (4.6)."""
    folder = Path(checkpoint_dir) / "gym" / kind / instance
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert 1 == manifest["schema_version"]
    assert (kind, instance) == (manifest["kind"], manifest["instance"])
    assert isinstance(manifest["checkpoint_id"], str)
    assert re.fullmatch(r"records(-[0-9a-f]{64})?\.jsonl", manifest["records_file"])
    data = (folder / manifest["records_file"]).read_bytes()
    assert manifest["records_sha256"] == hashlib.sha256(data).hexdigest()
    lines = data.split(b"\n")
    assert b"" == lines.pop()
    assert manifest["record_count"] == len(lines)
    return manifest, [json.loads(line) for line in lines]


@given(st.lists(worlds(RECORDS["legal"]), max_size=3))
def test_a_foreign_reader_reads_our_checkpoints(found: list[Environment]) -> None:
    """Every record arrives with its names, key order and kinds of number."""
    records = [
        SessionRecord(EpisodeId(f"r{number}", number), f"s{number}", world)
        for number, world in enumerate(found)
    ]
    with TemporaryDirectory() as folder:
        lines = EncodedStates(EnvironmentCodec()).lines(records)
        CheckpointDirectory(Path(folder), "ipi").write("step-1", lines, StopFlag())
        manifest, rows = read_as_specified(folder, "resources", "ipi")

    assert "step-1" == manifest["checkpoint_id"]
    for record, row in zip(records, rows, strict=True):
        assert {"episode_id", "session_id", "state"} == row.keys()
        number = record.episode_id.attempt
        assert {"rollout_id": f"r{number}", "attempt": number} == row["episode_id"]
        assert record.session_id == row["session_id"]
        assert isinstance(record.state, Environment)
        state = {"schema_version": 1, "environment": record.state.document}
        assert json.dumps(state) == json.dumps(row["state"])
