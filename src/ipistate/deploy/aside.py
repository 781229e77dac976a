"""Work that waits for a disk, while the event loop goes on."""

from __future__ import annotations

import asyncio

from typing import TYPE_CHECKING, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """Do it in a thread, and return what it gives."""
    return await asyncio.get_running_loop().run_in_executor(None, work)
