"""Random interleavings of everything that can happen to a participant.

The shell of ``conftest.py`` checks after each event that phase and admission agree, that
requests in flight and waiting are those the machine knows, that nothing is answered
twice, and that a directory gets one manifest and none after the resume. Here a model
follows the sessions.
"""

from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ipistate.checkpoint.episode import EpisodeId
from ipistate.errors import CheckpointError


SESSIONS = st.sampled_from(["s0", "s1", "s2"])
ROLLOUTS = st.sampled_from(["r0", "r1"])
CHECKPOINTS = st.sampled_from(["c0", "c1", "c2", "c3"])
DIRECTORIES = st.sampled_from(["d0", "d1"])
SCOPES = st.none() | st.lists(
    st.sampled_from(["r0", "r1", "r0-a1", "r1-a1", "r0-a2"]), unique=True
)
DEADLINES = st.sampled_from([-1.0, 0.0, 5.0, 30.0])
PATHS = st.sampled_from(["/tool", "/verify", "/close_session", "/aggregate_metrics"])
CHOICES = st.integers(0, 1000)
STATUSES = st.sampled_from([200, 422, 500, None])


def chosen(mapping, choice):
    """Pick a key by a number."""
    return sorted(mapping)[choice % len(mapping)]


class Interleavings(RuleBasedStateMachine):
    """A participant, its shell and a model of its sessions."""

    def __init__(self, shell_class):
        """Start with a fresh process."""
        super().__init__()
        self.shell_class, self.shell = shell_class, shell_class(grace=20.0)
        self.tracked, self.fenced = {}, []

    # -- data

    @rule(session=SESSIONS, rollout=ROLLOUTS)
    def seed(self, session, rollout):
        """A seed arrives."""
        bound = self.tracked.get(session, EpisodeId(rollout))
        attempt = bound.attempt if bound.rollout_id == rollout else 0
        self.shell.arrive("/seed_session", session, EpisodeId(rollout, attempt))

    @rule(session=SESSIONS, path=PATHS)
    def ask(self, session, path):
        """Another request arrives."""
        self.shell.arrive(path, session)

    @precondition(lambda self: self.shell.admitted)
    @rule(choice=CHOICES, status=STATUSES)
    def end(self, choice, status):
        """A request ends, with any outcome."""
        number = chosen(self.shell.admitted, choice)
        arrived = self.shell.admitted[number]
        success = status == 200
        if success and arrived.path == "/seed_session":
            self.tracked[arrived.session_id] = arrived.episode
            self.shell.worlds[arrived.session_id] = ("world", number)
        if arrived.path in {"/verify", "/close_session"} and status != 422:
            self.shell.worlds.pop(arrived.session_id, None)
        if success and arrived.path in {"/verify", "/close_session"}:
            self.tracked.pop(arrived.session_id, None)
        self.shell.end(number, status)

    @precondition(lambda self: self.shell.waiting)
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

    def called(self, call):
        """Check that an id which was resumed has changed nothing."""
        reply = self.shell.replies.get(call)
        if reply is not None and self.before is not None:
            assert reply.status == 409 or reply.document["idempotent"]
            assert self.before == (
                self.shell.participant.gate,
                self.shell.participant.control.open,
            )

    def look(self, checkpoint_id):
        """Remember the state if the id has been resumed."""
        participant = self.shell.participant
        fenced = checkpoint_id in participant.control.resumed
        settled = participant.control.holder is None
        self.before = (
            (participant.gate, participant.control.open) if fenced and settled else None
        )

    @rule(checkpoint_id=CHECKPOINTS, deadline=DEADLINES)
    def prepare(self, checkpoint_id, deadline):
        """A prepare with any id."""
        self.look(checkpoint_id)
        self.called(self.shell.call("prepare", checkpoint_id, deadline))

    @rule(
        checkpoint_id=CHECKPOINTS,
        directory=DIRECTORIES,
        scope=SCOPES,
        deadline=DEADLINES,
    )
    def commit(self, checkpoint_id, directory, scope, deadline):
        """A commit with any arguments."""
        self.look(checkpoint_id)
        self.called(
            self.shell.commit(checkpoint_id, directory, scope, deadline=deadline)
        )

    @precondition(lambda self: self.shell.phase in {"preparing", "prepared"})
    @rule(deadline=DEADLINES, directory=DIRECTORIES)
    def go_on(self, deadline, directory):
        """Call what a controller would call next, so that runs get somewhere."""
        checkpoint_id = self.shell.participant.control.open.id
        if self.shell.phase == "preparing":
            self.shell.call("prepare", checkpoint_id, deadline)
        else:
            self.shell.commit(checkpoint_id, directory, deadline=deadline)

    @rule(
        checkpoint_id=CHECKPOINTS,
        directory=DIRECTORIES,
        scope=SCOPES,
        deadline=DEADLINES,
    )
    def restore(self, checkpoint_id, directory, scope, deadline):
        """A restore with any arguments."""
        self.look(checkpoint_id)
        self.called(
            self.shell.restore(checkpoint_id, directory, scope or [], deadline=deadline)
        )

    @rule(checkpoint_id=CHECKPOINTS)
    def resume(self, checkpoint_id):
        """A resume with any id."""
        self.look(checkpoint_id)
        self.called(self.shell.call("resume", checkpoint_id))

    @precondition(lambda self: self.shell.calls)
    @rule(choice=CHOICES)
    def drop(self, choice):
        """The caller of a control call leaves."""
        self.shell.drop(chosen(self.shell.calls, choice))

    # -- background work, time, crashes

    @precondition(lambda self: self.shell.writes)
    @rule(choice=CHOICES, fails=st.booleans())
    def publish(self, choice, fails):
        """A running write ends."""
        error = CheckpointError("invalid_checkpoint_state", "full") if fails else None
        self.shell.publish(chosen(self.shell.writes, choice), error)

    @precondition(lambda self: self.shell.stopping)
    @rule(choice=CHOICES)
    def stop(self, choice):
        """A stop flag has been set."""
        self.shell.stop(chosen(self.shell.stopping, choice))

    @precondition(lambda self: self.shell.reads)
    @rule(choice=CHOICES)
    def read(self, choice):
        """A running read ends."""
        self.shell.read(chosen(self.shell.reads, choice))

    @rule(seconds=st.sampled_from([1.0, 5.0, 60.0]))
    def pass_time(self, seconds):
        """Time passes."""
        self.shell.pass_time(seconds)

    @rule(publish_first=st.booleans())
    def crash(self, publish_first):
        """The process dies; its last writes may still have been published."""
        for number in list(self.shell.writes) if publish_first else ():
            self.shell.publish(number)
        self.shell, self.tracked = self.shell.crash(), {}

    @invariant()
    def follow_sessions(self):
        """The tracked sessions are those of the model."""
        gate = self.shell.participant.gate
        if self.shell.phase == "restored":
            self.tracked = dict(gate.sessions)
            assert set(gate.sessions) <= set(self.shell.worlds)
        # An export may forget sessions, but only those whose world is gone.
        for session in set(self.tracked) - set(gate.sessions):
            assert session not in self.shell.worlds
            del self.tracked[session]

        assert self.tracked == gate.sessions

    @invariant()
    def one_lock(self):
        """Every call is queued, waits as a prepare, or holds the lock."""
        control = self.shell.participant.control
        assert len(self.shell.stopping) <= 1
        assert set(self.shell.calls) == {
            *(called.call for called in control.queue),
            *(called.call for called in control.prepares),
            *([control.holder.call] if control.holder and control.holder.call else ()),
        }

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
            shell.pass_time(100.0)

        assert ({}, {}, {}) == (shell.calls, shell.waiting, shell.admitted)
        assert "idle" == shell.phase
        assert shell.timer is None


def test_random_interleavings_keep_every_invariant(shell_class):
    """No order of requests, calls, faults and crashes breaks a rule."""
    run_state_machine_as_test(partial(Interleavings, shell_class))
