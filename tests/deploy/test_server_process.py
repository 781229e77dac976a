"""How the process of a server ends."""

from __future__ import annotations

import asyncio
import signal

from pathlib import Path

import pytest

from ipistate.deploy.server_process import ServerProcess


READY = "import sys; print('serving on http://h', file=sys.stderr); sys.stdin.read()"


@pytest.mark.parametrize(
    ("raised", "number"),
    [(asyncio.CancelledError, signal.SIGKILL), (ValueError, signal.SIGTERM)],
)
def test_what_is_cut_short_waits_for_no_server(
    tmp_path: Path,
    raised: type[ValueError | asyncio.CancelledError],
    number: signal.Signals,
) -> None:
    """A server is asked to end, but for a cancellation, which kills it."""
    started: list[ServerProcess] = []

    async def work() -> None:
        process = await ServerProcess.start(("-c", READY), tmp_path / "log", b"")
        started.append(process)
        async with process:
            raise raised

    with pytest.raises(raised):
        asyncio.run(work())

    assert -number == started[0].status
