"""One-line faults of the machine: a simulator that misses one proves nothing."""

import inspect
import sys
import textwrap

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import attrs

from ipistate.protocol import (
    control,
    fencing,
    prepare,
    restore,
    resume,
    retire,
)
from ipistate.protocol.parts import resources, retired_attempts, session_registry


_HEAD = "from __future__ import annotations\n"


@attrs.frozen
class Fault:
    """A piece of the text of a function, and what stands there instead."""

    owner: object
    name: str
    old: str
    new: str

    @contextmanager
    def injected(self) -> Generator[None]:
        """Put the broken function wherever the right one is used."""
        right, wrong = inspect.getattr_static(self.owner, self.name), self._broken()
        places = [
            (place, name)
            for place in self._places()
            for name, value in list(vars(place).items())
            if value is right
        ]
        for place, name in places:
            setattr(place, name, wrong)
        try:
            yield
        finally:
            for place, name in places:
                setattr(place, name, right)

    def _places(self) -> list[Any]:
        if inspect.isclass(self.owner):
            return [self.owner]
        names = [name for name in sys.modules if name.startswith("ipistate.")]
        return [sys.modules[name] for name in names]

    def _broken(self) -> property | Callable[..., Any]:
        right = inspect.getattr_static(self.owner, self.name)
        function = getattr(right, "fget", right)
        text = textwrap.dedent(inspect.getsource(function))
        if text.count(self.old) != 1:
            raise LookupError(f"{self.name} does not contain {self.old!r} once")
        text = _HEAD + text.replace(self.old, self.new)
        scope: dict[str, Any] = {}
        exec(text, vars(sys.modules[function.__module__]), scope)
        found: property | Callable[..., Any] = scope[self.name]
        return found


FAULTS = {
    "prepare leaves the gate open": Fault(
        prepare,
        "begin",
        "participant.part.close(now, body.deadline_ts, emit)",
        "participant.part",
    ),
    "the fence is forgotten": Fault(
        fencing, "remembered", "(*resumed, checkpoint_id)[-REMEMBERED_IDS:]", "resumed"
    ),
    "the stop flag is ignored": Fault(
        resume, "_start", "cut is not None and cut.is_writing", "False"
    ),
    "a used session stays unclaimed": Fault(
        session_registry.SessionRegistry, "claimed", "if not claimed", "if True"
    ),
    "a mark does not refuse its own attempt": Fault(
        retired_attempts, "is_among", "<=", "<"
    ),
    "ready while requests run": Fault(
        resources.ResourcesPart, "is_ready", "not self.admitted and ", ""
    ),
    "who left while waiting is still let in": Fault(
        resources.ResourcesPart,
        "end",
        "self.waiting.removed(event.request)",
        "self.waiting",
    ),
    "who leaves after an overdue lease is let in": Fault(
        control, "_leaves", "participant.part.leaves(event)", "False"
    ),
    "a used process is restored into": Fault(
        restore, "read_ended", "objection is not None", "False"
    ),
    "a restore keeps the attempt": Fault(
        resources.ResourcesPart,
        "install",
        "one.episode_id.next_attempt",
        "one.episode_id",
    ),
    "the lease never runs out": Fault(
        resume, "expire", "now < opened.expires_at", "True"
    ),
    "the scope is not exported by": Fault(
        session_registry.SessionRegistry, "exportable", " | self.unwanted(scope)", ""
    ),
    "a commit deletes live sessions": Fault(
        session_registry.SessionRegistry,
        "unwanted",
        "session in self.unclaimed and ",
        "",
    ),
    "a resume does not wait for the deletion": Fault(
        resume, "_start", "opened.is_deleting", "False"
    ),
    "a retry runs again": Fault(
        fencing, "is_answered", "recorded is not None", "False"
    ),
    "a session is freed while it is used": Fault(
        resources.ResourcesPart, "freeing", "self.busy()", "()"
    ),
    "a retire does not wait for seeds": Fault(
        resources.ResourcesPart, "leaving", "is_seeding or ", ""
    ),
    "forgotten before it is freed": Fault(
        retire, "forget", "part.leaving(attempts)", "False"
    ),
    "a lease shrinks": Fault(
        fencing, "renewed", "max(checkpoint.lease_expires_at, until)", "until"
    ),
    "a close ends the wait for a removal": Fault(
        session_registry.SessionRegistry,
        "ended",
        " or self.leaving.get(session) is not None",
        "",
    ),
    "a fork is not bound": Fault(
        resources.ResourcesPart,
        "make",
        "self.bindings.bound(event.sessions)",
        "self.bindings",
    ),
    "a fork of a retired attempt": Fault(
        resources.ResourcesPart,
        "make",
        "map(self.bindings.retired.covers, event.sessions.values())",
        "()",
    ),
    "swept while it is used": Fault(
        resources.ResourcesPart, "sweep", "self.busy() | ", ""
    ),
    "swept while it is freed": Fault(
        resources.ResourcesPart, "sweep", " | self.bindings.leaving.keys()", ""
    ),
    "swept during a checkpoint": Fault(
        resources.ResourcesPart, "sweep", "not self.is_open or not idle", "not idle"
    ),
    "deadlines are not kept": Fault(
        control, "_time_out", "now < holder.body.deadline_ts", "True"
    ),
}
