"""Plans without any I/O: who is asked what, for any participants and any failures."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import attrs
import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate.coordination import plans
from ipistate.coordination.failures import (
    Failure,
    FailureReason,
    MissingEpisodesError,
    OperationFailedError,
    RestoreFailedError,
)
from ipistate.coordination.participants import (
    AT_ONCE,
    PREPARE,
    RESUME,
    RETIRE,
    Kind,
    Participant,
    stages,
)
from ipistate.coordination.plans import (
    PlanOutcome,
    clean_up_deadline,
    continued,
    next_attempts,
    patience,
)
from ipistate.coordination.replies import PreparedReport, PrepareReply, RestoreReply
from ipistate.coordination.results import (
    ParticipantAnswer,
)
from ipistate.kernel.values import JsonObject
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.operations import Call


NOW = 1_000_000.0
CALL = Call(checkpoint_id="c-1", deadline_ts=NOW + 10)
CHANGED_NOTHING = (
    *("unauthorized", "stale_checkpoint", "checkpoint_conflict", "invalid_phase"),
    *("stale_attempt", "checkpoint_error", "invalid_checkpoint_state"),
)

participants = st.lists(
    st.builds(
        Participant,
        st.text("abcdef", min_size=1, max_size=2),
        st.just("http://h"),
        st.sampled_from(Kind),
    ),
    min_size=1,
    max_size=7,
    unique=True,
)
lists = st.lists(
    st.builds(EpisodeId, st.sampled_from(["r", "s", "t"]), st.integers(0, 12)),
    max_size=8,
)
times = st.floats(0, 1e10)
episodes = st.lists(
    st.builds(EpisodeId, st.sampled_from(["r", "s", "t"]), st.integers(0, 3)),
    max_size=5,
)


def prepare_reply(phase: str) -> PrepareReply:
    """Return a reply to a prepare."""
    report = PreparedReport(
        ready=phase == "prepared",
        blockers=(),
        blocker_count=0,
        counts=JsonObject(),
        restarts=(),
    )
    return PrepareReply(phase=phase, report=report)


def restore_reply(episodes: tuple[EpisodeId, ...]) -> RestoreReply:
    """Return a reply to a restore that has installed these attempts."""
    keys = tuple(sorted(one.capture_key for one in episodes))
    return RestoreReply(phase="restored", source_checkpoint_id="s", restored=keys)


@attrs.define
class Script:
    """Who fails in which operation, and who is not prepared."""

    failing: frozenset[tuple[str, Participant]] = frozenset()
    unready: frozenset[Participant] = frozenset()
    restored: tuple[EpisodeId, ...] = ()
    code: str | None = None
    rounds: list[plans.Broadcast[Any]] = attrs.Factory(list)
    now: float = NOW

    def outcome(self, asked: plans.Broadcast[Any]) -> PlanOutcome[Any]:
        """Answer one round; time goes on by a second."""
        self.rounds.append(asked)
        self.now += 1
        operation = asked.request.operation
        fails = [one for one in asked.stage if (operation, one) in self.failing]
        failures = [
            Failure(
                server=one,
                operation=operation,
                reason=FailureReason.REFUSED,
                code=self.code,
            )
            for one in fails
        ]
        answers = [
            ParticipantAnswer(one, self.reply(operation, one))
            for one in asked.stage
            if one not in fails
        ]
        return PlanOutcome(answers=(*answers,), failures=(*failures,), now=self.now)

    def reply(
        self, operation: str, participant: Participant
    ) -> str | PrepareReply | RestoreReply:
        """Return a reply; those to a prepare and a restore are looked into."""
        if operation == "prepare":
            ready = participant not in self.unready
            return prepare_reply("prepared" if ready else "preparing")
        if operation == "restore":
            return restore_reply(self.restored)
        return f"{operation} reply"

    def run(self, plan: Generator[Any, Any, Any]) -> Any:
        """Carry out a plan and return its result."""
        try:
            asked = next(plan)
            while True:
                asked = plan.send(self.outcome(asked))
        except StopIteration as done:
            return done.value

    def run_to_error(
        self, plan: Generator[Any, Any, Any]
    ) -> tuple[Any, frozenset[tuple[str, object]]]:
        """Carry out a plan; return its result or None, and the calls that failed."""
        try:
            return self.run(plan), frozenset()
        except OperationFailedError as error:
            return None, frozenset((f.operation, f.server) for f in error.failures)

    def asked(self) -> list[tuple[str, tuple[Participant, ...]]]:
        """Return the operation and the stage of each round."""
        return [(one.request.operation, one.stage) for one in self.rounds]


@st.composite
def scripts(draw: st.DrawFn, everybody: list[Participant], *operations: str) -> Script:
    """Draw who fails, and who is not prepared."""
    calls = [(name, one) for name in operations for one in everybody]
    return Script(
        failing=frozenset(draw(st.lists(st.sampled_from(calls), max_size=3))),
        unready=frozenset(draw(st.lists(st.sampled_from(everybody), max_size=2))),
    )


def whole(
    operation: str, order: tuple[frozenset[Kind], ...], everybody: list[Participant]
) -> list[tuple[str, tuple[Participant, ...]]]:
    """Return the rounds that an operation has if nothing fails."""
    return [(operation, stage) for stage in stages(order, everybody)]


def until(
    rounds: list[tuple[str, tuple[Participant, ...]]], stop: Callable[..., bool]
) -> list[tuple[str, tuple[Participant, ...]]]:
    """Cut rounds off behind the first one that a test is true for."""
    for index, one in enumerate(rounds):
        if stop(one):
            return rounds[: index + 1]
    return rounds


@given(st.data(), participants)
def test_prepare_stops_where_it_is_not_ready(
    data: st.DataObject, everybody: list[Participant]
) -> None:
    """Stages behind one that fails or is unready are not asked."""
    script = data.draw(scripts(everybody, "prepare"))

    def stops(asked: tuple[str, tuple[Participant, ...]]) -> bool:
        return any(
            one in script.unready or ("prepare", one) in script.failing
            for one in asked[1]
        )

    expected = until(whole("prepare", PREPARE, everybody), stops)
    prepared, failures = script.run_to_error(plans.prepare(everybody, CALL))

    assert expected == script.asked()
    assert failures == {one for one in script.failing if one[1] in expected[-1][1]}
    if not failures:
        unready = {one.participant for one in prepared.unready}
        assert unready == script.unready & {*expected[-1][1]}
        assert prepared.ready == (not unready)


@given(st.data(), participants)
def test_resume_asks_everybody(
    data: st.DataObject, everybody: list[Participant]
) -> None:
    """Every stage is attempted, and all failures are raised at the end."""
    script = data.draw(scripts(everybody, "resume"))
    _, failures = script.run_to_error(plans.resume(everybody, CALL))

    assert failures == script.failing
    assert whole("resume", RESUME, everybody) == script.asked()


@pytest.mark.parametrize("operation", ["retire", "forget"])
@given(data=st.data(), everybody=participants)
def test_retire_and_forget_stop_at_a_failure(
    operation: str, data: st.DataObject, everybody: list[Participant]
) -> None:
    """A callee is not asked while a caller may still call it."""
    script = data.draw(scripts(everybody, operation))
    plans_by_name: dict[str, Callable[[], Generator[Any, Any, Any]]] = {
        "retire": lambda: plans.retire(everybody, CALL, [EpisodeId("r")]),
        "forget": lambda: plans.forget(everybody, CALL, ["r"]),
    }
    plan = plans_by_name[operation]()

    def fails(asked: tuple[str, tuple[Participant, ...]]) -> bool:
        return any((operation, one) in script.failing for one in asked[1])

    expected = until(whole(operation, RETIRE, everybody), fails)
    _, failures = script.run_to_error(plan)

    assert expected == script.asked()
    assert failures == {one for one in script.failing if one[1] in expected[-1][1]}


@given(participants)
def test_nothing_is_sent_for_nothing(everybody: list[Participant]) -> None:
    """Retire and forget without names do nothing, and succeed."""
    script = Script()
    results = [
        script.run(plans.retire(everybody, CALL, [])),
        script.run(plans.forget(everybody, CALL, [])),
    ]

    assert [(), ()] == [one.answers for one in results]
    assert [] == script.rounds


@given(participants, st.lists(st.sampled_from(["s", "r", "t-a0"]), min_size=1))
def test_forget_names_sorted_distinct_rollouts(
    everybody: list[Participant], names: list[str]
) -> None:
    """Section 5.3."""
    script = Script()
    script.run(plans.forget(everybody, CALL, names))

    assert sorted({*names}) == script.rounds[0].request.body["rollout_ids"]


@given(st.data(), participants, st.none() | episodes, episodes)
def test_commit_names_the_scope_without_restarts(
    data: st.DataObject,
    everybody: list[Participant],
    named: list[EpisodeId] | None,
    restarts: list[EpisodeId],
) -> None:
    """All are asked at once; no restart is named, and nobody is told to stop."""
    script = data.draw(scripts(everybody, "commit"))
    scope = None
    if named is not None:
        scope = (*dict.fromkeys(one for one in named if one not in restarts),)
    plan = plans.commit(everybody, CALL, "/d", named, restarts)
    done, failures = script.run_to_error(plan)

    assert failures == script.failing
    assert failures or scope == done.scope
    assert whole("commit", AT_ONCE, everybody) == script.asked()
    assert {
        "checkpoint_id": "c-1",
        "deadline_ts": NOW + 10,
        "checkpoint_dir": "/d",
        "episode_ids": None if scope is None else [*map(attrs.asdict, scope)],
    } == script.rounds[0].request.body


@given(st.data(), participants, episodes)
def test_restore_is_everywhere_or_nowhere(
    data: st.DataObject, everybody: list[Participant], named: list[EpisodeId]
) -> None:
    """After a failure the next attempts are retired and everybody is resumed."""
    script = data.draw(scripts(everybody, "restore", "retire", "resume"))
    failing = {call for call in script.failing if call[0] == "restore"}
    expected = whole("restore", AT_ONCE, everybody)
    if failing:
        expected += whole("retire", RETIRE, everybody) if named else []
        expected += whole("resume", RESUME, everybody)
    try:
        script.run(plans.restore(everybody, CALL, "/d", named, allow_missing=True))
    except RestoreFailedError as error:
        told = {(one.operation, one.server) for one in error.failures}
        undone = {(one.operation, one.server) for one in error.clean_up}
        assert failing == told
        asked = {(name, one) for name, stage in script.asked() for one in stage}
        assert undone == (script.failing - failing) & asked
    else:
        assert not failing
    assert expected == script.asked()


@given(st.data(), participants, episodes, st.booleans())
def test_d2_missing_episodes_end_a_restore(
    data: st.DataObject,
    everybody: list[Participant],
    named: list[EpisodeId],
    allow_missing: bool,
) -> None:
    """D2: all is retired, forgotten and resumed, unless nothing is missing or it may."""
    script = data.draw(scripts(everybody, "retire", "forget", "resume"))
    script.restored = next_attempts(one for one in named if data.draw(st.booleans()))
    missing = tuple(
        one for one in dict.fromkeys(named) if one.next_attempt not in script.restored
    )
    plan = plans.restore(everybody, CALL, "/d", named, allow_missing=allow_missing)
    expected = whole("restore", AT_ONCE, everybody)
    if missing and not allow_missing:
        expected += whole("retire", RETIRE, everybody)
        expected += whole("forget", RETIRE, everybody)
        expected += whole("resume", RESUME, everybody)
        with pytest.raises(MissingEpisodesError) as caught:
            script.run(plan)
        told: set[object] = {
            (one.operation, one.server) for one in caught.value.clean_up
        }
        assert missing == caught.value.episodes
        assert told == script.failing
    else:
        assert missing == script.run(plan).missing(dict.fromkeys(named))
    assert expected == script.asked()


def test_d2_many_missing_episodes_are_named_in_part() -> None:
    """D2: the message names ten of them, the error has them all."""
    missing = [EpisodeId(f"r{number}") for number in range(25)]
    error = MissingEpisodesError.of_episodes(missing, ())

    assert "r9 and 15 more" in error.message
    assert tuple(missing) == error.episodes


@given(participants, episodes, st.sampled_from(CHANGED_NOTHING))
def test_d2_a_restore_that_all_refuse_undoes_nothing(
    everybody: list[Participant], named: list[EpisodeId], code: str
) -> None:
    """D2: an undo would retire what an earlier restore has installed."""
    failing = frozenset(("restore", one) for one in everybody)
    script = Script(failing=failing, code=code)
    with pytest.raises(RestoreFailedError) as caught:
        script.run(plans.restore(everybody, CALL, "/d", named, allow_missing=False))

    assert whole("restore", AT_ONCE, everybody) == script.asked()
    assert {code} == caught.value.codes


@given(participants, episodes)
def test_d2_a_restore_that_ran_out_of_time_is_undone(
    everybody: list[Participant], named: list[EpisodeId]
) -> None:
    """D2: a participant that was late may have installed everything."""
    failing = frozenset(("restore", one) for one in everybody)
    script = Script(failing=failing, code="deadline_exceeded")
    with pytest.raises(RestoreFailedError):
        script.run(plans.restore(everybody, CALL, "/d", named, allow_missing=False))

    assert len(script.asked()) > 1


@given(participants, episodes, st.floats(NOW - 100, NOW + 100))
def test_clean_up_has_the_restore_id_and_time(
    everybody: list[Participant], named: list[EpisodeId], deadline: float
) -> None:
    """Its calls have the restore's id, the next attempts, and at least 30 seconds."""
    call = Call(checkpoint_id="c-1", deadline_ts=deadline)
    script = Script(failing=frozenset({("restore", everybody[0])}))
    with pytest.raises(RestoreFailedError):
        script.run(plans.restore(everybody, call, "/d", named, allow_missing=True))
    began, *undoing = [one.request for one in script.rounds]

    assert deadline == began.body["deadline_ts"]
    assert {"c-1"} == {one.body["checkpoint_id"] for one in undoing}
    assert all(one.deadline_ts >= max(deadline, NOW + 30) for one in undoing)
    assert [one.deadline_ts for one in undoing] == [
        one.body["deadline_ts"] for one in undoing
    ]
    assert all(
        [*dict.fromkeys(one.next_attempt.capture_key for one in named)]
        == [EpisodeId(**one).capture_key for one in at(request.body, "episode_ids")]
        for request in undoing
        if request.operation == "retire"
    )


@given(participants)
def test_renew_asks_all_at_once(everybody: list[Participant]) -> None:
    """Everybody is closed already, so no order is needed."""
    script = Script()
    script.run(plans.renew(everybody, CALL))

    assert whole("renew", AT_ONCE, everybody) == script.asked()


@given(lists, lists)
def test_restarts_are_left_out(
    named: list[EpisodeId], restarts: list[EpisodeId]
) -> None:
    """The scope is what was named without the restarts, in order, each once."""
    scope = continued(named, restarts)
    assert scope is not None

    assert {*named} - {*restarts} == {*scope}
    assert [*dict.fromkeys(one for one in named if one in scope)] == [*scope]


@given(lists)
def test_everything_stays_everything(restarts: list[EpisodeId]) -> None:
    """No scope stays no scope, whatever restarts."""
    assert continued(None, restarts) is None


@given(lists)
def test_next_attempts(named: list[EpisodeId]) -> None:
    """A restored episode is the same rollout, one attempt later."""
    assert [(one.rollout_id, one.attempt + 1) for one in dict.fromkeys(named)] == [
        (one.rollout_id, one.attempt) for one in next_attempts(named)
    ]


@given(times, times)
def test_patience_is_never_less_than_the_grace(deadline: float, now: float) -> None:
    """A call has max(deadline - now, 0) + 5 seconds (section 5.3)."""
    assert max(deadline - now, 0) + 5 == patience(deadline, now)


@given(times, times)
def test_clean_up_has_time(deadline: float, now: float) -> None:
    """The clean-up has max(deadline, now + 30) (section 5.5)."""
    assert max(deadline, now + 30) == clean_up_deadline(deadline, now)
