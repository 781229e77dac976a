"""A minute of the soak, and some kills: real servers, SIGKILL, and the shadow."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from series import SoakOrder
from series import run as soaked


if TYPE_CHECKING:
    from traffic import Part


pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at servers in /proc"),
]

MINUTES, KILLS = {"sample": ("0.2", "4"), "deep": ("60", "200")}.get(
    os.environ.get("HYPOTHESIS_PROFILE", ""), ("1", "8")
)


def run(*options: str) -> dict[str, Any]:
    """Run the command and read its result."""
    script = Path(__file__).with_name("run.py")
    command = [sys.executable, str(script), "--seed", "7", *options]
    done = subprocess.run(command, capture_output=True, check=False)
    assert 0 == done.returncode, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_minute() -> None:
    """Replies and worlds are the shadow's, and nothing grows."""
    found = run("--minutes", MINUTES, "--sessions", "200")

    assert (True, []) == (found["ok"], found["differences"])
    assert 200 >= found["sessions at the end"] > 0
    assert found["counts"]["replies"] > 400


def test_kills_around_commit_and_restore() -> None:
    """So many servers die, and the sessions go on in the next ones."""
    found = run("--kills", KILLS, "--sessions", "64")

    assert (True, []) == (found["ok"], found["differences"])
    assert int(KILLS) == found["counts"]["kills"]
    assert found["counts"]["records compared"] > 0


def test_a_server_that_answers_otherwise_is_seen(
    drawn: tuple[Part, ...], tmp_path: Path
) -> None:
    """Other worlds in the server than in the shadow: replies and records differ."""
    crossed = attrs.evolve(drawn[0], seed=drawn[1].seed)
    order = SoakOrder(kills=1, sessions=16)
    found = asyncio.run(soaked(order, tmp_path, (crossed,)))

    assert not found["ok"]
    assert found["counts"]["differences in replies"] > 0
    assert found["counts"]["differences in records"] > 0
    assert 50 >= len(found["differences"]) > 0
