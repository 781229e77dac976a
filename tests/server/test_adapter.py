"""The adapter is small, because the rules are elsewhere."""

from __future__ import annotations

from pathlib import Path

from ipistate import server


def test_what_speaks_the_protocol_fits_into_a_thousand_lines() -> None:
    """Routes, the tool call's way, cookie, prefix, gate and token, put together."""
    room = Path(server.__file__).parent
    modules = [room / "app.py", *(room / "adapter").glob("*.py")]
    lines = [len(one.read_text("utf-8").splitlines()) for one in modules]

    assert len(lines) > 7
    assert sum(lines) <= 1_000
