"""Version 2 of the state: strict, one text for one value, and proven by execution."""

from __future__ import annotations

import json

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    DecodeError,
    Environment,
    IPICheckpointState,
    JsonObject,
    SchemaError,
    Session,
    decode,
    encode,
    freeze,
    identical,
    session_from_json,
    session_to_json,
)
from ipistate.kernel import MAX_DEPTH, depth
from ipistate.kernel.codec import decode_as
from ipistate.sessions.codec import RecordedCodec, SessionCodec, WorldCodec
from ipistate.sessions.log import RecordedSession
from ipistate.testing import scenarios
from ipistate.tools import RECORDS, TOOLS, table_of, tool


GOLDEN = Path(__file__).parent / "golden"
V1, V1_AS_V2, V2, V2_AS_V1 = (
    (GOLDEN / f"ipi_state_{name}.json").read_bytes()
    for name in ("v1", "v1_as_v2", "v2", "v2_as_v1")
)
HEALTHCARE = RECORDS["healthcare"]


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Sessions of any world, a few of their calls made under a key."""
    scenario = draw(scenarios(HEALTHCARE))
    session = Session(scenario.environment)
    for number, call in enumerate(scenario.calls):
        key = draw(st.sampled_from((None, f"k{number}", "\ud83d")))
        if key is None or any(step.key == key for step in session.log):
            session = session.step(call.name, call.arguments)
        else:
            session, _ = session.once(key, call.name, call.arguments)
    return session


def refusal(data: str | bytes) -> list[tuple[str, str]]:
    """Return code and path of each problem of a session that is refused."""
    with pytest.raises(SchemaError) as caught:
        session_from_json(data)
    return [(problem.code, problem.path) for problem in caught.value.problems]


def changed(change: Callable[..., Any], data: bytes = V2) -> str:
    """Return a session's text after a change of its document."""
    document = json.loads(data)
    change(document)
    return json.dumps(document)


def put(*path_and_value: Any) -> Callable[..., None]:
    """Return a change that sets the member at a path."""
    *path, name, value = path_and_value

    def change(document: dict[str, Any]) -> None:
        place = document
        for step in path:
            place = place[step]
        place[name] = value

    return change


def without_log(document: object) -> bytes:
    """Write version 1 of a document of version 2, without executing its log."""
    codec = WorldCodec()
    return codec.encode(codec.decode(document, freeze))


@given(sessions())
def test_a_session_survives_storage(session: Session) -> None:
    """Bytes, log, worlds and keys come back, and what is shared is shared again."""
    data = session_to_json(session)

    back = session_from_json(data)

    assert data == session_to_json(back) == session_to_json(session_from_json(data))
    assert [step.key for step in session.log] == [step.key for step in back.log]
    assert len(session.worlds) == len(back.worlds)
    for world, again in zip(session.worlds, back.worlds, strict=True):
        assert world.to_json() == again.to_json()
    for one, other in zip(session.log, back.log, strict=True):
        assert (encode(one.output), one.error) == (encode(other.output), other.error)


@given(sessions())
def test_the_document_is_the_text(session: Session) -> None:
    """Document and text say the same, and the plain tree is read as the text is."""
    document = RecordedSession.of(session).to_document()
    data = session_to_json(session)

    if depth(document) <= MAX_DEPTH:  # arguments have the full depth to themselves
        assert identical(document, decode(data))
    assert encode(document) == data == SessionCodec().encode(session)
    plain = SessionCodec().decode(json.loads(data), freeze)
    assert data == session_to_json(plain)


@given(sessions(), st.data())
def test_a_restored_session_goes_on(session: Session, data: st.DataObject) -> None:
    """At every cut, restore-then-continue equals continue."""
    cut = data.draw(st.integers(0, len(session.log)))

    restored = session_from_json(session_to_json(session.at(cut)))
    for step in session.log[cut:]:
        if step.key is None:
            restored = restored.step(step.call.name, step.call.arguments)
        else:
            call = step.call
            restored, _ = restored.once(step.key, call.name, call.arguments)

    assert session_to_json(session) == session_to_json(restored)


@given(sessions())
def test_the_text_depends_on_the_value_only(session: Session) -> None:
    """A world that is as it began is written once, whoever made it."""
    rebuilt = Session(Environment.from_json(session.seed.to_json()))
    for step in session.log:
        if step.key is None:
            rebuilt = rebuilt.step(step.call.name, step.call.arguments)
        else:
            call = step.call
            rebuilt, _ = rebuilt.once(step.key, call.name, call.arguments)

    assert session_to_json(session) == session_to_json(rebuilt)
    unchanged = session.seed.to_json() == session.environment.to_json()
    assert unchanged == (json.loads(session_to_json(session))["seed"] is None)


@given(sessions())
def test_down_and_up_again(session: Session) -> None:
    """Version 1 of a session is its world; up again it has no past."""
    document = RecordedSession.of(session).to_document()
    state = IPICheckpointState(session.environment)

    assert without_log(document) == state.to_json()
    assert session_from_json(state.to_json()) == Session(session.environment)
    assert without_log(state.to_document()) == state.to_json()


def test_golden_files_both_ways() -> None:
    """What each version wrote once is readable forever, up and down."""
    up, whole = session_from_json(V1), session_from_json(V2)

    assert V1_AS_V2 == session_to_json(up) == session_to_json(session_from_json(V1))
    assert V1_AS_V2 == session_to_json(session_from_json(V1_AS_V2))
    assert V1 == IPICheckpointState(up.environment).to_json()
    assert V1 == without_log(decode(V1_AS_V2))
    assert V2 == session_to_json(whole)
    assert V2_AS_V1 == IPICheckpointState(whole.environment).to_json()
    assert V2_AS_V1 == without_log(decode(V2))
    assert () == up.log
    assert ["retry-1", "retry-2"] == [s.key for s in whole.log if s.key is not None]
    assert {"tool_error": 2, "unknown_tool": 1} == Counter(
        step.error.code for step in whole.log if step.error is not None
    )


def test_version_1_says_what_to_do_with_version_2() -> None:
    """A reader of version 1 refuses version 2 and names the ways out."""
    with pytest.raises(SchemaError) as caught:
        IPICheckpointState.from_json(V2)

    assert "unsupported_version" == caught.value.code
    assert "version 2 is newer than 1" in caught.value.message
    assert "session_from_json() reads" in caught.value.message
    assert "`ipistate checkpoint migrate --to 1` drops" in caught.value.message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("schema_version", 3), ("unsupported_version", "$.schema_version")),
        (put("schema_version", 0), ("unsupported_version", "$.schema_version")),
        (put("schema_version", True), ("wrong_type", "$.schema_version")),
        (put("schema_version", 2.0), ("wrong_type", "$.schema_version")),
        (put("schema_version", "2"), ("wrong_type", "$.schema_version")),
        (put("schema_version", None), ("wrong_type", "$.schema_version")),
        (put("environment", None), ("wrong_type", "$.environment")),
        (put("environment", []), ("wrong_type", "$.environment")),
        (put("seed", []), ("wrong_type", "$.seed")),
        (put("log", None), ("wrong_type", "$.log")),
        (put("log", {}), ("wrong_type", "$.log")),
        (put("note", 1), ("unknown_member", "$.note")),
        (put("log", 1, None), ("wrong_type", "$.log[1]")),
        (put("log", 1, "note", 1), ("unknown_member", "$.log[1].note")),
        (put("log", 1, "name", 1), ("wrong_type", "$.log[1].name")),
        (put("log", 1, "arguments", "{}"), ("wrong_type", "$.log[1].arguments")),
        (put("log", 1, "arguments", None), ("wrong_type", "$.log[1].arguments")),
        (put("log", 1, "output", None), ("wrong_type", "$.log[1].output")),
        (put("log", 1, "error", "x"), ("wrong_type", "$.log[1].error")),
        (put("log", 1, "key", 1), ("wrong_type", "$.log[1].key")),
        (put("log", 2, "error", "type", 1), ("wrong_type", "$.log[2].error.type")),
        (put("log", 2, "error", "at", 1), ("unknown_member", "$.log[2].error.at")),
    ],
)
def test_what_is_refused(
    change: Callable[..., None], expected: tuple[str, str]
) -> None:
    """Nothing is coerced or dropped: each wrong member has a code and a path."""
    assert [expected] == refusal(changed(change))


@pytest.mark.parametrize("name", ["schema_version", "environment", "seed", "log"])
def test_every_member_is_required(name: str) -> None:
    """A session without one of its members, the version too, is refused by its name."""
    without = changed(lambda document: document.pop(name))

    assert [("missing_member", f"$.{name}")] == refusal(without)


@pytest.mark.parametrize("name", ["name", "arguments", "output", "error", "key"])
def test_every_member_of_a_call_is_required(name: str) -> None:
    """So is a call of the log."""
    without = changed(lambda document: document["log"][0].pop(name))

    assert [("missing_member", f"$.log[0].{name}")] == refusal(without)


@pytest.mark.parametrize("data", ["[]", "null", "2", '"{}"', "true"])
def test_a_session_is_an_object(data: str) -> None:
    """Other JSON is refused as a whole."""
    assert [("wrong_type", "$")] == refusal(data)


def test_every_problem_is_in_one_report() -> None:
    """Several findings are several entries with their paths."""
    document = {"schema_version": True, "environment": [], "seed": 1, "note": 1}

    assert {
        ("wrong_type", "$.schema_version"),
        ("wrong_type", "$.environment"),
        ("wrong_type", "$.seed"),
        ("missing_member", "$.log"),
        ("unknown_member", "$.note"),
    } == {*refusal(json.dumps(document))}


def test_version_1_stays_strict() -> None:
    """Being read for an upgrade makes no state of version 1 more welcome."""
    assert [("wrong_type", "$.environment"), ("unknown_member", "$.log")] == refusal(
        '{"schema_version":1,"environment":[],"log":[]}'
    )
    assert [("missing_member", "$.environment")] == refusal('{"schema_version":1}')


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (put("log", 0, "output", "{}"), "$.log[0].output"),
        (put("log", 0, "name", "get_prescriptions"), "$.log[0].output"),
        (put("log", 1, "arguments", "notes", "x"), "$.environment"),
        (put("log", 2, "error", None), "$.log[2].error"),
        (put("log", 2, "error", "message", "no"), "$.log[2].error"),
        (put("log", 2, "error", "type", "KeyError"), "$.log[2].error"),
        (put("log", 0, "error", {"type": "a", "message": "b"}), "$.log[0].error"),
        (put("log", 2, "key", "k"), "$.log[2].key"),
        (put("log", 3, "key", "k"), "$.log[3].key"),
        (put("environment", "zeta", "b", 1.0), "$.environment"),
        (put("environment", "zeta", "b", True), "$.environment"),
        (put("seed", "zeta", "b", 2), "$.environment"),
        (put("log", []), "$.environment"),
        (put("seed", None), "$.log[0].output"),
    ],
)
def test_a_log_that_is_not_true(change: Callable[..., None], path: str) -> None:
    """A reply, an error, a key or a world that execution does not give is refused."""
    assert [("log_not_reproducible", path)] == refusal(changed(change))


def test_calls_in_another_order() -> None:
    """The log's order is part of what is proven."""
    turned = changed(lambda document: document["log"].reverse())

    assert "log_not_reproducible" == refusal(turned)[0][0]


def test_a_key_stands_once() -> None:
    """Two calls cannot have been made under one key."""
    data = changed(put("log", 4, "key", "retry-1"))

    assert [("repeated_key", "$.log[4].key")] == refusal(data)


def test_a_seed_that_is_the_world_is_null() -> None:
    """One value has one text, so the other spelling is refused."""
    world = json.loads(V1)["environment"]

    assert [("redundant_seed", "$.seed")] == refusal(
        changed(put("seed", world), V1_AS_V2)
    )


def test_calls_that_undo_one_another_leave_no_seed() -> None:
    """What decides is the world's value, not how it came to be."""

    def flip(world: JsonObject) -> tuple[JsonObject, str]:
        """Turn a switch."""
        return JsonObject({"on": not world["on"]}), "Done."

    own = table_of([tool(flip, "own")])
    session = Session(Environment.of({"on": True}))
    session = session.step("flip", tools=own).step("flip", tools=own)
    data = SessionCodec(own).encode(session)

    assert b'{"schema_version":2,"environment":{"on":true},"seed":null,"log":[' in data
    assert session == session_from_json(data, tools=own)
    assert session == decode_as(data, SessionCodec(own).decode)
    assert [("log_not_reproducible", "$.log[0].output")] == refusal(data)


def test_a_log_that_cannot_be_executed_can_be_dropped() -> None:
    """The way down executes nothing, and says no less about the shape."""
    data = changed(put("log", 0, "output", "of other tools"))

    assert V2_AS_V1 == without_log(decode(data))
    with pytest.raises(SchemaError) as caught:
        without_log(decode(changed(put("log", 0, "note", 1))))
    assert "unknown_member" == caught.value.code


def test_a_recorded_session_is_what_was_written() -> None:
    """Reading without execution keeps every member."""
    recorded = decode_as(V2, RecordedCodec().decode)

    assert V2 == RecordedCodec().encode(recorded)
    assert recorded.log[1].key == "retry-1"
    assert recorded.executed(TOOLS) == session_from_json(V2)


def test_worlds_without_their_logs() -> None:
    """Either version is read, its log not executed, and written as the world alone."""
    for text in (V1, V2):
        recorded = decode_as(text, WorldCodec().decode)
        world = IPICheckpointState(recorded.environment).to_json()

        assert world == WorldCodec().encode(recorded)


def nested(levels: int) -> Any:
    """Nest arrays to a depth."""
    return json.loads("[" * levels + "]" * levels)


def test_worlds_and_arguments_have_the_full_depth() -> None:
    """The depth limit counts for each world and each arguments alone."""
    deep = nested(MAX_DEPTH - 1)
    session = Session(Environment.of({"a": deep})).step("nope", {"a": deep})
    data = session_to_json(session)

    assert data == session_to_json(session_from_json(data))
    assert data == session_to_json(SessionCodec().decode(json.loads(data), freeze))


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (("environment", "x"), "$.environment"),
        (("seed", "x"), "$.seed"),
        (("log", 0, "arguments", "x"), "$.log[0].arguments"),
        (("log", 0), "$.log[0]"),
    ],
)
def test_what_is_nested_too_deeply_is_refused_with_its_place(
    path: tuple[int | str, ...], shown: str
) -> None:
    """No part is read that could not be written again."""
    deep = nested(MAX_DEPTH + 1)
    with pytest.raises(DecodeError) as caught:
        session_from_json(changed(put(*path, deep)))

    assert "too_deep" == caught.value.code
    assert caught.value.path.startswith(shown)


@pytest.mark.parametrize("number", [2**64, -(2**80), 10**400])
def test_large_integers_are_exact(number: int) -> None:
    """Numbers beyond 64 bits survive in worlds and in arguments."""
    session = Session(Environment.of({"n": number})).step("nope", {"n": number})
    data = session_to_json(session)

    back = session_from_json(data)

    assert data == session_to_json(back)
    assert number == back.log[0].call.arguments["n"] == back.seed.document["n"]


def test_halves_of_a_character() -> None:
    """Halves that a text puts side by side are one character in storage."""
    halves = "\ud83d" + "\ude00"
    session = Session(Environment.of({})).step(halves, {halves: halves})
    session, _ = session.once(halves, "nope")
    data = session_to_json(session)

    assert data == session_to_json(session_from_json(data))
    assert "😀".encode() in data
