"""Random interleavings of everything that can happen to a participant.

The shell of ``conftest.py`` checks after each event that phase and admission agree, that
requests in flight and waiting are those the machine knows, that nothing is answered
twice, and that a directory gets one manifest and none after the resume. Here a naive
model follows the sessions, and says what each write and each restore must contain.
"""

from functools import partial

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

from ipistate.checkpoint import actions as do
from ipistate.checkpoint.episode import EpisodeId
from ipistate.checkpoint.operations import RestoreBody
from ipistate.errors import CheckpointError


SESSIONS = st.sampled_from(["s0", "s1", "s2"])
ROLLOUTS = st.sampled_from(["r0", "r1"])
CHECKPOINTS = st.sampled_from(["new", "open", "open", "resumed"])
DIRECTORIES = st.sampled_from(["new", "d1", "d2"])
SCOPES = st.none() | st.lists(
    st.sampled_from(["r0", "r1", "r0-a1", "r1-a1", "r0-a2"]), unique=True
)
DEADLINES = st.sampled_from([0.0, 5.0, 30.0, 30.0])
PATHS = st.sampled_from(["/tool", "/verify", "/close_session", "/aggregate_metrics"])
ENDING = {"/verify", "/close_session"}
CHOICES = st.integers(0, 1000)
STATUSES = st.sampled_from([200, 200, 422, 500, None])
SELDOM = st.sampled_from([True, False, False, False])


def chosen(mapping, choice):
    """Pick a key by a number."""
    return sorted(mapping)[choice % len(mapping)]


def running(name):
    """Allow a rule while the shell has some of these."""
    return precondition(lambda self: getattr(self.shell, name))


class Interleavings(RuleBasedStateMachine):
    """A participant, its shell and a model of its sessions."""

    def __init__(self, shell_class):
        """Start with a fresh process."""
        super().__init__()
        self.shell, self.ids, self.seen = shell_class(grace=100.0), 0, 0
        self.tracked, self.unclaimed, self.restored = {}, set(), None

    @initialize()
    def begin(self):
        """Two sessions live, so that the first checkpoint holds something."""
        self.start_session("s0", "r0")
        self.start_session("s1", "r1")

    # -- data

    @rule(session=SESSIONS, rollout=ROLLOUTS)
    def seed(self, session, rollout):
        """A seed arrives; of a rollout it knows, for the same attempt."""
        bound = self.tracked.get(session, EpisodeId(rollout))
        attempt = bound.attempt if bound.rollout_id == rollout else 0
        self.shell.arrive("/seed_session", session, EpisodeId(rollout, attempt))

    @precondition(lambda self: self.shell.phase == "idle")
    @rule(session=SESSIONS, rollout=ROLLOUTS)
    def start_session(self, session, rollout):
        """A seed arrives and succeeds."""
        self.seed(session, rollout)
        self.end(len(self.shell.admitted) - 1, 200)

    @rule(session=SESSIONS, path=PATHS)
    def ask(self, session, path):
        """Another request arrives."""
        self.shell.arrive(path, session)

    @running("admitted")
    @rule(choice=CHOICES, status=STATUSES)
    def end(self, choice, status):
        """A request ends, with any outcome."""
        number = chosen(self.shell.admitted, choice)
        arrived = self.shell.admitted[number]
        if status == 200 and arrived.path == "/seed_session":
            self.tracked[arrived.session_id] = arrived.episode
            self.shell.worlds[arrived.session_id] = ("world", number)
        if arrived.path in ENDING and status != 422:
            self.shell.worlds.pop(arrived.session_id, None)
        if arrived.path in ENDING and status == 200:
            self.tracked.pop(arrived.session_id, None)
        self.shell.end(number, status)

    @running("waiting")
    @rule(choice=CHOICES)
    def disconnect(self, choice):
        """A waiting request leaves."""
        self.shell.end(chosen(self.shell.waiting, choice), None)

    @rule(session=SESSIONS)
    def late_attempt(self, session):
        """A call of an earlier attempt is refused."""
        bound = self.tracked.get(session)
        if bound is not None and bound.attempt and self.shell.phase == "idle":
            episode = EpisodeId(bound.rollout_id, bound.attempt - 1)
            assert self.shell.arrive("/tool", session, episode) in self.shell.refused

    # -- control

    def named(self, which):
        """Name a checkpoint: a new one, the open one, or one that was resumed."""
        control = self.shell.participant.control
        if which == "open" and control.open is not None:
            return control.open.id
        if which == "resumed" and control.resumed:
            return control.resumed[-1]
        return self.new("c")

    def new(self, prefix):
        """Make a name that has not been used."""
        self.ids += 1
        return f"{prefix}{self.ids}"

    def called(self, operation, which, **members):
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
    def prepare(self, which, deadline):
        """A prepare with any id."""
        self.called("prepare", which, deadline=deadline)

    @rule(which=CHECKPOINTS, name=DIRECTORIES, scope=SCOPES, deadline=DEADLINES)
    def commit(self, which, name, scope, deadline):
        """A commit with any arguments."""
        directory = self.new("d") if name == "new" else name
        self.called(
            "commit", which, directory=directory, scope=scope, deadline=deadline
        )

    @rule(which=CHECKPOINTS, choice=CHOICES, scope=SCOPES, deadline=DEADLINES)
    def restore(self, which, choice, scope, deadline):
        """A restore with any arguments."""
        directory = chosen({*self.shell.directories, "nowhere"}, choice)
        self.called(
            "restore", which, directory=directory, scope=scope or [], deadline=deadline
        )

    @rule(which=CHECKPOINTS)
    def resume(self, which):
        """A resume with any id."""
        self.called("resume", which)

    @rule(scope=SCOPES, deadline=DEADLINES)
    def go_on(self, scope, deadline):
        """Do what a controller would do next, so that runs get somewhere."""
        control, phase = self.shell.participant.control, self.shell.phase
        if phase == "preparing":
            for number in list(self.shell.admitted):
                self.end(number, None)
        elif phase == "prepared" and control.open.cut is None:
            self.commit("open", "new", scope, 5.0 if deadline else 30.0)
        elif phase == "prepared" and control.holder is not None:
            self.pass_time(5.0)
        elif phase == "idle":
            self.prepare("new", 30.0)
        else:
            self.resume("open")

    @precondition(lambda self: self.shell.phase == "prepared")
    @rule(deadline=DEADLINES)
    def retry(self, deadline):
        """The controller sends the commit again."""
        opened = self.shell.participant.control.open
        if opened.cut is not None:
            directory, scope = (
                opened.cut.arguments.directory,
                opened.cut.arguments.scope,
            )
            self.shell.commit(opened.id, directory, scope, deadline=deadline)

    @running("calls")
    @rule(choice=CHOICES)
    def drop(self, choice):
        """The caller of a control call leaves."""
        self.shell.drop(chosen(self.shell.calls, choice))

    # -- background work, time, crashes

    @running("writes")
    @rule(choice=CHOICES, fails=st.booleans())
    def publish(self, choice, fails):
        """A running write ends."""
        error = CheckpointError("invalid_checkpoint_state", "full") if fails else None
        self.shell.publish(chosen(self.shell.writes, choice), error)

    @running("stopping")
    @rule(choice=CHOICES)
    def stop(self, choice):
        """A stop flag has been set."""
        self.shell.stop(chosen(self.shell.stopping, choice))

    @running("reads")
    @rule(choice=CHOICES)
    def read(self, choice):
        """A running read ends."""
        self.shell.read(chosen(self.shell.reads, choice))

    @rule(seconds=st.sampled_from([1.0, 5.0, 5.0, 200.0]))
    def pass_time(self, seconds):
        """Time passes; the longest step outlives the lease."""
        self.shell.pass_time(seconds)

    @rule(happens=SELDOM, publish_first=st.booleans())
    def crash(self, happens, publish_first):
        """The process dies, after or before its last writes were published."""
        if happens:
            for number in list(self.shell.writes) if publish_first else ():
                self.shell.publish(number)
            self.shell, self.seen = self.shell.crash(), 0
            self.tracked, self.unclaimed, self.restored = {}, set(), None

    @running("directories")
    @rule(choice=CHOICES, scope=SCOPES, reads=st.booleans(), resumes=st.booleans())
    def start_over(self, choice, scope, reads, resumes):
        """A fresh process restores what it finds, at once or a little later."""
        self.crash(happens=True, publish_first=False)
        directory = chosen(self.shell.directories, choice)
        written, _ = self.shell.directories[directory]
        keys = scope or [r.episode_id.capture_key for r in written.records]
        self.shell.restore(self.new("c"), directory, sorted(set(keys)))
        if reads:
            self.shell.read()
            self.follow_sessions()
        if reads and resumes:
            self.resume("open")

    # -- the model

    @invariant()
    def follow_sessions(self):
        """The tracked sessions are those of the model."""
        control, gate = self.shell.participant.control, self.shell.participant.gate
        if self.shell.phase == "restored" and self.restored != control.open.id:
            self.restored = control.open.id
            assert ({}, {}) == (self.tracked, self.shell.admitted)
            self.tracked = self.contents(control.open.recorded[RestoreBody].body)
            self.unclaimed = set(self.tracked)
            assert self.unclaimed <= set(self.shell.worlds)
        for request in self.shell.admitted.values():
            self.unclaimed.discard(request.session_id)
        # An export may forget sessions, but only those whose world is gone.
        for session in set(self.tracked) - set(gate.sessions):
            assert session not in self.shell.worlds
            del self.tracked[session]

        assert self.tracked == gate.sessions

    def contents(self, body):
        """Look up what a restore must install."""
        written, _ = self.shell.directories[body.checkpoint_dir]
        return {
            record.session_id: record.episode_id.next_attempt
            for record in written.records
            if record.episode_id in body.episode_ids
        }

    @invariant()
    def check_writes(self):
        """A write holds all live sessions, and the unclaimed ones of its scope."""
        new, self.seen = self.shell.log[self.seen :], len(self.shell.log)
        opened = self.shell.participant.control.open
        for action in new:
            if isinstance(action, do.Write) and opened is not None:
                scope = opened.cut.arguments.scope
                kept = {
                    session: episode
                    for session, episode in self.tracked.items()
                    if scope is None
                    or session not in self.unclaimed
                    or episode.capture_key in scope
                }
                found = {r.session_id: r.episode_id for r in action.records}
                assert {
                    s: e for s, e in kept.items() if s in self.shell.worlds
                } == found

    @invariant()
    def keep_time_and_lock(self):
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

    def teardown(self):
        """Nothing waits forever, whatever happened before."""
        shell = self.shell
        for _ in range(20):
            for number in list(shell.writes):
                shell.publish(number)
            for number in list(shell.stopping):
                shell.stop(number)
            for number in list(shell.reads):
                shell.read(number)
            for number in list(shell.admitted):
                shell.end(number, None)
            shell.pass_time(200.0)

        assert ({}, {}, {}) == (shell.calls, shell.waiting, shell.admitted)
        assert "idle" == shell.phase
        assert shell.timer is None


def test_random_interleavings_keep_every_invariant(shell_class):
    """No order of requests, calls, faults and crashes breaks a rule."""
    run_state_machine_as_test(
        partial(Interleavings, shell_class), settings=settings(stateful_step_count=80)
    )
