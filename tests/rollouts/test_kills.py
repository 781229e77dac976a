"""Killed at random moments, a run ends with the rows that it would have had."""

from __future__ import annotations

import os
import sys

from pathlib import Path

import pytest

from killing import rounds


pytestmark = pytest.mark.once


FEW = os.environ.get("HYPOTHESIS_PROFILE") == "sample"
ROUNDS = int(os.environ.get("IPISTATE_KILL_ROUNDS", "1" if FEW else "3"))
SEED = 534
"""In its first round each victim is killed once, and while it plays."""


@pytest.mark.skipif(sys.platform != "linux", reason="finds the server in /proc")
def test_kills_change_nothing(tmp_path: Path) -> None:
    """Rows are equal but for attempts, and no turn before a boundary is asked for again."""
    restored = 0
    for told, different, site, count in rounds(tmp_path, ROUNDS, SEED):
        restored += sum(one.restored for one in told)

        assert [] == different
        assert 0 == sum(one.repeated for one in told)
        assert count == sum(site.attempts().values())
    assert restored > 0
