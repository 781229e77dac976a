"""A session as a value: a seed, and what every call since has done to it.

Worlds share all that did not change, so keeping each of them costs what changed.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

import attrs

from ipistate.errors import IpiStateError, preview
from ipistate.kernel import (
    EMPTY_OBJECT,
    Environment,
    Representation,
    html_table,
    identical,
    misused,
    record_summary,
    summarized,
    summary,
    whole_text,
)
from ipistate.tools import TOOLS, Tool, ToolCall, ToolError, Transition, call_tool


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_INSTEAD: Final = "Session(Environment.of(world))"


class CallTool(Protocol):
    """A function that executes a call as ``call_tool`` does."""

    def __call__(
        self,
        environment: Environment,
        name: str,
        arguments: Mapping[str, object],
        /,
        *,
        tools: Mapping[str, Tool],
    ) -> Transition:
        """Execute one call."""
        ...


class IdempotencyError(IpiStateError):
    """A key that was used for another call."""


class SessionRangeError(IpiStateError, IndexError):
    """A position that a session's log does not have."""


@attrs.frozen
class Step:
    """One call of a session's log: what was asked, answered and changed."""

    call: ToolCall
    output: str
    environment: Environment
    """The world after the call."""
    error: ToolError | None = None
    key: str | None = None
    """The idempotency key that the call was made under, if any."""

    __repr__: ClassVar[Representation] = summarized(
        "output", "call", "environment", "error"
    )


def _world(seed: Any) -> Environment:
    if isinstance(seed, Environment):
        return seed
    raise misused("a session begins with an Environment", seed, _INSTEAD)


@attrs.frozen
class Session:
    """One session with all of its calls, immutable.

    Every operation gives another session and leaves this one, so a fork is the value.
    The tools are no part of the value: they count neither for equality nor in storage.
    """

    schema_version: ClassVar[int] = 2
    is_logged: ClassVar[bool] = True
    """Whether its calls are logged."""

    seed: Environment = attrs.field(converter=_world)
    log: tuple[Step, ...] = ()
    tools: Mapping[str, Tool] = attrs.field(default=TOOLS, kw_only=True, eq=False)
    """The tools that its calls are made with."""

    @property
    def environment(self) -> Environment:
        """The world now."""
        return self.log[-1].environment if self.log else self.seed

    @cached_property
    def seed_digest(self) -> str:
        """SHA-256 of the seed's JSON, in hex: equal for rollouts of one task."""
        return sha256(self.seed.to_json()).hexdigest()

    @property
    def worlds(self) -> tuple[Environment, ...]:
        """The seed and the world after each call, oldest first."""
        return (self.seed, *(step.environment for step in self.log))

    def step(
        self,
        name: str,
        arguments: Mapping[str, object] = EMPTY_OBJECT,
        *,
        tools: Mapping[str, Tool] | None = None,
        run: CallTool = call_tool,
    ) -> Self:
        """Make one call; what the model reads is ``log[-1].output``.

        Args:
            name: The tool's name.
            arguments: A JSON object.
            tools: Tools for this call alone, in place of the session's own.
            run: What executes the call: ``call_tool``, or a function that watches it.

        Raises:
            EncodeError: ``arguments`` are not JSON.
            SchemaError: ``wrong_type``: they are not an object.
        """
        call, used = _asked(name, arguments), self.tools if tools is None else tools
        return self._with(execute(self.environment, call, None, tools=used, run=run))

    def once(
        self,
        key: str,
        name: str,
        arguments: Mapping[str, object] = EMPTY_OBJECT,
        *,
        tools: Mapping[str, Tool] | None = None,
        run: CallTool = call_tool,
    ) -> tuple[Self, Step]:
        """Make a call at most once: a key that was used gives the recorded step.

        A call that is refused (its step has an error) does not use up its key.

        Returns:
            The session, the same one if nothing was executed, and the call's step.

        Raises:
            EncodeError: ``arguments`` are not JSON.
            SchemaError: ``wrong_type``: they are not an object.
            IdempotencyError: ``key_conflict``: the key was used for another call.
        """
        call = _asked(name, arguments)
        key = whole_text(key)  # as it comes back from storage
        for step in self.log:
            if step.key == key:
                _check_repeated(step, call)
                return self, step
        used = self.tools if tools is None else tools
        made = execute(self.environment, call, key, tools=used, run=run)
        return self._with(made), made

    def call(
        self,
        name: str,
        arguments: Mapping[str, object] = EMPTY_OBJECT,
        *,
        tools: Mapping[str, Tool] | None = None,
        run: CallTool = call_tool,
    ) -> tuple[Self, str]:
        """Make one call as ``step`` does; returns what the model reads, too."""
        after = self.step(name, arguments, tools=tools, run=run)
        return after, after.log[-1].output

    def _with(self, step: Step) -> Self:
        return attrs.evolve(self, log=(*self.log, step))

    def fork(self, count: int) -> tuple[Self, ...]:
        """Return ``count`` independent sessions that share everything until now."""
        return (self,) * count

    def rewind(self, count: int) -> Self:
        """Take back the last ``count`` calls.

        Raises:
            SessionRangeError: ``no_such_step``: there are not so many.
        """
        if not 0 <= count <= len(self.log):
            raise self._no_such_step(count)
        return self.at(len(self.log) - count)

    def at(self, position: int) -> Self:
        """Return the session as it was after ``position`` calls; 0 is the seed.

        Raises:
            SessionRangeError: ``no_such_step``: there are not so many.
        """
        if not 0 <= position <= len(self.log):
            raise self._no_such_step(position)
        return attrs.evolve(self, log=self.log[:position])

    def _no_such_step(self, count: int) -> SessionRangeError:
        message = f"the session has {len(self.log)} calls"
        return SessionRangeError("no_such_step", message, preview=preview(count))

    def history(self) -> Iterator[Self]:
        """Visit the session as it was after each call, the seed first."""
        return (self.at(position) for position in range(len(self.log) + 1))

    def __repr__(self) -> str:
        made = (
            {"last": self.log[-1].call, "output": self.log[-1].output}
            if self.log
            else {}
        )
        shown = {"calls": len(self.log), **made, "environment": self.environment}
        return record_summary(self, shown)

    def _repr_html_(self) -> str:
        rows = (
            (str(n), one.call.name, summary(one.call.arguments), one.output)
            for n, one in enumerate(self.log)
        )
        heads = ("call", "tool", "arguments", "output")
        return html_table(f"{self!r}", heads, rows, len(self.log))


@attrs.frozen
class UnloggedSession(Session):
    """A session that keeps its world only, because a log costs memory.

    Every call gives a session that begins with its world, so there is nothing to
    rewind, to replay, or to make at most once.
    """

    is_logged: ClassVar[bool] = False

    def call(
        self,
        name: str,
        arguments: Mapping[str, object] = EMPTY_OBJECT,
        *,
        tools: Mapping[str, Tool] | None = None,
        run: CallTool = call_tool,
    ) -> tuple[Self, str]:
        """Make one call; a session that does not change is returned itself."""
        used = self.tools if tools is None else tools
        done = run(self.seed, name, arguments, tools=used)
        if done.environment is self.seed:
            return self, done.output
        return self.__class__(done.environment, tools=self.tools), done.output

    def _with(self, step: Step) -> Self:
        return self.__class__(step.environment, tools=self.tools)


def _asked(name: object, arguments: Any) -> ToolCall:
    # A log holds objects only.
    if isinstance(name, str):
        return ToolCall(name, arguments)
    raise misused("a tool is called by its name", name, "the name, a text")


def execute(
    world: Environment,
    call: ToolCall,
    key: str | None,
    *,
    tools: Mapping[str, Tool],
    run: CallTool = call_tool,
) -> Step:
    """Make a call in a world and note what it did; a refused call has no key."""
    done = run(world, call.name, call.arguments, tools=tools)
    kept = None if done.error is not None else key
    return Step(call, done.output, done.environment, done.error, kept)


def _check_repeated(step: Step, call: ToolCall) -> None:
    known = step.call
    if known.name != call.name or not identical(known.arguments, call.arguments):
        message = f"the key was used for another call, of {known.name!a}"
        raise IdempotencyError("key_conflict", message)
