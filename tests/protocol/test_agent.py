"""The part of an agent, carried by the control machine."""

from __future__ import annotations

from typing import Any

import pytest

from machines import NOW, Machine

from ipistate.kernel import JsonObject
from ipistate.protocol import EpisodeId, Phase, events, participant_status
from ipistate.protocol import actions as do
from ipistate.protocol.parts import agent_events as on
from ipistate.protocol.parts.agent import AgentPart
from ipistate.protocol.parts.environment import StartEpisode
from ipistate.protocol.steps import actions as told
from ipistate.protocol.steps import events as steps
from ipistate.protocol.steps.episode_records import AgentSessionRecord


R0, R1, R2 = (EpisodeId("r", attempt) for attempt in range(3))
OWN = JsonObject({"request": {"tools": 3}})
LOOP = JsonObject({"step": 1})
LATER = JsonObject({"step": 2})


class AgentMachine(Machine[AgentPart]):
    """An agent's machine, with one native session ``n`` and one run ``run:r``."""

    requests = 100

    def ask(self, kind: type[Any], *given: Any, **members: Any) -> Any:
        """Send what has a request, and return the last thing that it caused."""
        self.requests += 1
        actions = self.feed(kind(self.requests, *given, **members))
        return actions[-1] if actions else None

    def refused(self, kind: type[Any], *given: Any) -> str:
        """Send what is refused, and return the code."""
        answer = self.ask(kind, *given)
        assert isinstance(answer, do.Refuse)
        assert (self.requests, 409) == (answer.request, answer.status)
        return answer.code

    def seeded(self, key: str = "n", episode: EpisodeId = R0) -> None:
        """Open a native session."""
        assert do.Admit(self.requests + 1) == self.ask(on.SeedArrived, key, episode)
        opened = self.feed(on.SeedEnded(self.requests, OWN))
        assert (on.SessionOpened(self.requests),) == opened

    def active(self, key: str = "n", episode: EpisodeId = R0) -> on.StartActivation:
        """Start an activation."""
        start = self.ask(on.ActivationArrived, key, episode)
        assert isinstance(start, on.StartActivation)
        return start

    def goes_on(self, event: Any) -> bool:
        """Send a move of the turn loop; tell whether it goes on."""
        return (on.LoopProceeds(event.key),) == self.feed(event)


@pytest.fixture
def machine() -> AgentMachine:
    """Return a fresh machine."""
    return AgentMachine(AgentPart())


def native(
    boundary: JsonObject | None = LOOP, episode: EpisodeId = R0, own: JsonObject = OWN
) -> AgentSessionRecord[Any]:
    """Make the record of the native session."""
    return AgentSessionRecord(
        episode_id=episode, session_key="n", session=own, boundary=boundary
    )


def of_run(
    episode: object, boundary: JsonObject | None = None, of: EpisodeId = R0
) -> AgentSessionRecord[Any]:
    """Make the record of a run."""
    return AgentSessionRecord(
        episode_id=of,
        session_key="run:r",
        session=JsonObject({}),
        boundary=boundary,
        episode=episode,
    )


# Seeds


def test_a_seed_in_progress_blocks(machine: AgentMachine) -> None:
    """The checkpoint waits for its session, which it then records."""
    machine.ask(on.SeedArrived, "n", R0)
    machine.call("prepare")
    assert ("r",) == machine.part.report().blockers
    machine.feed(on.SeedEnded(machine.requests, OWN))

    assert [native(None)] == machine.commit(R0)


def test_a_seed_waits_for_the_resume(machine: AgentMachine) -> None:
    """It is admitted then, unless its client has left or its attempt is retired."""
    machine.call("prepare")
    assert None is machine.ask(on.SeedArrived, "n", R0)
    first = machine.requests
    assert None is machine.ask(on.SeedArrived, "m", R0)
    machine.feed(on.RequestLeft(machine.requests))
    machine.call("resume")

    admitted = [action for action in machine.log if isinstance(action, do.Admit)]
    assert [do.Admit(first)] == admitted


def test_a_client_that_leaves_comes_first(machine: AgentMachine) -> None:
    """Also when the lease has run out before the machine has heard of either."""
    machine.call("prepare")
    machine.ask(on.SeedArrived, "n", R0)
    machine.feed(on.RequestLeft(machine.requests), NOW + 9_999)

    assert not any(isinstance(action, do.Admit) for action in machine.log)


def test_a_seed_that_fails_leaves_nothing(machine: AgentMachine) -> None:
    """And one that nobody has admitted is none."""
    machine.ask(on.SeedArrived, "n", R0)
    machine.feed(on.SeedEnded(machine.requests, None))
    machine.feed(on.SeedEnded(7, OWN))

    assert AgentPart() == machine.part


def test_a_session_is_of_one_attempt(machine: AgentMachine) -> None:
    """The same attempt may open it again; another one is refused."""
    machine.seeded()
    machine.seeded()
    assert "stale_attempt" == machine.refused(on.SeedArrived, "n", R1)
    assert "stale_attempt" == machine.refused(on.ActivationArrived, "n", R1)
    assert "stale_attempt" == machine.refused(on.CloseArrived, "n", R1)


def test_a_retire_waits_for_seeds(machine: AgentMachine) -> None:
    """What a seed has made of a retired attempt is refused and kept nowhere."""
    machine.ask(on.SeedArrived, "n", R0)
    retire = machine.call("retire", episode_ids=(R0,))
    refuse, *_ = machine.feed(on.SeedEnded(machine.requests, OWN))
    assert isinstance(refuse, do.Refuse)

    assert "stale_attempt" == refuse.code
    assert ["r"] == machine.reply(retire)["retired"]
    assert 0 == len(machine.part.sessions)
    assert "stale_attempt" == machine.refused(on.SeedArrived, "n", R0)


# Activations


def test_an_activation_runs_from_boundary_to_boundary(machine: AgentMachine) -> None:
    """While nothing is open it goes on at once; its end leaves an idle session."""
    machine.seeded()
    start = machine.active()
    assert (None, OWN) == (start.continuation, start.own)
    assert "checkpoint_error" == machine.refused(on.ActivationArrived, "n", R0)
    for event in (on.LoopReached("n", LOOP), on.ModelAsked("n"), on.ModelReplied("n")):
        assert machine.goes_on(event)
    machine.feed(on.ActivationEnded("n", LATER))

    assert {"sessions": 1, "at_boundary": 0} == machine.part.report().counts
    assert [native(None, own=LATER)] == machine.commit(R0)


def test_no_session_no_activation(machine: AgentMachine) -> None:
    """Its moves mean nothing either."""
    assert "checkpoint_error" == machine.refused(on.ActivationArrived, "n", R0)
    assert () == machine.feed(on.ModelReplied("n"))
    assert () == machine.feed(on.ActivationEnded("n"))


def test_a_running_activation_blocks_until_its_boundary(machine: AgentMachine) -> None:
    """There it waits for the resume."""
    machine.seeded()
    machine.active()
    machine.call("prepare")
    assert Phase.PREPARING is machine.phase()
    assert not machine.goes_on(on.LoopReached("n", LOOP))
    assert [native()] == machine.commit(R0)
    machine.call("resume")

    assert on.LoopProceeds("n") == machine.last(on.LoopProceeds)
    assert ("n",) == tuple(machine.part.sessions)


def test_a_reply_of_the_model_is_held(machine: AgentMachine) -> None:
    """The session stays at the boundary before the call, and is written so."""
    machine.seeded()
    machine.active()
    machine.goes_on(on.LoopReached("n", LOOP))
    machine.goes_on(on.ModelAsked("n"))
    machine.call("prepare")
    assert Phase.PREPARED is machine.phase()
    assert {"sessions": 1, "at_boundary": 1} == machine.part.report().counts
    assert not machine.goes_on(on.ModelReplied("n"))
    assert [native()] == machine.commit(R0)
    machine.call("resume")

    assert on.LoopProceeds("n") == machine.last(on.LoopProceeds)
    machine.call("prepare", checkpoint_id="c2")
    assert Phase.PREPARING is machine.phase()


def test_an_activation_may_start_while_a_checkpoint_is_open(
    machine: AgentMachine,
) -> None:
    """Its caller sent it before; it parks at its first boundary."""
    machine.seeded()
    machine.call("prepare")
    machine.active()
    assert "invalid_phase" == machine.code(machine.call("commit", checkpoint_dir="d"))
    assert not machine.goes_on(on.LoopReached("n", LOOP))

    assert [native()] == machine.commit(R0)


@pytest.mark.parametrize("is_active", [True, False])
def test_a_close_cancels_once_and_is_answered_at_the_end(
    machine: AgentMachine,
    is_active: bool,
) -> None:
    """Closing what does not exist is fine; while it ends, it blocks."""
    machine.seeded()
    if is_active:
        machine.active()
        cancel = machine.ask(on.CloseArrived, "n", R0)
        assert on.CancelActivation("n") == cancel
        first = machine.requests
        assert None is machine.ask(on.CloseArrived, "n", R0)
        assert not machine.part.is_ready
        assert "checkpoint_error" == machine.refused(on.ActivationArrived, "n", R0)
        closed = machine.feed(on.ActivationEnded("n"))
        assert (on.SessionClosed(first), on.SessionClosed(first + 1)) == closed
    else:
        assert on.SessionClosed(102) == machine.ask(on.CloseArrived, "n", R0)

    assert 0 == len(machine.part.sessions)
    assert isinstance(machine.ask(on.CloseArrived, "n", R0), on.SessionClosed)


# Restored sessions


def test_a_restored_session_goes_on_as_the_next_attempt(machine: AgentMachine) -> None:
    """Its first activation begins at the restored boundary, the second does not."""
    machine.restored(native())
    start = machine.active(episode=R1)
    assert (LOOP, OWN) == (start.continuation, start.own)
    machine.feed(on.ActivationEnded("n"))

    assert None is machine.active(episode=R1).continuation


def test_a_restored_session_may_be_opened_again(machine: AgentMachine) -> None:
    """By the replayed seed of the next attempt, also while a checkpoint is open."""
    machine.restored(native())
    machine.call("prepare", checkpoint_id="c2")
    machine.seeded(episode=R1)
    assert [native(episode=R1)] == machine.commit(R1, checkpoint_id="c2")


@pytest.mark.parametrize("scope", [None, (R1,), ()])
def test_restored_sessions_that_nobody_has_used(
    machine: AgentMachine, scope: tuple[EpisodeId, ...] | None
) -> None:
    """In the scope they are written as the next attempt; outside it they are dropped."""
    machine.restored(native(), of_run("at seed", LATER))
    written = machine.commit(*scope or (), all_of_them=scope is None)
    expected = [native(episode=R1), of_run("at seed", LATER, R1)]

    assert (expected if scope != () else []) == written
    assert len(written) == len(machine.part.sessions)


@pytest.mark.parametrize("is_seed", [True, False])
def test_a_restore_wants_a_process_without_sessions(
    machine: AgentMachine,
    is_seed: bool,
) -> None:
    """Neither live ones nor seeds in progress."""
    machine.ask(on.SeedArrived, "n", R0)
    if not is_seed:
        machine.feed(on.SeedEnded(machine.requests, OWN))

    assert "checkpoint_error" == machine.code(machine.restore(checkpoint_id="r2"))


# Runs


def test_a_run_is_an_episode_and_a_session(machine: AgentMachine) -> None:
    """Its end ends both."""
    proceed = machine.ask(on.AgentRunArrived, R0)
    assert told.Proceed("run:r") == proceed
    assert StartEpisode(101, "run:r", None) == machine.last(StartEpisode)
    assert "checkpoint_error" == machine.refused(on.AgentRunArrived, R0)
    assert "stale_attempt" == machine.refused(on.AgentRunArrived, R1)
    machine.feed(steps.EpisodeEnded("run:r"))
    machine.feed(steps.EpisodeEnded("run:other"))

    assert AgentPart() == machine.part


def test_a_run_is_recorded_with_both_boundaries(machine: AgentMachine) -> None:
    """That of its protocol, and that of the turn loop inside."""
    machine.ask(on.AgentRunArrived, R0)
    machine.feed(steps.BoundaryReached("run:r", "at loop"))
    machine.feed(steps.StepStarted("run:r", steps.StepMode.REPLAY))
    machine.active("run:r")
    machine.goes_on(on.LoopReached("run:r", LOOP))
    machine.goes_on(on.ModelAsked("run:r"))
    assert [of_run("at loop", LOOP)] == machine.commit(R0)
    assert "admission_closed" == machine.refused(
        on.AgentRunArrived, EpisodeId("new", 0)
    )


def test_a_replacement_takes_both_continuations(machine: AgentMachine) -> None:
    """Each once; a second checkpoint before its activation has them still."""
    machine.restored(of_run("at loop", LOOP))
    machine.call("prepare", checkpoint_id="c2")
    machine.ask(on.AgentRunArrived, R1)
    assert "at loop" == machine.last(StartEpisode).boundary
    assert [of_run("at loop", LOOP, R1)] == machine.commit(R1, checkpoint_id="c2")
    machine.call("resume", checkpoint_id="c2")
    assert (told.Proceed("run:r"),) == machine.feed(steps.WakeTaken("run:r"))

    assert LOOP == machine.active("run:r", R1).continuation
    assert "checkpoint_error" == machine.refused(on.AgentRunArrived, R1)


def test_nothing_starts_before_the_restores_resume(machine: AgentMachine) -> None:
    """A replacement that comes too early is refused, a seed waits."""
    machine.restore(of_run("at loop"), native())

    assert "admission_closed" == machine.refused(on.AgentRunArrived, R1)
    assert None is machine.ask(on.SeedArrived, "n", R1)


def test_a_restart_is_named_and_never_parks(machine: AgentMachine) -> None:
    """Its session is not recorded, and its activation goes on."""
    machine.ask(on.AgentRunArrived, R0)
    machine.feed(steps.RestartMarked("run:r"))
    machine.active("run:r")
    prepare = machine.call("prepare")
    assert machine.goes_on(on.LoopReached("run:r", LOOP))
    assert machine.goes_on(on.ModelAsked("run:r"))
    assert machine.goes_on(on.ModelReplied("run:r"))

    assert ["r"] == machine.reply(prepare)["report"]["restarts"]
    assert [] == machine.commit()


def test_a_run_that_ends_before_its_activation(machine: AgentMachine) -> None:
    """The session goes with the activation, and blocks until then."""
    machine.ask(on.AgentRunArrived, R0)
    machine.active("run:r")
    machine.feed(steps.EpisodeEnded("run:r"))
    assert ("r",) == machine.part.report().blockers
    machine.feed(on.ActivationEnded("run:r"))

    assert AgentPart() == machine.part


# Retire


def test_a_retire_cancels_once_and_forgets_the_session_last(
    machine: AgentMachine,
) -> None:
    """Activation and run end in any order; both are cancelled once, however often asked."""
    for order in ([0, 1], [1, 0]):
        machine.ask(on.AgentRunArrived, R0)
        machine.active("run:r")
        retire = machine.call("retire", episode_ids=(R0,))
        again = machine.call("retire", episode_ids=(R0,))
        assert () == machine.feed(on.LoopReached("run:r", LOOP))
        assert "stale_attempt" == machine.refused(on.ActivationArrived, "run:r", R0)
        ends = [on.ActivationEnded("run:r"), steps.EpisodeEnded("run:r")]
        machine.feed(ends[order[0]])
        assert ("r",) == machine.part.report().blockers
        machine.feed(ends[order[1]])

        assert (
            ["r"] == machine.reply(retire)["retired"] == machine.reply(again)["retired"]
        )
        assert 0 == len(machine.part.sessions)
        machine.call("forget", rollout_ids=("r",))
    assert 2 == sum(isinstance(one, on.CancelActivation) for one in machine.log)
    assert 2 == sum(isinstance(one, told.Cancel) for one in machine.log)


def test_a_retire_frees_idle_and_restored_sessions(machine: AgentMachine) -> None:
    """At once; attempts after it stay."""
    machine.seeded("m", EpisodeId("s", 0))
    machine.seeded("n", R2)
    retire = machine.call("retire", episode_ids=(EpisodeId("s", 0), R1))

    assert ["s", "r-a1"] == machine.reply(retire)["retired"]
    assert ["n"] == list(machine.part.sessions)


def test_a_session_that_is_closed_and_retired(machine: AgentMachine) -> None:
    """One cancel is enough, and the close is answered."""
    machine.seeded()
    machine.active()
    machine.ask(on.CloseArrived, "n", R0)
    machine.call("retire", episode_ids=(R0,))
    machine.feed(on.ActivationEnded("n"))

    assert 1 == sum(isinstance(one, on.CancelActivation) for one in machine.log)
    assert isinstance(machine.last(on.SessionClosed), on.SessionClosed)
    assert 0 == len(machine.part.sessions)


def test_a_retired_activation_is_not_let_go_on(machine: AgentMachine) -> None:
    """It waits at its boundary when its attempt is retired; the resume comes first."""
    machine.restore(native())
    machine.active(episode=R1)
    assert not machine.goes_on(on.LoopReached("n", LOOP))
    machine.call("retire", checkpoint_id="r1", episode_ids=(R1,), deadline_ts=NOW)
    machine.call("retire", checkpoint_id="r1", episode_ids=(R1,))
    machine.feed(events.Tick(), NOW + 61)
    machine.call("resume", NOW + 62, checkpoint_id="r1")

    assert not any(isinstance(action, on.LoopProceeds) for action in machine.log)
    machine.feed(on.ActivationEnded("n"))
    machine.call("retire", NOW + 62, episode_ids=(R1,), deadline_ts=NOW + 90)
    assert 0 == len(machine.part.sessions)


def test_the_status_says_whether_it_accepts(machine: AgentMachine) -> None:
    """Beside what every participant says."""
    open_ = participant_status(machine.participant)
    machine.call("prepare")
    closed = participant_status(machine.participant)

    assert ("agent", True, False) == (
        open_["kind"],
        open_["accepting"],
        closed["accepting"],
    )
