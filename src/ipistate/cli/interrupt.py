"""Interruptions: the first one stops the work cleanly, the next ones wait for that."""

from __future__ import annotations

import asyncio
import signal

from typing import TYPE_CHECKING, Any, Final, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_interruptibly(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; SIGINT and SIGTERM cancel it once, so its clean-up is whole.

    Raises:
        KeyboardInterrupt: It was interrupted, and has cleaned up.
    """
    return run_stoppably(work, lambda: False)


def run_stoppably(work: Coroutine[Any, Any, T], stop: Callable[[], bool]) -> T:
    """Run a coroutine; the first signal calls ``stop``, the second one cancels.

    Args:
        work: What to run; it ends by itself once it was stopped.
        stop: Stops it, and says whether that can be done; if not, it is cancelled.

    Raises:
        KeyboardInterrupt: It was cancelled, and has cleaned up.
    """
    try:
        return asyncio.run(_stoppable(work, stop))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _stoppable(work: Coroutine[Any, Any, T], stop: Callable[[], bool]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.create_task(work)
    signals = 0

    def heard() -> None:
        nonlocal signals
        signals += 1
        # Cancelling again would interrupt the clean-up after the first time.
        if (signals > 1 or not stop()) and not task.cancelling():
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, heard)
    try:
        return await task
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
