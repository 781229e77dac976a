"""The rules of a resources participant once more, as naively as they can be written.

An oracle for the control machine: mutable, slow, and close to the words of the
specification. Every operation is a generator that runs down its numbered steps and
yields what it waits for; after each event all that can go on goes on. It shares events
and bodies with the machine, and the rules with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias, TypeVar

# ruff: noqa: ARG002 - all operations and all events are called alike
from session_records import sessions_of

from ipistate.errors import CheckpointError
from ipistate.protocol import events as on
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.operations import (
    Call,
    CommitBody,
    ForgetBody,
    PrepareBody,
    RenewBody,
    RestoreBody,
    ResumeBody,
    RetireBody,
)
from ipistate.protocol.records import CheckpointRecord, Restorable


EVENTS = {
    on.RequestArrived: "request_arrived",
    on.RequestEnded: "request_ended",
    on.SessionsMade: "sessions_made",
    on.IdleFound: "idle_found",
    on.ControlCalled: "control_called",
    on.ControlDropped: "control_dropped",
    on.Exported: "exported",
    on.WriteEnded: "write_ended",
    on.WriteStopped: "write_stopped",
    on.ReadEnded: "read_ended",
    on.Freed: "freed",
    on.Tick: "tick",
}


T = TypeVar("T")
Condition: TypeAlias = Callable[[], object]
"""What an operation waits for."""
Steps: TypeAlias = Generator[Condition, None, T]


class Refused(Exception):
    """An operation ends with an error of this code."""


class Session:
    """A tracked session."""

    def __init__(self, episode: EpisodeId) -> None:
        """Bind it."""
        self.episode = episode
        self.is_pending = False
        self.is_leaving = False
        self.removal: int | None = None


class Task:
    """An operation under way; without a call it is the expiry of the lease."""

    def __init__(self, call: int | None) -> None:
        """Begin without a condition."""
        self.call = call
        self.steps: Steps[None]
        self.ready: Condition = lambda: True
        self.is_heard, self.goes_on = True, False


class Model:
    """What the specification says, step by step."""

    def __init__(self, instance: str, grace: float) -> None:
        """Start a fresh process."""
        self.instance, self.grace, self.now = instance, grace, 0.0
        self.phase = "idle"
        self.checkpoint_id: str | None = None
        self.lease: float | None = None
        self.resumed: list[str] = []
        self.results: dict[tuple[str, str], tuple[object, dict[str, Any]]] = {}
        self.marks: dict[str, int] = {}
        self.retired: dict[str, str] = {}
        self.sessions: dict[str, Session] = {}
        self.inflight: dict[int, on.RequestArrived] = {}
        self.waiting: list[on.RequestArrived] = []
        self.line: list[Task] = []
        self.tasks: list[Task] = []
        self.reads: dict[int, CheckpointError | Restorable[CheckpointRecord]] = {}
        self.numbers = 0
        self.export: dict[str, Any] | None = None
        self.write: dict[str, Any] | None = None
        self.deletion: int | None = None
        self.pause = 0.0

    # -- events

    def handle(self, event: object, now: float) -> list[tuple[object, ...]]:
        """Take an event; return what must happen, as tuples."""
        self.now = now
        self.out: list[tuple[object, ...]] = []
        if not self.leaves(event):
            self.run()
        getattr(self, EVENTS[type(event)])(event)
        self.run()
        return self.out

    def leaves(self, event: object) -> bool:
        """Tell whether somebody unanswered goes away, before anything else happens."""
        if isinstance(event, on.RequestEnded):
            return event.request not in self.inflight
        return isinstance(event, on.ControlDropped)

    def request_arrived(self, event: on.RequestArrived) -> None:
        """Section 3.4: wait, or be admitted."""
        if self.phase == "idle":
            self.enter(event)
        else:
            self.waiting.append(event)

    def request_ended(self, event: on.RequestEnded) -> None:
        """Uncount; a success binds or ends the session."""
        self.waiting = [w for w in self.waiting if w.request != event.request]
        arrived = self.inflight.pop(event.request, None)
        if arrived is None or event.status is None or event.status // 100 != 2:
            return
        if arrived.path == "/seed_session" and arrived.episode is not None:
            self.bind(event.session_id, arrived.episode)
        session = self.sessions.get(event.session_id)
        ends = arrived.path in {"/verify", "/close_session"}
        if ends and session is not None and session.removal is None:
            del self.sessions[event.session_id]

    def sessions_made(self, event: on.SessionsMade) -> None:
        """A request makes sessions of its own: all of them, or it is refused."""
        if event.request not in self.inflight:
            return
        episodes = event.sessions.values()
        if any(e.attempt <= self.marks.get(e.rollout_id, -1) for e in episodes):
            self.out.append(("refuse", event.request, 409, "stale_attempt"))
            del self.inflight[event.request]
            return
        for name, episode in event.sessions.items():
            self.bind(name, episode)

    def idle_found(self, event: on.IdleFound) -> None:
        """Idle sessions go, unless something needs them."""
        used = {arrived.session_id for arrived in self.inflight.values()}
        gone: set[str] = set()
        for name in event.session_ids:
            session = self.sessions.get(name)
            leaving = session is not None and session.is_leaving
            if self.phase == "idle" and name not in used and not leaving:
                gone.add(name)
                self.sessions.pop(name, None)
        if gone:
            self.out.append(("sweep", gone))

    def control_called(self, event: on.ControlCalled) -> None:
        """Begin an operation."""
        name = type(event.body).__name__.removesuffix("Body").lower()
        task = Task(event.call)
        task.steps = self.operate(task, getattr(self, name), event.body)
        self.tasks.append(task)

    def control_dropped(self, event: on.ControlDropped) -> None:
        """Cancel an operation; only a resume that has begun goes on."""
        for task in list(self.tasks):
            if task.call == event.call and task.goes_on:
                task.is_heard = False
            elif task.call == event.call:
                self.tasks.remove(task)
                task.steps.close()

    def exported(self, event: on.Exported) -> None:
        """The first answer is the one export; what has no state is not tracked."""
        if self.export is None or self.export["number"] != event.write:
            return
        self.export["records"] = {}
        for name in self.export["sessions"]:
            if name in event.states:
                record = (self.sessions[name].episode, event.states[name])
                self.export["records"][name] = record
            else:
                del self.sessions[name]

    def write_ended(self, event: on.WriteEnded) -> None:
        """The running write is over."""
        if self.write is not None and self.write["number"] == event.write:
            self.write["outcome"] = event.outcome

    def write_stopped(self, event: on.WriteStopped) -> None:
        """The running write will publish nothing any more."""
        if self.write is not None and self.write["number"] == event.write:
            self.write["stopped"] = True

    def read_ended(self, event: on.ReadEnded) -> None:
        """A directory has been read."""
        self.reads[event.read] = event.outcome

    def freed(self, event: on.Freed) -> None:
        """These sessions hold nothing any more."""
        for name, session in list(self.sessions.items()):
            if session.removal == event.removal:
                del self.sessions[name]
        if self.deletion == event.removal:
            self.deletion = None

    def tick(self, event: on.Tick) -> None:
        """Time is looked at with every event."""

    # -- tasks and the lock

    def run(self) -> None:
        """Let every task go on that can, in order, until none can; then the lease."""
        while True:
            ready = [task for task in self.tasks if task.ready()]
            if ready:
                self.step(ready[0])
            elif self.checkpoint_id and not self.line and self.now >= self.expires_at:
                task = Task(None)
                task.steps = self.operate(task, self.expire, None)
                self.tasks.append(task)
            else:
                return

    @property
    def expires_at(self) -> float:
        """When the lease, and the pause after a vain try, are over."""
        return max(self.lease or 0.0, self.pause)

    def step(self, task: Task) -> None:
        """Let one task go on to its next condition."""
        try:
            task.ready = next(task.steps)
        except StopIteration:
            self.tasks.remove(task)

    def operate(
        self, task: Task, operation: Callable[..., Any], body: Call | None
    ) -> Steps[None]:
        """Run an operation, answer it, and give the lock back."""
        self.line.append(task)
        try:
            yield lambda: self.line[0] is task
            document = yield from operation(task, body)
            answer = (200, document)
        except Refused as refused:
            code = refused.args[0]
            answer = (422 if code == "invalid_checkpoint_state" else 409, code)
        finally:
            if task in self.line:
                self.line.remove(task)
        if task.call is not None and task.is_heard:
            self.out.append(("reply", task.call, *answer))

    def until(
        self, condition: Callable[..., bool | set[str]], deadline: float
    ) -> Steps[None]:
        """Wait for a condition, but not longer than to the deadline."""
        yield lambda: condition() or self.now >= deadline
        if not condition():
            raise Refused("deadline_exceeded")

    def number(self) -> int:
        """Number an export, a write, a read or a removal."""
        self.numbers += 1
        return self.numbers

    # -- what operations ask first (2.5 to 2.7)

    def recorded(self, body: Call, name: str) -> dict[str, Any] | None:
        """Return the reply of the same call, if it has completed before."""
        if (body.checkpoint_id, name) not in self.results:
            return None
        arguments, document = self.results[body.checkpoint_id, name]
        if arguments != self.arguments(body):
            raise Refused("checkpoint_conflict")
        return document

    def arguments(self, body: Call) -> tuple[str, list[str] | None] | None:
        """Take what a retry must have in common with the first call."""
        if not isinstance(body, CommitBody | RestoreBody):
            return None
        return body.checkpoint_dir, self.keys(body.episode_ids)

    def keys(
        self, episodes: tuple[EpisodeId, ...] | Iterator[EpisodeId] | None
    ) -> list[str] | None:
        """Write a scope as sorted capture keys."""
        return None if episodes is None else sorted(e.capture_key for e in episodes)

    def fence(self, body: Call, *phases: str) -> None:
        """Refuse an operation that may not run now."""
        if body.checkpoint_id in self.resumed:
            raise Refused("stale_checkpoint")
        if self.checkpoint_id not in {None, body.checkpoint_id}:
            raise Refused("checkpoint_conflict")
        if self.phase not in phases:
            raise Refused("invalid_phase")

    def renew_lease(self, body: Call) -> None:
        """Extend the lease of the open checkpoint."""
        if self.checkpoint_id is not None:
            self.lease = max(self.lease or 0, body.deadline_ts + self.grace)

    def in_time(self, body: Call) -> None:
        """Refuse to start what would be late."""
        if self.now >= body.deadline_ts:
            raise Refused("deadline_exceeded")

    # -- operations

    def prepare(self, task: Task, body: PrepareBody) -> Steps[dict[str, Any]]:
        """Section 2.9."""
        document = self.recorded(body, "prepare")
        if document is not None:
            return document
        self.fence(body, "idle", "preparing")
        if self.phase == "idle":
            self.phase, self.checkpoint_id = "preparing", body.checkpoint_id
        self.renew_lease(body)
        self.line.remove(task)
        try:
            yield (
                lambda: (
                    self.report()["ready"]
                    or self.now >= body.deadline_ts
                    or (self.phase, self.checkpoint_id)
                    != ("preparing", body.checkpoint_id)
                )
            )
        except GeneratorExit:
            self.reopen()
            raise
        still = (self.phase, self.checkpoint_id) == ("preparing", body.checkpoint_id)
        if still and self.report()["ready"]:
            self.phase = "prepared"
        document = {"phase": self.phase, "report": self.report()}
        if still and self.phase == "prepared":
            self.results[body.checkpoint_id, "prepare"] = (None, document)
        return document

    def renew(self, task: Task, body: RenewBody) -> Steps[dict[str, float | None]]:
        """Section 2.14."""
        self.fence(body, "preparing", "prepared", "committed", "restored")
        self.renew_lease(body)
        return {"lease_expires_at": self.lease}
        yield  # type: ignore[unreachable]  # makes it a generator

    def commit(self, task: Task, body: CommitBody) -> Steps[dict[str, Any]]:
        """Section 2.10."""
        document = self.recorded(body, "commit")
        if document is not None:
            return document
        self.fence(body, "prepared")
        self.renew_lease(body)
        if not self.report()["ready"]:
            raise Refused("invalid_phase")
        arguments = self.arguments(body)
        assert arguments is not None
        if self.export is not None and self.export["arguments"] != arguments:
            raise Refused("checkpoint_conflict")
        self.in_time(body)
        if self.export is None:
            self.start_export(arguments)
        yield from self.until(
            lambda: "records" in (self.export or {}), body.deadline_ts
        )
        if self.write is None or isinstance(self.write["outcome"], CheckpointError):
            self.write = {"number": self.number(), "outcome": None, "stopped": False}
            assert self.export is not None
            number, records = self.write["number"], self.export["records"]
            content = (body.checkpoint_dir, body.checkpoint_id, dict(records))
            self.out.append(("write", number, *content))
        write = self.write
        yield from self.until(lambda: write["outcome"] is not None, body.deadline_ts)
        if isinstance(write["outcome"], CheckpointError):
            raise Refused(write["outcome"].code)
        unwanted = self.unwanted(arguments[1])
        if unwanted and self.deletion is None:
            self.deletion = self.free(unwanted)
        yield from self.until(lambda: self.deletion is None, body.deadline_ts)
        self.phase = "committed"
        assert self.export is not None
        document = {
            "phase": "committed",
            "manifest": write["outcome"].to_document(),
            "episode_ids": sorted(
                {e.capture_key for e, _ in self.export["records"].values()}
            ),
        }
        self.results[body.checkpoint_id, "commit"] = (arguments, document)
        return document

    def start_export(self, arguments: tuple[str, list[str] | None]) -> None:
        """Ask for the states of what belongs into the checkpoint (3.7)."""
        left_out = self.unwanted(arguments[1])
        sessions = [
            name
            for name, session in self.sessions.items()
            if not session.is_leaving and name not in left_out
        ]
        number = self.number()
        self.export = {"number": number, "arguments": arguments, "sessions": sessions}
        self.out.append(("export", number, set(sessions)))

    def unwanted(self, scope: list[str] | None) -> set[str]:
        """Name the restored sessions that nothing claimed and the scope gives up."""
        return {
            name
            for name, session in self.sessions.items()
            if scope is not None
            and session.is_pending
            and session.episode.capture_key not in scope
        }

    def free(self, names: set[str]) -> int:
        """Have the states of sessions dropped."""
        number = self.number()
        for name in names:
            self.sessions[name].removal = number
        self.out.append(("free", number, set(names)))
        return number

    def restore(self, task: Task, body: RestoreBody) -> Steps[dict[str, Any]]:
        """Section 2.13."""
        document = self.recorded(body, "restore")
        if document is not None:
            return document
        self.fence(body, "idle")
        self.in_time(body)
        number, scope = self.number(), set(body.episode_ids)
        self.out.append(("read", number, body.checkpoint_dir, scope))
        yield from self.until(lambda: number in self.reads, body.deadline_ts)
        found = self.reads[number]
        if isinstance(found, CheckpointError):
            raise Refused(found.code)
        if self.sessions or self.inflight:
            raise Refused("checkpoint_error")
        attempts = [r.episode_id.next_attempt for r in found.records]
        if any(e.attempt <= self.marks.get(e.rollout_id, -1) for e in attempts):
            raise Refused("stale_attempt")
        self.phase, self.checkpoint_id = "restored", body.checkpoint_id
        self.renew_lease(body)
        self.out.append(
            ("install", {r.session_id: r.state for r in sessions_of(found.records)})
        )
        for record in sessions_of(found.records):
            self.bind(record.session_id, record.episode_id.next_attempt)
            session = self.sessions[record.session_id]
            session.is_pending = not session.is_leaving
        document = {
            "phase": "restored",
            "source_checkpoint_id": found.manifest.checkpoint_id,
            "restored": self.keys(r.episode_id.next_attempt for r in found.records),
        }
        self.results[body.checkpoint_id, "restore"] = (self.arguments(body), document)
        return document

    def resume(self, task: Task, body: ResumeBody) -> Steps[dict[str, Any]]:
        """Section 2.11."""
        if body.checkpoint_id in self.resumed:
            return {"phase": "idle", "idempotent": True}
        if self.phase == "idle":
            self.remember(body.checkpoint_id)
            return {"phase": "idle", "idempotent": True}
        if self.checkpoint_id != body.checkpoint_id:
            raise Refused("checkpoint_conflict")
        yield from self.stop(task, body.deadline_ts)
        return {"phase": "idle", "idempotent": False}

    def expire(self, task: Task, body: None) -> Steps[None]:
        """Section 2.7."""
        yield from self.stop(task, self.now + 30)

    def stop(self, task: Task, until: float) -> Steps[None]:
        """Stop the write, wait for the deletion, reopen."""
        task.goes_on = True
        if self.write is not None and self.write["outcome"] is None:
            write = self.write
            self.out.append(("stop write", write["number"]))
            yield lambda: write["stopped"]
        try:
            yield from self.until(lambda: self.deletion is None, until)
        except Refused:
            if self.now >= (self.lease or 0.0):
                self.pause = self.now + 30
            raise
        assert self.checkpoint_id is not None
        self.remember(self.checkpoint_id)
        self.reopen()

    def remember(self, checkpoint_id: str) -> None:
        """Fence the last 64 ids, and drop their replies."""
        self.resumed = [*self.resumed, checkpoint_id][-64:]

    def reopen(self) -> None:
        """Become idle; whoever waits comes in."""
        self.phase, self.checkpoint_id, self.lease = "idle", None, None
        self.results, self.pause = {}, 0.0
        self.export = self.write = self.deletion = None
        entering, self.waiting = self.waiting, []
        for event in entering:
            self.enter(event)

    def retire(self, task: Task, body: RetireBody) -> Steps[dict[str, list[str]]]:
        """Section 2.12 and 3.6."""
        self.own_rule(body)
        for episode in body.episode_ids:
            mark = self.marks.get(episode.rollout_id, -1)
            self.marks[episode.rollout_id] = max(mark, episode.attempt)
        for name, session in self.sessions.items():
            if self.is_marked(session.episode):
                self.retire_session(name)
        self.in_time(body)
        listed: dict[str, int] = {}
        for episode in body.episode_ids:
            attempt = max(listed.get(episode.rollout_id, -1), episode.attempt)
            listed[episode.rollout_id] = attempt
        while not self.is_gone(listed):
            idle = self.idle(listed)
            if idle:
                self.free(idle)
            changed = lambda: self.is_gone(listed) or self.idle(listed)  # noqa: E731
            yield from self.until(changed, body.deadline_ts)
        return {"retired": [episode.capture_key for episode in body.episode_ids]}

    def forget(self, task: Task, body: ForgetBody) -> Steps[dict[str, list[str]]]:
        """Section 2.12."""
        self.own_rule(body)
        self.in_time(body)
        if not self.is_gone({r: self.marks.get(r, -1) for r in body.rollout_ids}):
            raise Refused("retire_incomplete")
        for rollout in body.rollout_ids:
            self.marks.pop(rollout, None)
        for name, rollout in list(self.retired.items()):
            if rollout in body.rollout_ids:
                del self.retired[name]
        return {"forgotten": sorted({*body.rollout_ids})}
        yield  # type: ignore[unreachable]  # makes it a generator

    def own_rule(self, body: Call) -> None:
        """Refuse while a checkpoint is open; a restore may be open, if it is named."""
        if self.phase not in {"idle", "restored"}:
            raise Refused("invalid_phase")
        if self.checkpoint_id not in {None, body.checkpoint_id}:
            raise Refused("checkpoint_conflict")
        self.renew_lease(body)

    def listed(self, attempts: dict[str, int]) -> set[str]:
        """Name the sessions of these attempts and earlier ones that are leaving."""
        return {
            name
            for name, session in self.sessions.items()
            if session.is_leaving
            and session.episode.attempt <= attempts.get(session.episode.rollout_id, -1)
        }

    def is_gone(self, attempts: dict[str, int]) -> bool:
        """Tell whether nothing of these attempts is left or about to appear."""
        seeds = [
            event.episode
            for event in self.inflight.values()
            if event.path == "/seed_session" and event.episode is not None
        ]
        return not self.listed(attempts) and not any(
            seed.attempt <= attempts.get(seed.rollout_id, -1) for seed in seeds
        )

    def idle(self, attempts: dict[str, int]) -> set[str]:
        """Name those without a request in flight that nobody frees yet."""
        busy = {event.session_id for event in self.inflight.values()}
        return {
            name
            for name in self.listed(attempts) - busy
            if self.sessions[name].removal is None
        }

    # -- the gate

    def enter(self, event: on.RequestArrived) -> None:
        """Admit a request, unless it is of a retired or earlier attempt."""
        if event.path != "/close_session" and self.is_late(event):
            self.out.append(("refuse", event.request, 409, "stale_attempt"))
            return
        if event.session_id in self.sessions:
            self.sessions[event.session_id].is_pending = False
        self.inflight[event.request] = event
        self.out.append(("admit", event.request))

    def is_late(self, event: on.RequestArrived) -> bool:
        """Look at the session and at the prefix."""
        if event.session_id in self.retired:
            return True
        if event.episode is None:
            return False
        session = self.sessions.get(event.session_id)
        return self.is_marked(event.episode) or (
            session is not None
            and session.episode.rollout_id == event.episode.rollout_id
            and session.episode.attempt > event.episode.attempt
        )

    def is_marked(self, episode: EpisodeId) -> bool:
        """Tell whether an attempt is retired."""
        mark = self.marks.get(episode.rollout_id)
        return mark is not None and episode.attempt <= mark

    def bind(self, name: str, episode: EpisodeId) -> None:
        """Bind a session afresh; of a retired attempt, it is retired as well."""
        self.sessions[name] = Session(episode)
        self.retired.pop(name, None)
        if self.is_marked(episode):
            self.retire_session(name)

    def retire_session(self, name: str) -> None:
        """Refuse a session from now on, until it is forgotten."""
        session = self.sessions[name]
        session.is_leaving, session.is_pending = True, False
        self.retired[name] = session.episode.rollout_id

    # -- what can be seen

    def report(self) -> dict[str, Any]:
        """Section 3.5."""
        leaving = {
            s.episode.capture_key for s in self.sessions.values() if s.is_leaving
        }
        return {
            "ready": not self.inflight and not leaving,
            "blockers": sorted(leaving)[:100],
            "blocker_count": len(leaving),
            "counts": {"inflight": len(self.inflight), "sessions": len(self.sessions)},
            "restarts": [],
        }

    def status(self) -> dict[str, Any]:
        """Section 2.8."""
        return {
            "kind": "resources",
            "instance": self.instance,
            "phase": self.phase,
            "checkpoint_id": self.checkpoint_id,
            "lease_expires_at": self.lease,
            "retired_rollouts": len(self.marks),
            "report": self.report(),
            "mode": "exported",
            "verify": "wait",
            "retired_sessions": len(self.retired),
        }
