"""The soak's modules, importable as they are for ``run.py``, and a shadow to compare with."""

from __future__ import annotations

import asyncio
import sys

from base64 import b64encode
from pathlib import Path

import pytest

from ipistate.protocol.episode import EpisodeId


TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "soak/soaking"), str(TESTS / "bench")]

from shadow import Shadow, ShadowSession  # noqa: E402 - found by the line above
from traffic import Part, message, parts  # noqa: E402


@pytest.fixture(scope="session")
def drawn() -> tuple[Part, ...]:
    """Return the requests of all built-in rows."""
    return asyncio.run(parts())


@pytest.fixture
def shadow(drawn: tuple[Part, ...]) -> Shadow:
    """Return the shadow of three sessions, of which each has made a call."""
    made = Shadow()

    async def fill() -> None:
        for number in range(3):
            payload = b64encode(b'{"session_id": "s%d"}' % number)
            session = ShadowSession(
                episode=EpisodeId(f"r{number}", 2),
                part=drawn[number],
                cookie=b"name=%b.time.signature" % payload,
            )
            await made.answer(session, session.part.seed)
            await made.answer(session, message(number))

    asyncio.run(fill())
    return made
