"""A shell for the control machine that performs its actions in memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, ClassVar

import attrs
import model
import pytest

from documents import at
from session_records import sessions_of

from ipistate.errors import CheckpointError
from ipistate.kernel import JsonObject, JsonValue
from ipistate.kernel.environment import Environment
from ipistate.kernel.schema import structure
from ipistate.protocol import (
    ResourcesState,
    Settings,
    enter,
    handle,
    leave,
    participant_status,
    resources_participant,
)
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.operations import OPERATIONS, Call
from ipistate.protocol.records import Manifest, Restorable, SessionRecord


def failed(message: str = "disk full") -> CheckpointError:
    """Make the error of a directory that cannot be written."""
    return CheckpointError("invalid_checkpoint_state", message)


def manifest_of(action: do.Write) -> Manifest:
    """Make the manifest that a write publishes."""
    return Manifest(
        kind="resources",
        instance="ipi",
        checkpoint_id=action.checkpoint_id,
        records_file="records.jsonl",
        records_sha256="0" * 64,
        record_count=len(action.records),
    )


def reply_of(action: do.Reply) -> tuple[str, int, int, JsonValue]:
    """Reduce a reply: of an error only its code is fixed."""
    document = action.document
    content = document if action.status == 200 else at(document, "error", "code")
    return ("reply", action.call, action.status, content)


def write_of(
    action: do.Write,
) -> tuple[object, ...]:
    """Reduce a write; the order of its records is not fixed."""
    records = {
        r.session_id: (r.episode_id, r.state) for r in sessions_of(action.records)
    }
    assert len(records) == len(action.records)
    return ("write", action.write, action.directory, action.checkpoint_id, records)


ESSENCE: dict[type, Callable[[Any], tuple[object, ...]]] = {
    do.Admit: lambda a: ("admit", a.request),
    do.Refuse: lambda a: ("refuse", a.request, a.status, a.code),
    do.Reply: reply_of,
    do.Export: lambda a: ("export", a.write, {*a.keys}),
    do.Write: write_of,
    do.StopWrite: lambda a: ("stop write", a.write),
    do.Read: lambda a: ("read", a.read, a.directory, {*a.scope}),
    do.Install: lambda a: ("install", a.states),
    do.Free: lambda a: ("free", a.removal, {*a.keys}),
    do.Sweep: lambda a: ("sweep", {*a.session_ids}),
}
"""What the rules say about an action, as the model writes it. Timers are not rules."""


def by_kind(essences: list[tuple[object, ...]]) -> dict[str, list[list[object]]]:
    """Sort them into kinds; those of one kind keep their order."""
    kinds: dict[str, list[list[object]]] = {}
    for name, *rest in essences:
        kinds.setdefault(str(name), []).append(rest)
    return kinds


class Shell:
    """Holds worlds, requests and running writes; ends them when a test says so.

    ``directories`` maps a directory to the action and manifest published there, and
    outlives a crash. After every event the invariants that always hold are checked, and
    actions and status are compared with those of the naive model. ``compared`` counts
    the events.
    """

    compared: ClassVar[Counter[str]] = Counter()

    def __init__(
        self,
        directories: dict[str, tuple[do.Write, Manifest]] | None = None,
        grace: float = 600.0,
    ) -> None:
        """Start a fresh process that finds these directories."""
        self.participant = resources_participant(
            Settings(instance="ipi", lease_grace_seconds=grace)
        )
        self.model: model.Model | None = model.Model("ipi", grace)
        self.directories = {} if directories is None else directories
        self.now = 1000.0
        self.worlds: dict[str, object] = {}
        self.waiting: dict[int, on.RequestArrived] = {}
        self.admitted: dict[int, on.RequestArrived] = {}
        self.refused: dict[int, do.Refuse] = {}
        self.replies: dict[int, do.Reply] = {}
        self.calls: dict[int, Call] = {}
        self.writes: dict[int, do.Write] = {}
        self.stopping: dict[int, do.StopWrite] = {}
        self.stopped: set[int] = set()
        self.reads: dict[int, do.Read] = {}
        self.removals: dict[int, do.Free] = {}
        self.frees_at_once = True
        self.timer: float | None = None
        self.log: list[Any] = []
        self._numbers = count(1)
        self._events: deque[on.Event] = deque()

    # -- events

    def send(self, event: on.Event) -> None:
        """Hand over an event and perform what comes back."""
        self._events.append(event)
        while self._events:
            before, event = self.participant, self._events.popleft()
            frozen = repr(before)
            self.participant, actions = handle(before, event, self.now)
            self.check_short_steps(before, event, actions)
            assert frozen == repr(before)
            self.compare(event, actions)
            for action in actions:
                self.log.append(action)
                _PERFORM[type(action)](self, action)
        self.check()

    def compare(self, event: on.Event, actions: tuple[do.Action, ...]) -> None:
        """Assert that machine and model say the same."""
        if self.model is None:
            return
        expected = by_kind(self.model.handle(event, self.now))
        found = [ESSENCE[type(a)](a) for a in actions if type(a) in ESSENCE]
        assert expected == by_kind(found), event
        assert self.model.status() == participant_status(self.participant), event
        self.compared[type(event).__name__] += 1

    def check_short_steps(
        self, before: ResourcesState, event: on.Event, actions: tuple[do.Action, ...]
    ) -> None:
        """Assert that the short steps are whole, and taken whenever nothing waits."""
        short: ResourcesState | None = None
        expected: tuple[do.Action, ...] = ()
        if isinstance(event, on.RequestArrived):
            short, expected = enter(before, event, self.now), (do.Admit(event.request),)
        elif isinstance(event, on.RequestEnded):
            short = leave(before, event, self.now)
        if short is not None:
            assert (self.participant, actions) == (short, expected)
        elif isinstance(event, on.RequestArrived | on.RequestEnded):
            control = before.control
            is_at_rest = self.now < control.due and not control.awaits_requests
            assert not is_at_rest or actions != (do.Admit(event.request),)

    def check(self) -> None:
        """Assert what holds after every event."""
        gate, control = self.participant.part, self.participant.control
        assert gate.is_open == (control.open is None and control.awaiting is None)
        assert set(self.admitted) == set(gate.admitted)
        assert set(self.waiting) == set(gate.waiting)
        assert not (gate.is_open and gate.waiting)
        bound = gate.bindings
        for episode in {*bound.sessions.values(), *bound.by_episode}:
            owned = {s for s, owner in bound.sessions.items() if owner == episode}
            assert owned == bound.by_episode[episode]
            one = next(iter(owned)) if len(owned) == 1 else None
            assert one == bound.session_of(episode)
        assert bound.unclaimed <= set(bound.sessions)
        assert set(bound.leaving) <= set(bound.sessions) & set(bound.retired.sessions)
        assert bound.unclaimed.isdisjoint(bound.leaving)
        assert set(bound.retired.sessions.values()) <= set(bound.retired.marks)
        assert control.holder is not None or not control.queue
        assert self.timer == (None if control.due == float("inf") else control.due)

    def arrive(
        self, path: str, session: str = "s", episode: str | EpisodeId | None = None
    ) -> int:
        """Bring a request to the gate and return its number."""
        number = next(self._numbers)
        if isinstance(episode, str):
            episode = EpisodeId.from_capture_key(episode)
        self.waiting[number] = on.RequestArrived(number, path, session, episode)
        self.send(self.waiting[number])
        return number

    def end(
        self, number: int, status: int | None = 200, session: str | None = None
    ) -> None:
        """End a request that is running or waiting."""
        arrived = self.admitted.pop(number, None) or self.waiting.pop(number)
        self.send(on.RequestEnded(number, status, session or arrived.session_id))

    def request(
        self,
        path: str,
        session: str = "s",
        episode: str | EpisodeId | None = None,
        status: int | None = 200,
    ) -> int:
        """Bring a request and end it, if it is admitted."""
        number = self.arrive(path, session, episode)
        if number in self.admitted:
            self.end(number, status)
        return number

    def seed(
        self, session: str, episode: str | None, world: str | Environment = "seeded"
    ) -> int:
        """Seed a session with a world."""
        self.worlds[session] = world
        return self.request("/seed_session", session, episode)

    def make(self, number: int, **episodes: str) -> None:
        """Let a running request make sessions for these episodes."""
        named = {s: EpisodeId.from_capture_key(key) for s, key in episodes.items()}
        self.send(on.SessionsMade(number, named))
        if number in self.admitted:
            self.worlds.update(dict.fromkeys(named, "made"))

    def find_idle(self, *sessions: str) -> None:
        """Find sessions idle."""
        self.send(on.IdleFound(sessions))

    def call(
        self,
        operation: str,
        checkpoint_id: str = "c1",
        deadline: float = 30.0,
        **members: Any,
    ) -> int:
        """Send a control call and return its number."""
        body = {"checkpoint_id": checkpoint_id, "deadline_ts": self.now + deadline}
        return self.post(operation, body | members)

    def post(self, operation: str, document: dict[str, Any]) -> int:
        """Send a control call with this body."""
        number = next(self._numbers)
        body: Any = structure(document, OPERATIONS[operation])
        self.calls[number] = body
        self.send(on.ControlCalled(number, body))
        return number

    def commit(
        self,
        checkpoint_id: str = "c1",
        directory: str = "d",
        scope: list[str] | None = None,
        **options: float,
    ) -> int:
        """Send a commit."""
        keys = None if scope is None else [EpisodeId.from_capture_key(k) for k in scope]
        ids = None if keys is None else [attrs.asdict(key) for key in keys]
        members: dict[str, Any] = {"checkpoint_dir": directory, "episode_ids": ids}
        return self.call("commit", checkpoint_id, **members, **options)

    def restore(
        self,
        checkpoint_id: str = "r1",
        directory: str = "d",
        scope: list[str] | tuple[str, ...] = (),
        **options: float,
    ) -> int:
        """Send a restore."""
        ids = [attrs.asdict(EpisodeId.from_capture_key(key)) for key in scope]
        members: dict[str, Any] = {"checkpoint_dir": directory, "episode_ids": ids}
        return self.call("restore", checkpoint_id, **members, **options)

    def retire(self, *keys: str, checkpoint_id: str = "x1", **options: float) -> int:
        """Send a retire of these episodes."""
        ids = [attrs.asdict(EpisodeId.from_capture_key(key)) for key in keys]
        return self.call("retire", checkpoint_id, episode_ids=ids, **options)

    def forget(
        self, *rollouts: str, checkpoint_id: str = "x1", **options: float
    ) -> int:
        """Send a forget of these rollouts."""
        return self.call("forget", checkpoint_id, rollout_ids=[*rollouts], **options)

    def drop(self, call: int) -> None:
        """Let the caller of a control call go away."""
        self.calls.pop(call, None)
        self.send(on.ControlDropped(call))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the timer fire if it is due."""
        self.now += seconds
        if self.timer is not None and self.timer <= self.now:
            self.send(on.Tick())

    def publish(
        self,
        number: int | None = None,
        error: CheckpointError | None = None,
        manifest: Manifest | None = None,
    ) -> None:
        """Let a running write end as the directory would, or with this."""
        number = min(self.writes) if number is None else number
        action = self.writes.pop(number)
        outcome = error or manifest or self._published(number, action)
        self.send(on.WriteEnded(number, outcome))

    def _published(self, number: int, action: do.Write) -> CheckpointError | Manifest:
        if number in self.stopped:
            return failed("stopped")
        manifest = manifest_of(action)
        found = self.directories.setdefault(action.directory, (action, manifest))
        if found[1] != manifest:
            return failed("another checkpoint")
        assert action.checkpoint_id not in self.participant.control.resumed
        return manifest

    def stop(self, number: int | None = None) -> None:
        """Let the stop flag of a write be set."""
        number = min(self.stopping) if number is None else number
        del self.stopping[number]
        self.stopped.add(number)
        self.send(on.WriteStopped(number))

    def read(
        self,
        number: int | None = None,
        error: CheckpointError | None = None,
        found: Restorable[SessionRecord] | None = None,
    ) -> None:
        """Let a running read end with what the directory holds, or with this."""
        number = min(self.reads) if number is None else number
        action = self.reads.pop(number)
        outcome = error or found or self._found(action)
        self.send(on.ReadEnded(number, outcome))

    def _found(self, action: do.Read) -> CheckpointError | Restorable[SessionRecord]:
        if action.directory not in self.directories:
            return failed("no checkpoint here")
        written, manifest = self.directories[action.directory]
        kept = [r for r in sessions_of(written.records) if r.episode_id in action.scope]
        return Restorable(manifest, tuple(kept))

    def free(self, number: int | None = None) -> None:
        """Let a removal be done, when they are not done at once."""
        number = min(self.removals) if number is None else number
        self._drop_worlds(self.removals.pop(number).keys)
        self.send(on.Freed(number))

    # -- actions

    def _admit(self, action: do.Admit) -> None:
        self.admitted[action.request] = self.waiting.pop(action.request)

    def _refuse(self, action: do.Refuse) -> None:
        del (self.waiting if action.request in self.waiting else self.admitted)[
            action.request
        ]
        self.refused[action.request] = action

    def _reply(self, action: do.Reply) -> None:
        assert action.call in self.calls, "answered twice, or after a drop"
        del self.calls[action.call]
        self.replies[action.call] = action

    def _export(self, action: do.Export) -> None:
        held = {s: self.worlds[s] for s in action.keys if s in self.worlds}
        self._events.appendleft(on.Exported(action.write, held))

    def _write(self, action: do.Write) -> None:
        assert all(isinstance(record, SessionRecord) for record in action.records)
        self.writes[action.write] = action

    def _stop_write(self, action: do.StopWrite) -> None:
        self.stopping[action.write] = action

    def _read(self, action: do.Read) -> None:
        self.reads[action.read] = action

    def _install(self, action: do.Install) -> None:
        self.worlds.update(action.states)

    def _free(self, action: do.Free) -> None:
        self.removals[action.removal] = action
        if self.frees_at_once:
            del self.removals[action.removal]
            self._drop_worlds(action.keys)
            self._events.appendleft(on.Freed(action.removal))

    def _drop_worlds(self, sessions: Iterable[str]) -> None:
        for session in sessions:
            self.worlds.pop(session, None)

    def _sweep(self, action: do.Sweep) -> None:
        self._drop_worlds(action.session_ids)

    def _set_timer(self, action: do.SetTimer) -> None:
        self.timer = action.at

    # -- what a test looks at

    def status(self) -> JsonObject:
        """Return the status document."""
        return participant_status(self.participant)

    @property
    def phase(self) -> str:
        """Name the phase."""
        return self.participant.phase.value

    def reply(self, call: int) -> tuple[int, JsonObject]:
        """Return status and document of a reply."""
        return self.replies[call].status, self.replies[call].document

    def document(self, call: int) -> JsonObject:
        """Return the document of a success."""
        assert self.replies[call].status == 200, self.replies[call]
        return self.replies[call].document

    def code(self, call: int) -> str:
        """Return the code of a refusal."""
        status, document = self.reply(call)
        assert status == do.STATUS_OF[at(document, "error", "code")]
        return str(at(document, "error", "code"))

    def prepared(self, checkpoint_id: str = "c1") -> None:
        """Prepare a checkpoint that is ready at once."""
        assert self.document(self.call("prepare", checkpoint_id))["phase"] == "prepared"

    def committed(
        self,
        checkpoint_id: str = "c1",
        directory: str = "d",
        scope: list[str] | None = None,
    ) -> JsonObject:
        """Prepare, commit and publish; return the reply."""
        self.prepared(checkpoint_id)
        call = self.commit(checkpoint_id, directory, scope)
        self.publish()
        return self.document(call)

    def crash(self) -> Shell:
        """Return a fresh process that finds the same directories."""
        fresh = type(self)(self.directories)
        fresh.now = self.now
        return fresh


_PERFORM: dict[type, Callable[[Shell, Any], None]] = {
    do.Admit: Shell._admit,
    do.Refuse: Shell._refuse,
    do.Reply: Shell._reply,
    do.Export: Shell._export,
    do.Write: Shell._write,
    do.StopWrite: Shell._stop_write,
    do.Read: Shell._read,
    do.Install: Shell._install,
    do.Free: Shell._free,
    do.Sweep: Shell._sweep,
    do.SetTimer: Shell._set_timer,
}


@pytest.fixture
def shell() -> Shell:
    """Return a fresh shell."""
    return Shell()


@pytest.fixture(scope="session")
def shell_class() -> type[Shell]:
    """Return the class, for tests that need several."""
    return Shell


@pytest.fixture
def disk_error() -> CheckpointError:
    """Return the error of a failed write."""
    return failed()


@pytest.fixture(autouse=True)
def _agreement(proven: Counter[str]) -> Iterator[None]:
    """Count the events on which the machine and the naive model agree."""
    before = Shell.compared.total()
    yield
    proven["events on which machine and naive model agree"] += (
        Shell.compared.total() - before
    )
