"""A runner of the command line, and the files that its verbs read."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from click.testing import CliRunner, Result
from local_server import recorded

from ipistate.cli.app import cli
from ipistate.demo.plan import plan
from ipistate.demo.scripts import builtin_scripts
from ipistate.generate import builtin
from ipistate.kernel.codec import encode
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


@pytest.fixture
def run() -> Callable[..., Result]:
    """Return a function that runs ``ipistate`` with arguments and standard input."""

    def invoke(
        *arguments: int | str | Path, given: str | bytes | None = None
    ) -> Result:
        return CliRunner().invoke(cli, [str(one) for one in arguments], input=given)

    return invoke


@pytest.fixture
def document(
    run: Callable[..., Result],
) -> Callable[..., Any]:
    """Return a function that runs a verb and reads its one JSON document."""

    def invoke(*arguments: str | Path, given: str | None = None, code: int = 0) -> Any:
        result = run(*arguments, given=given)
        assert (code, "") == (result.exit_code, result.stderr), result.output
        return json.loads(result.stdout)

    return invoke


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows to a JSON Lines file."""

    def written(name: str, *rows: bytes | dict[str, Any]) -> Path:
        lines = [
            row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows
        ]
        (tmp_path / name).write_bytes(b"".join(line + b"\n" for line in lines))
        return tmp_path / name

    return written


@pytest.fixture(scope="session")
def stored() -> list[dict[str, Any]]:
    """Return the result rows of two rollouts of each of the first five rows."""
    rollouts = plan(builtin_scripts(), 10)
    return [json.loads(encode(recorded(one).row)) for one in rollouts]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Write a checkpoint of two sessions and return its directory."""
    records = [
        SessionRecord(EpisodeId(f"r-{number}"), f"session-{number}", task.environment)
        for number, task in enumerate(builtin.rows()[:2])
    ]
    lines = EncodedStates(EnvironmentCodec()).lines(records)
    CheckpointDirectory(tmp_path / "step", "ipi").write("step-1", lines, StopFlag())
    return tmp_path / "step"
