"""An event loop whose time is virtual, and whose callbacks die with their process.

Nothing waits in it: when nothing can run, time goes to the next timer.
"""

from __future__ import annotations

import asyncio

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

import attrs


class Stuck(Exception):
    """Everybody waits, and nothing will ever happen."""


@attrs.define(eq=False)
class Life:
    """One life of a process; what belongs to it does not run after its death."""

    name: str
    is_alive: bool = True
    tasks: list[asyncio.Task[Any]] = attrs.field(factory=list)
    """All that it has begun. They are kept, so that none is cleaned up by chance."""


LIFE: ContextVar[Life] = ContextVar("LIFE")


class _NoFiles:
    """What the loop asks for input; it lets time pass."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Let so much time pass."""
        if timeout is None:
            raise Stuck("nobody waits for anything that will happen")
        self._loop.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is alive; threads are replaced by what ``aside`` says."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_700_000_000.0
        # Times of this size have steps of a quarter of a microsecond.
        self._clock_resolution = 1e-5
        self._selector = _NoFiles(self)
        self.is_draining = False
        self.aside: Callable[[Callable[[], Any], asyncio.Future[Any]], None]
        self.set_task_factory(_task)

    def time(self) -> float:
        """Return the virtual time, in seconds since the epoch."""
        return self.now

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run something next, if its process is alive then."""
        return super().call_soon(self._alive, callback, args, context=context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run something later, if its process is alive then."""
        return super().call_at(when, self._alive, callback, args, context=context)

    def _alive(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.is_draining or LIFE.get().is_alive:
            callback(*args)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do work aside, at a time that is drawn."""
        del executor
        done = self.create_future()
        self.aside(lambda: func(*args), done)
        return done

    def _process_events(self, event_list: list[Any]) -> None:
        """Have no events."""

    def _write_to_self(self) -> None:
        """Need no waking."""


def _task(
    loop: asyncio.AbstractEventLoop, coro: Any, **options: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    life = LIFE.get() if context is None else context[LIFE]
    life.tasks.append(task)
    return task


def context_of(life: Life) -> Context:
    """Return a context in which everything belongs to a life."""
    context = copy_context()
    context.run(LIFE.set, life)
    return context
