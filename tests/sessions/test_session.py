"""A session is a value: what its operations give depends on nothing else."""

from __future__ import annotations

import copy
import pickle

from functools import partial
from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    EncodeError,
    Environment,
    IdempotencyError,
    JsonArray,
    SchemaError,
    Session,
    SessionRangeError,
    ToolCall,
    ToolError,
    UnknownTool,
    call_tool,
    encode,
    identical,
    replay,
    session_from_json,
    session_to_json,
)
from ipistate.kernel import JsonObject
from ipistate.sessions import UnloggedSession
from ipistate.sessions.session import execute
from ipistate.testing import json_names, scenarios, tool_calls
from ipistate.testing.scenario import Scenario
from ipistate.tools import RECORDS, TOOLS, table_of, tool


HR = RECORDS["hr"]
CLINIC = {
    "patients": {"P-1": {"name": "Ada", "chart_notes": "Stable."}},
    "lab_results": {"P-1": [{"test": "TSH", "value": 2.5}]},
    "messages": [],
}
NOTE = ("update_patient_chart", {"patient_id": "P-1", "notes": "Better."})
READ = ("get_patient_record", {"patient_id": "P-1"})
BAD = ("get_patient_record", {"patient": "P-1"})


def clinic() -> Session:
    """Begin a session in a small clinic."""
    return Session(Environment.of(CLINIC))


def after(session: Session, calls: list[ToolCall] | tuple[ToolCall, ...]) -> Session:
    """Make calls one after another."""
    for call in calls:
        session = session.step(call.name, call.arguments)
    return session


def texts(
    session: Session,
) -> tuple[list[tuple[str, bytes, str, ToolError | None]], list[bytes]]:
    """Return all that a session shows, as text."""
    return [
        (step.call.name, encode(step.call.arguments), step.output, step.error)
        for step in session.log
    ], [world.to_json() for world in session.worlds]


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Sessions of some calls, a few of them made under a key."""
    scenario = draw(scenarios(HR))
    session = Session(scenario.environment)
    for number, call in enumerate(scenario.calls):
        if draw(st.booleans()):
            session = session.step(call.name, call.arguments)
        else:
            session, _ = session.once(f"k{number}", call.name, call.arguments)
    return session


@given(scenarios(HR))
def test_steps_are_the_transitions(scenario: Scenario) -> None:
    """The log has the reply and the world of each call, as ``replay`` gives them."""
    session = after(Session(scenario.environment), scenario.calls)
    done = [*replay(scenario.environment, scenario.calls)]

    assert [step.call for step in session.log] == [*scenario.calls]
    assert [step.output for step in session.log] == [one.output for one in done]
    assert [step.error for step in session.log] == [one.error for one in done]
    assert [world.to_json() for world in session.worlds[1:]] == [
        one.environment.to_json() for one in done
    ]
    assert session.environment is session.worlds[-1]
    assert session.worlds[0] is session.seed is scenario.environment


@given(sessions(), st.data())
def test_at_is_a_replay_of_the_first_calls(
    session: Session, data: st.DataObject
) -> None:
    """``at(k)`` is the session in which only the first k calls were made."""
    position = data.draw(st.integers(0, len(session.log)))
    calls = [step.call for step in session.log[:position]]

    back = session.at(position)

    assert texts(back) == texts(after(Session(session.seed), calls))
    assert back.environment is session.worlds[position]
    assert texts(back) == texts(session.rewind(len(session.log) - position))


@given(sessions())
def test_history_visits_every_moment(session: Session) -> None:
    """The history goes from the seed to now, and shares every world and step."""
    moments = [*session.history()]

    assert [moment.environment for moment in moments] == [*session.worlds]
    assert moments[0].log == ()
    assert moments[-1] == session
    for moment in moments:
        pairs = zip(moment.log, session.log, strict=False)
        assert all(mine is theirs for mine, theirs in pairs)


@given(sessions(), st.data())
def test_operations_leave_the_session(session: Session, data: st.DataObject) -> None:
    """Nothing that is asked of a session changes it."""
    before = texts(session)
    call = data.draw(tool_calls(session.environment))

    session.step(call.name, call.arguments)
    session.once("new", call.name, call.arguments)
    session.fork(3)
    session.rewind(len(session.log))
    [*session.history()]

    assert before == texts(session)


@given(sessions(), st.booleans(), st.data())
def test_forks_are_independent(
    session: Session, stored: bool, data: st.DataObject
) -> None:
    """Two forks go on as if each were alone, through a checkpoint as well."""
    one, other = session.fork(2)
    if stored:
        one, other = (session_from_json(session_to_json(s)) for s in (one, other))
    calls = st.lists(tool_calls(session.environment), max_size=4)
    mine, theirs = data.draw(calls), data.draw(calls)
    alone = texts(after(session, mine)), texts(after(session, theirs))
    before = texts(session)

    for index in range(max(len(mine), len(theirs))):
        one = after(one, mine[index : index + 1])
        other = after(other, theirs[index : index + 1])

    assert alone == (texts(one), texts(other))
    assert before == texts(session)


def test_a_fork_copies_nothing() -> None:
    """A fork is the value itself, however large it is."""
    session = clinic().step(*NOTE)

    assert all(fork is session for fork in session.fork(1_000))
    assert () == session.fork(0)


def test_worlds_share_what_did_not_change() -> None:
    """A step costs what it changes; a reading call costs no world at all."""
    session = clinic().step(*READ).step(*NOTE)
    seed, read, noted = (world.document for world in session.worlds)

    assert seed is read
    assert seed["lab_results"] is noted["lab_results"]
    assert seed["patients"] is not noted["patients"]


@given(scenarios(HR), json_names())
def test_once_makes_a_call_at_most_once(scenario: Scenario, key: str) -> None:
    """The same call under a key that was used gives the recorded step."""
    call = scenario.calls[0]
    session = after(Session(scenario.environment), scenario.calls)
    first, step = session.once(key, call.name, call.arguments)

    again, known = after(first, scenario.calls).once(key, call.name, call.arguments)

    assert step is first.log[-1]
    if step.error is None and call.name in TOOLS:
        assert known is step
        assert len(first.log) + len(scenario.calls) == len(again.log)
    else:
        assert step.key is None
        assert known is again.log[-1] is not step


@pytest.mark.parametrize("arguments", [[1], None, "{}", 5])
def test_arguments_are_an_object(arguments: Any) -> None:
    """What no log can hold is refused before it is executed."""
    for made in (clinic().step, partial(clinic().once, "k")):
        with pytest.raises(SchemaError, match="arguments are an object"):
            made("get_patient_record", arguments)


def test_a_refused_call_leaves_its_key_unused() -> None:
    """After a refusal the key may be used for a call that is put right."""
    session, refused = clinic().once("k", *BAD)
    session, unknown = session.once("k", "get_patient_recrod", READ[1])
    session, done = session.once("k", *READ)

    assert [None, None, "k"] == [step.key for step in session.log]
    assert refused.error is not None
    assert isinstance(unknown.error, UnknownTool)
    assert ("TypeError", "UnknownTool") == (refused.error.type, unknown.error.type)
    assert clinic().step(*READ).log[-1].output == done.output


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_lab_results", READ[1]),
        ("get_patient_record", {"patient_id": "P-2"}),
        ("get_patient_record", {"patient_id": "P-1", "x": None}),
    ],
)
def test_a_key_is_for_one_call(name: str, arguments: dict[str, Any]) -> None:
    """Another tool or other arguments under a key that was used are refused."""
    session, _ = clinic().once("k", *READ)

    with pytest.raises(IdempotencyError, match="of 'get_patient_record'") as caught:
        session.once("k", name, arguments)

    assert "key_conflict" == caught.value.code


@pytest.mark.parametrize("number", [1.0, True])
def test_a_key_tells_kinds_of_numbers_apart(number: bool | float) -> None:
    """Arguments are compared as text, not by ``==``."""
    session, _ = clinic().once("k", "get_patient_record", {"patient_id": 1})

    with pytest.raises(IdempotencyError):
        session.once("k", "get_patient_record", {"patient_id": number})


def test_a_key_is_the_same_after_storage() -> None:
    """Two halves of a character are one key with it, before and after a checkpoint."""
    session, step = clinic().once("\ud83d\ude00", *READ)

    for kept in (session, session_from_json(session_to_json(session))):
        assert kept.once("\U0001f600", *READ) == (kept, step)
        assert kept.once("\ud83d\ude00", *READ) == (kept, step)


def test_a_rewound_call_frees_its_key() -> None:
    """A key belongs to the log, so taking the call back takes it back, too."""
    session, _ = clinic().once("k", *READ)

    assert session.rewind(1).once("k", *NOTE)[1].output.startswith("Chart updated")


@pytest.mark.parametrize("back", [-1, 2, 99])
def test_moments_outside_of_the_history(back: int) -> None:
    """There is nothing before the seed and nothing after now."""
    session = clinic().step(*READ)

    for operation in (session.at, session.rewind):
        with pytest.raises(SessionRangeError, match="has 1 calls") as caught:
            operation(back)
        assert ("no_such_step", str(back)) == (caught.value.code, caught.value.preview)
        assert isinstance(caught.value, IndexError)


def test_arguments_are_json() -> None:
    """What no model can send is the caller's error, and nothing is logged."""
    with pytest.raises(EncodeError):
        clinic().step("get_patient_record", {"patient_id": {1}})


def test_a_table_of_tools_of_ones_own() -> None:
    """Steps go to the tools that are given, and only to those."""

    def shout(world: JsonObject, text: str) -> tuple[JsonObject, str]:
        """Answer loudly."""
        return world, text.upper()

    own = table_of([tool(shout, "own")])
    session = clinic().step("shout", {"text": "hey"}, tools=own)
    session, step = session.once("k", *READ, tools=own)

    assert "HEY" == session.log[0].output
    assert "Unknown tool: get_patient_record" == step.output


@given(scenarios(HR))
def test_execute_notes_what_the_call_did(scenario: Scenario) -> None:
    """A step is a transition with its call; the key stays if the call was made."""
    call = scenario.calls[0]
    step = execute(scenario.environment, call, "k", tools=TOOLS)
    done = call_tool(scenario.environment, call.name, call.arguments)

    assert (done.output, done.error) == (step.output, step.error)
    assert identical(done.environment.document, step.environment.document)
    assert (done.error is None and call.name in TOOLS) == (step.key == "k")


def test_seed_digest_names_the_task() -> None:
    """Equal seeds have equal digests, whatever happened since."""
    session = clinic()

    assert session.seed_digest == session.step(*NOTE).seed_digest
    assert session.seed_digest != Session(Environment.of({})).seed_digest
    assert (
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        == Session(Environment.of({})).seed_digest
    )
    assert 2 == session.schema_version


@given(sessions(), st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_pickling_keeps_worlds_and_what_they_share(
    session: Session, protocol: int
) -> None:
    """A session that went to another process is the same one."""
    assert session.seed_digest
    back = pickle.loads(pickle.dumps(session, protocol))

    assert texts(session) == texts(back)
    assert session.seed_digest == back.seed_digest
    assert [step.key for step in session.log] == [step.key for step in back.log]
    assert shared(session) == shared(back)


def shared(session: Session) -> list[set[str]]:
    """Name, for each step, the collections that it left as they were."""
    pairs = zip(session.worlds, session.worlds[1:], strict=False)
    return [common(one.document, other.document) for one, other in pairs]


def common(one: JsonObject, other: JsonObject) -> set[str]:
    """Name the members that are one object in both."""
    containers = {n for n, part in one.items() if isinstance(part, dict | list)}
    return {name for name in containers if one[name] is other.get(name)}


def test_the_pickle_of_a_long_session_is_what_changed() -> None:
    """A thousand steps in a world of 50 kB are a few bytes each, not 50 MB."""
    rows = {f"P-{n}": {"name": f"{n} " * 150, "chart_notes": ""} for n in range(110)}
    session = Session(Environment.of({"patients": rows}))
    for number in range(1_000):
        note = {"patient_id": f"P-{number % 110}", "notes": str(number)}
        session = session.step("update_patient_chart", note)
    one = len(pickle.dumps(session.seed))

    assert one > 45_000
    assert len(pickle.dumps(session)) < 40 * one


def test_copies_are_the_session() -> None:
    """Copying a session copies no world."""
    session = clinic().step(*NOTE)

    for copied in (copy.copy(session), copy.deepcopy(session)):
        assert session == copied
        assert session.environment.document is copied.environment.document
        assert hash(session) == hash(copied)


def test_a_refusal_is_in_the_log() -> None:
    """The log has every call that was made, refused ones with their error."""
    (step,) = clinic().step(*BAD).log

    assert isinstance(step.error, ToolError)
    assert step.output.endswith(step.error.message)
    assert ToolCall(*BAD) == step.call
    assert JsonArray() == step.environment.document["messages"]


# -- a session's own tools ----------------------------------------------------------


def shout(world: JsonObject, text: str) -> tuple[JsonObject, str]:
    """Answer loudly."""
    return world, text.upper()


OWN = table_of([tool(shout, "own")], TOOLS.values())
HEY = ("shout", {"text": "hey"})


@pytest.mark.parametrize("kind", [Session, UnloggedSession])
def test_d7_a_session_remembers_its_tools(kind: type[Session]) -> None:
    """D7: every session that comes of one has the same tools, and calls with them."""
    session = kind(clinic().seed, tools=OWN).step(*NOTE)
    (fork,) = session.fork(1)
    later = [fork, fork.step(*HEY), fork.call(*HEY)[0], fork.at(0)]
    later += [*fork.history(), fork.once("k", *HEY)[0], fork.rewind(len(fork.log))]
    later += [copy.deepcopy(fork), pickle.loads(pickle.dumps(fork))]

    for one in later:
        assert {*OWN} == {*one.tools}
        assert "HEY" == one.call(*HEY)[1]
        assert "HEY" == one.once("other", *HEY)[1].output


def test_d7_a_call_may_be_made_with_other_tools() -> None:
    """D7: tools given to one call serve that call alone."""
    session = clinic().step(*HEY, tools=OWN)
    session = session.step(*HEY)

    assert ["HEY", "Unknown tool: shout"] == [step.output for step in session.log]
    assert TOOLS is session.tools


def test_d7_tools_are_no_part_of_the_value() -> None:
    """D7: sessions with equal logs are equal and have one text, whatever their tools."""
    own, plain = (
        Session(clinic().seed, tools=tools).step(*NOTE) for tools in (OWN, TOOLS)
    )

    assert own == plain
    assert hash(own) == hash(plain)
    assert session_to_json(own) == session_to_json(plain)
    assert len(pickle.dumps(plain)) < 1_000 < len(pickle.dumps(own))


def test_d7_a_stored_session_goes_on_with_the_tools_it_was_read_with() -> None:
    """D7: the tools that executed the log again are those of the session."""
    saved = session_to_json(Session(clinic().seed, tools=OWN).step(*HEY))

    assert "HEY" == session_from_json(saved, tools=OWN).call(*HEY)[1]
    with pytest.raises(SchemaError) as caught:
        session_from_json(saved)
    assert "log_not_reproducible" == caught.value.code


def test_d7_the_text_of_an_unknown_tool_is_as_ever() -> None:
    """D7: a stored log has the reply of an unknown tool and no error beside it."""
    session = clinic().step("shuot", {})
    saved = session_to_json(session)

    assert b'"output":"Unknown tool: shuot","error":null,' in saved
    assert session == session_from_json(saved)
    assert isinstance(session.log[0].error, UnknownTool)


@pytest.mark.parametrize("seed", [CLINIC, JsonObject(CLINIC), None, "{}"])
@pytest.mark.parametrize("kind", [Session, UnloggedSession])
def test_d6_a_session_begins_with_a_world(kind: type[Session], seed: Any) -> None:
    """D6: plain data is refused at once, and the error says what to write."""
    with pytest.raises(TypeError, match=r"write Session\(Environment.of\(world\)\)"):
        kind(seed)


@pytest.mark.parametrize("name", [None, 3, TOOLS["get_inbox"]])
def test_d6_a_tool_is_called_by_its_name(name: Any) -> None:
    """D6: what is no name is refused before it gets into the log."""
    for made in (clinic().step, partial(clinic().once, "k")):
        with pytest.raises(TypeError, match="called by its name"):
            made(name)


def test_d5_a_session_shows_its_last_call() -> None:
    """D5: a session is shown by its last call, the reply, and the size of its world."""
    session = clinic().step(*READ)
    shown = repr(session)

    assert shown.startswith("Session(calls=1, last=ToolCall(name='get_patient_record'")
    assert "environment=Environment(patients: 1" in shown
    assert "Session(calls=0, environment=Environment(" == repr(clinic())[:41]
    assert 'Step(output=\'{"name": "Ada"' == repr(session.log[0])[:27]


@given(sessions())
def test_d5_a_session_is_shown_in_bounded_space(session: Session) -> None:
    """D5: sessions and their steps have at most 200 characters."""
    assert all(len(repr(one)) <= 200 for one in (session, *session.log))


def test_d5_a_session_in_a_notebook() -> None:
    """D5: a notebook shows the log, a row for each call, and escapes replies."""
    page = clinic().step("<b>", {}).step(*READ)._repr_html_()

    assert "<td>Unknown tool: &lt;b&gt;</td>" in page
    assert page.count("<tr>") == 3


# -- sessions without a log --------------------------------------------------------


@given(scenarios(HR))
def test_an_unlogged_session_has_the_worlds_of_a_logged_one(scenario: Scenario) -> None:
    """Calls answer and do the same; only the log is missing."""
    logged = Session(scenario.environment)
    unlogged = UnloggedSession(scenario.environment)
    for call in scenario.calls:
        stepped, before = unlogged.step(call.name, call.arguments), unlogged
        logged, expected = logged.call(call.name, call.arguments)
        unlogged, output = unlogged.call(call.name, call.arguments)

        assert (expected, ()) == (output, unlogged.log)
        assert logged.environment == unlogged.environment == stepped.environment
        is_changed = unlogged.environment is not before.environment
        assert is_changed == (unlogged is not before)
        assert UnloggedSession is type(stepped)


def test_a_session_says_whether_it_is_logged() -> None:
    """An unlogged one is never equal to a logged one."""
    world = Environment.of({})

    assert Session.is_logged
    assert not UnloggedSession.is_logged
    assert Session(world) != UnloggedSession(world)
