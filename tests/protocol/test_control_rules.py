"""Random interleavings of everything that can happen to a participant.

The shell of ``conftest.py`` compares the machine with the naive model of ``model.py``
after each event: every action and the whole status. It checks, too, that phase and
admission agree, that requests in flight and waiting are those the machine knows, that
nothing is answered twice, and that a directory gets one manifest and none after the
resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ipistate.errors import CheckpointError
from ipistate.protocol.episode import EpisodeId


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


SESSIONS = st.sampled_from(["s0", "s1", "s2"])
ROLLOUTS = st.sampled_from(["r0", "r1"])
CHECKPOINTS = st.sampled_from(["new", "open", "open", "resumed"])
DIRECTORIES = st.sampled_from(["new", "d1", "d2"])
EPISODES = st.sampled_from(["r0", "r1", "r0-a1", "r1-a1", "r0-a2"])
SCOPES = st.none() | st.lists(EPISODES, unique=True)
DEADLINES = st.sampled_from([0.0, 5.0, 30.0, 30.0])
PATHS = st.sampled_from(["/tool", "/verify", "/close_session", "/aggregate_metrics"])
ENDING = {"/verify", "/close_session"}
CHOICES = st.integers(0, 1000)
STATUSES = st.sampled_from([200, 200, 422, 500, None])
SELDOM = st.sampled_from([True, False, False, False])


K = TypeVar("K", int, str)


def chosen(mapping: Iterable[K], choice: int) -> K:
    """Pick a key by a number."""
    keys = sorted(mapping)
    return keys[choice % len(keys)]


def running(name: str) -> Callable[..., Any]:
    """Allow a rule while the shell has some of these."""
    return precondition(lambda self: getattr(self.shell, name))


class Interleavings(RuleBasedStateMachine):
    """A participant and its shell."""

    def __init__(self, shell_class: type[Shell]) -> None:
        """Start with a fresh process."""
        super().__init__()
        self.shell, self.ids = shell_class(grace=100.0), 0
        self.shell.frees_at_once = False
        self.replaced: dict[int, str] = {}

    @initialize(restores=st.booleans(), resumes=st.booleans())
    def begin(self, restores: bool, resumes: bool) -> None:
        """Two sessions live, or have been restored and nobody has claimed them."""
        self.start_session("s0", "r0")
        self.start_session("s1", "r1")
        if restores:
            self.shell.committed("c0", "d0")
            self.start_over(0, None, reads=True, resumes=resumes)

    # -- data

    @rule(session=SESSIONS, episode=EPISODES, replaced_by=st.none() | SESSIONS)
    def seed(self, session: str, episode: str, replaced_by: str | None) -> None:
        """A seed arrives; its handler may give the session another id."""
        number = self.shell.arrive("/seed_session", session, episode)
        if replaced_by is not None:
            self.replaced[number] = replaced_by

    @precondition(lambda self: self.shell.phase == "idle")
    @rule(session=SESSIONS, rollout=ROLLOUTS)
    def start_session(self, session: str, rollout: str) -> None:
        """A seed arrives and succeeds."""
        self.seed(session, rollout, None)
        if self.shell.admitted:
            self.end(len(self.shell.admitted) - 1, 200)

    @rule(session=SESSIONS, path=PATHS, episode=st.none() | EPISODES)
    def ask(self, session: str, path: str, episode: str | None) -> None:
        """Another request arrives, with a prefix or without."""
        self.shell.arrive(path, session, episode)

    @running("admitted")
    @rule(choice=CHOICES, status=STATUSES)
    def end(self, choice: int, status: int | None) -> None:
        """A request ends, with any outcome."""
        number = chosen(self.shell.admitted, choice)
        arrived = self.shell.admitted[number]
        session = self.replaced.pop(number, arrived.session_id)
        if status == 200 and arrived.path == "/seed_session":
            self.shell.worlds[session] = ("world", number)
        if arrived.path in ENDING and status != 422:
            self.shell.worlds.pop(session, None)
        self.shell.end(number, status, session)

    @running("admitted")
    @rule(choice=CHOICES, session=SESSIONS, episode=EPISODES)
    def make(self, choice: int, session: str, episode: str) -> None:
        """A running request makes a session."""
        number = chosen(self.shell.admitted, choice)
        self.shell.make(number, **{session: episode})

    @rule(sessions=st.lists(SESSIONS, min_size=1, unique=True))
    def find_idle(self, sessions: list[str]) -> None:
        """Sessions are found idle, some of them perhaps unknown or in use."""
        self.shell.find_idle(*sessions)

    @running("waiting")
    @rule(choice=CHOICES)
    def disconnect(self, choice: int) -> None:
        """A waiting request leaves."""
        self.shell.end(chosen(self.shell.waiting, choice), None)

    # -- control

    def named(self, which: str) -> str:
        """Name a checkpoint: a new one, the open one, or one that was resumed."""
        control = self.shell.participant.control
        if which == "open" and control.open is not None:
            return control.open.id
        if which == "resumed" and control.resumed:
            return control.resumed[-1]
        return self.new("c")

    def new(self, prefix: str) -> str:
        """Make a name that has not been used."""
        self.ids += 1
        return f"{prefix}{self.ids}"

    def called(self, operation: str, which: str, **members: Any) -> None:
        """Send a call; if its id was resumed before, nothing may change."""
        before, checkpoint_id = self.shell.participant, self.named(which)
        fenced = checkpoint_id in before.control.resumed
        if operation in {"commit", "restore"}:
            call = getattr(self.shell, operation)(checkpoint_id, **members)
        else:
            call = self.shell.call(operation, checkpoint_id, **members)
        if fenced and before.control.holder is None:
            reply = self.shell.replies[call]
            assert reply.status == 409 or reply.document.get("idempotent")
            assert before == self.shell.participant

    @rule(which=CHECKPOINTS, deadline=DEADLINES)
    def prepare(self, which: str, deadline: float) -> None:
        """A prepare with any id."""
        self.called("prepare", which, deadline=deadline)

    @rule(which=CHECKPOINTS, name=DIRECTORIES, scope=SCOPES, deadline=DEADLINES)
    def commit(
        self, which: str, name: str, scope: list[str] | None, deadline: float
    ) -> None:
        """A commit with any arguments."""
        directory = self.new("d") if name == "new" else name
        self.called(
            "commit", which, directory=directory, scope=scope, deadline=deadline
        )

    @rule(which=CHECKPOINTS, choice=CHOICES, scope=SCOPES, deadline=DEADLINES)
    def restore(
        self, which: str, choice: int, scope: list[str] | None, deadline: float
    ) -> None:
        """A restore with any arguments."""
        directory = chosen({*self.shell.directories, "nowhere"}, choice)
        self.called(
            "restore", which, directory=directory, scope=scope or [], deadline=deadline
        )

    @rule(which=CHECKPOINTS)
    def resume(self, which: str) -> None:
        """A resume with any id."""
        self.called("resume", which)

    @precondition(lambda self: self.shell.phase != "idle")
    @rule(which=CHECKPOINTS, deadline=DEADLINES)
    def renew(self, which: str, deadline: float) -> None:
        """A renewal with any id."""
        self.called("renew", which, deadline=deadline)

    @rule(
        which=CHECKPOINTS,
        keys=st.lists(EPISODES, min_size=1, max_size=3),
        deadline=DEADLINES,
    )
    def retire(self, which: str, keys: list[str], deadline: float) -> None:
        """A retire of any episodes, known or not."""
        checkpoint_id = self.named(which)
        self.shell.retire(*keys, checkpoint_id=checkpoint_id, deadline=deadline)

    @rule(
        which=CHECKPOINTS,
        rollouts=st.lists(ROLLOUTS, min_size=1),
        deadline=DEADLINES,
    )
    def forget(self, which: str, rollouts: list[str], deadline: float) -> None:
        """A forget of any rollouts."""
        checkpoint_id = self.named(which)
        self.shell.forget(*rollouts, checkpoint_id=checkpoint_id, deadline=deadline)

    @rule(scope=SCOPES, deadline=DEADLINES)
    def go_on(self, scope: list[str] | None, deadline: float) -> None:
        """Do what a controller would do next, so that runs get somewhere."""
        control, phase = self.shell.participant.control, self.shell.phase
        if phase == "preparing":
            for _ in list(self.shell.admitted):
                self.end(0, None)
            if self.shell.phase == "preparing" and self.shell.removals:
                self.free(0)
        elif phase == "prepared" and (control.open is None or control.open.cut is None):
            self.commit("open", "new", scope, 5.0 if deadline else 30.0)
        elif phase == "prepared" and control.holder is not None:
            self.pass_time(5.0)
        elif phase == "idle":
            self.prepare("new", 30.0)
        else:
            self.resume("open")

    @precondition(lambda self: self.shell.phase == "prepared")
    @rule(deadline=DEADLINES)
    def retry(self, deadline: float) -> None:
        """The controller sends the commit again."""
        opened = self.shell.participant.control.open
        assert opened is not None
        if opened.cut is not None:
            directory, scope = (
                opened.cut.arguments.directory,
                opened.cut.arguments.scope,
            )
            keys = None if scope is None else [*scope]
            self.shell.commit(opened.id, directory, keys, deadline=deadline)

    @running("calls")
    @rule(choice=CHOICES)
    def drop(self, choice: int) -> None:
        """The caller of a control call leaves."""
        self.shell.drop(chosen(self.shell.calls, choice))

    # -- background work, time, crashes

    @running("writes")
    @rule(choice=CHOICES, fails=st.booleans())
    def publish(self, choice: int, fails: bool) -> None:
        """A running write ends."""
        error = CheckpointError("invalid_checkpoint_state", "full") if fails else None
        self.shell.publish(chosen(self.shell.writes, choice), error)

    @running("stopping")
    @rule(choice=CHOICES)
    def stop(self, choice: int) -> None:
        """A stop flag has been set."""
        self.shell.stop(chosen(self.shell.stopping, choice))

    @running("removals")
    @rule(choice=CHOICES)
    def free(self, choice: int) -> None:
        """The worlds of some sessions have been dropped."""
        self.shell.free(chosen(self.shell.removals, choice))

    @running("reads")
    @rule(choice=CHOICES)
    def read(self, choice: int) -> None:
        """A running read ends."""
        self.shell.read(chosen(self.shell.reads, choice))

    @rule(seconds=st.sampled_from([1.0, 5.0, 5.0, 200.0]))
    def pass_time(self, seconds: float) -> None:
        """Time passes; the longest step outlives the lease."""
        self.shell.pass_time(seconds)

    @rule(happens=SELDOM, publish_first=st.booleans())
    def crash(self, happens: bool, publish_first: bool) -> None:
        """The process dies, after or before its last writes were published."""
        if happens:
            for number in list(self.shell.writes) if publish_first else ():
                self.shell.publish(number)
            self.shell, self.replaced = self.shell.crash(), {}
            self.shell.frees_at_once = False

    @running("directories")
    @rule(choice=CHOICES, scope=SCOPES, reads=st.booleans(), resumes=st.booleans())
    def start_over(
        self, choice: int, scope: list[str] | None, reads: bool, resumes: bool
    ) -> None:
        """A fresh process restores what it finds, at once or a little later."""
        self.crash(happens=True, publish_first=False)
        directory = chosen(self.shell.directories, choice)
        written, _ = self.shell.directories[directory]
        keys = scope or [r.episode_id.capture_key for r in written.records]
        self.shell.restore(self.new("c"), directory, sorted(set(keys)))
        if reads:
            self.shell.read()
        if reads and resumes:
            self.resume("open")

    @precondition(lambda self: self.shell.participant.part.bindings.unclaimed)
    @rule(deadline=st.sampled_from([1.0, 30.0]), passes=st.sampled_from([0.0, 5.0]))
    def give_up(self, deadline: float, passes: float) -> None:
        """A controller gives all restored sessions up, and may not wait for the end."""
        if self.shell.phase == "restored":
            self.resume("open")
        self.prepare("new", 30.0)
        if self.shell.phase == "prepared":
            self.commit("open", "new", [], deadline)
        if self.shell.writes:
            self.publish(1000, fails=False)
        self.pass_time(passes)
        if passes and self.shell.removals:
            self.resume("open")

    # -- what always holds

    @invariant()
    def keep_time_and_lock(self) -> None:
        """A call is queued, waits as a prepare or holds the lock, and not too long."""
        control = self.shell.participant.control
        holder = control.holder
        assert len(self.shell.stopping) <= 1
        writing = [write.checkpoint_id for write in self.shell.writes.values()]
        assert len(writing) == len(set(writing))
        assert set(self.shell.calls) == {
            *(called.call for called in control.queue),
            *(called.call for called in control.prepares),
            *([holder.call] if holder is not None and holder.call is not None else ()),
        }
        bounded = [called.body for called in control.prepares]
        if holder is not None and hasattr(holder, "body"):
            bounded.append(holder.body)
        assert all(self.shell.now < body.deadline_ts for body in bounded)

    @invariant()
    def keep_retired_sessions_away(self) -> None:
        """No request but a close runs on a session after it has been retired."""
        bindings = self.shell.participant.part.bindings
        for session, episode in bindings.sessions.items():
            assert bindings.retired.covers(episode) == (session in bindings.leaving)

    def teardown(self) -> None:
        """Nothing waits forever, whatever happened before."""
        shell = self.shell
        for _ in range(20):
            for number in list(shell.writes):
                shell.publish(number)
            for number in list(shell.stopping):
                shell.stop(number)
            for number in list(shell.reads):
                shell.read(number)
            for number in list(shell.removals):
                shell.free(number)
            for number in list(shell.admitted):
                shell.end(number, None)
            shell.pass_time(200.0)
        known = shell.participant.part.bindings.retired.marks
        if known:
            keys = [EpisodeId(r, a).capture_key for r, a in known.items()]
            retire = shell.retire(*keys)
            for number in list(shell.removals):
                shell.free(number)
            forget = shell.forget(*known)
            assert (200, 200) == (shell.reply(retire)[0], shell.reply(forget)[0])
            assert 0 == shell.status()["retired_sessions"]

        assert ({}, {}, {}) == (shell.calls, shell.waiting, shell.admitted)
        assert "idle" == shell.phase
        assert shell.timer is None


def test_random_interleavings_keep_every_rule(shell_class: type[Shell]) -> None:
    """Machine and model agree in any order of requests, calls, faults and crashes."""
    run_state_machine_as_test(
        partial(Interleavings, shell_class),  # type: ignore[arg-type]
        settings=settings(stateful_step_count=80),
    )
