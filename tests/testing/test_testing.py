"""The test kit itself: what it draws, and that its laws catch what breaks them."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import sys

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pytest

from documents import at
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from ipistate import (
    TOOLS,
    Environment,
    SchemaError,
    Session,
    ToolCall,
    encode,
    freeze,
    replay,
    session_from_json,
)
from ipistate import testing as kit
from ipistate.kernel import (
    MAX_DEPTH,
    JsonArray,
    JsonObject,
    JsonValue,
    depth,
    with_member,
)
from ipistate.scoring.trace_reading import read_trace
from ipistate.sessions.session import Step, execute
from ipistate.testing import LawBrokenError, Scenario
from ipistate.tools import RECORDS, Tool, table_of, tool


SEARCH = settings(
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=2000,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
QUIET = settings(
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=list(HealthCheck),
)
COUNTER = itertools.count()
MEMORY: Any = {}


def forgetful(world: JsonObject) -> tuple[JsonObject, str]:
    """Answer something else each time."""
    return world, f"call {next(COUNTER)}"


def remembering(world: JsonObject, value: int) -> tuple[JsonObject, str]:
    """Keep something outside of the world."""
    seen, MEMORY["last"] = MEMORY.get("last"), value
    return world, f"last time it was {seen}"


def deduplicating(world: JsonObject, value: JsonValue) -> tuple[JsonObject, str]:
    """Answer otherwise if any world has seen the value."""
    known, MEMORY[repr(value)] = repr(value) in MEMORY, True
    return world, f"done before: {known}"


def undeclared_write(world: JsonObject) -> tuple[JsonObject, str]:
    """Write a collection that is not declared."""
    return with_member(world, "secret", 1), "done"


def undeclared_read(world: JsonObject) -> tuple[JsonObject, str]:
    """Read a collection that is not declared."""
    return world, f"{'secret' in world}"


def identity_bound(world: JsonObject) -> tuple[JsonObject, str]:
    """Depend on which object the world is."""
    return world, f"{id(world)}"


def honest(world: JsonObject) -> tuple[JsonObject, str]:
    """Read what is declared."""
    return with_member(world, "log", 1), "done"


WORLDS = [Environment.of({}), Environment.of({"secret": 1, "log": {}})]


def scenario(
    function: Callable[..., tuple[JsonObject, str]],
    *calls: dict[str, int],
    world: int = 0,
    **declared: Any,
) -> Scenario:
    """Make a scenario that calls one tool several times."""
    one = tool(function, **declared)
    made = tuple(ToolCall(one.name, JsonObject(arguments)) for arguments in calls)
    return Scenario(environment=WORLDS[world], calls=made, tools=table_of([one]))


@pytest.mark.parametrize(
    ("law", "broken", "message"),
    [
        (kit.check_pure, scenario(forgetful, {}), "the same call in the same world"),
        (kit.check_replay, scenario(forgetful, {}), "a replay repeats"),
        (
            kit.check_restore_continues,
            scenario(forgetful, {}),
            "a restored state goes on",
        ),
        (kit.check_forks_independent, scenario(forgetful, {}), "forks are independent"),
        (
            kit.check_forks_independent,
            scenario(remembering, {"value": 1}, {"value": 2}),
            "forks are independent",
        ),
        (
            kit.check_restore_continues,
            scenario(remembering, {"value": 1}, {"value": 2}),
            "a restored state goes on",
        ),
        (
            kit.check_declared_collections,
            scenario(undeclared_write, {}),
            "writes are declared",
        ),
        (
            kit.check_declared_collections,
            scenario(undeclared_read, {}, world=1),
            "reads are declared",
        ),
        (kit.check_restore_continues, scenario(identity_bound, {}), "goes on"),
        (
            kit.check_session_round_trip,
            scenario(forgetful, {}),
            "a restored session goes on",
        ),
        (kit.check_rewind, scenario(forgetful, {}), "a rewound session is the one"),
    ],
)
def test_laws_catch_what_breaks_them(
    law: Callable[..., None], broken: Scenario, message: str
) -> None:
    """A tool that breaks a law is named by that law."""
    MEMORY.clear()
    with pytest.raises(LawBrokenError, match=message):
        law(broken)


@pytest.mark.parametrize("law", kit.LAWS, ids=lambda law: law.__name__)
def test_laws_let_honest_tools_pass(law: Callable[..., None]) -> None:
    """A tool that keeps the laws passes, and so does a scenario without calls."""
    law(scenario(honest, {}, {"x": 1}, {}, writes=["log"]))
    law(Scenario(environment=WORLDS[1], calls=()))
    law(Scenario(environment=WORLDS[0], calls=(ToolCall("unknown"),)))


def test_law_about_what_happens_once_only() -> None:
    """Drawing a call is making it for the first time; replays are compared with that."""

    @QUIET
    @given(kit.scenarios({}, table_of([tool(deduplicating)])))
    def replays(scenario: Scenario) -> None:
        kit.check_replay(scenario)

    with pytest.raises((LawBrokenError, Flaky)):
        replays()


def test_law_about_failing_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused call that changes its world, or does not say why, breaks the law."""
    failing = Scenario(environment=WORLDS[0], calls=(ToolCall("get_schedule"),))
    step = failing.run()[0]
    other = Environment.of({"x": 1})
    for changes, message in (
        ({"environment": other}, "a refused call leaves its input"),
        ({"output": "sorry"}, "the reply names the error"),
    ):
        made = attrs.evolve(step, **changes)
        monkeypatch.setattr(Scenario, "run", lambda _, made=made: (made,))
        with pytest.raises(LawBrokenError, match=message):
            kit.check_failing_call_changes_nothing(failing)


def test_law_about_sessions_in_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is lost or cannot be executed again breaks the law."""
    stored = scenario(honest, {}, {}, writes=["log"])

    def lossy(_data: bytes, *, tools: Mapping[str, Tool]) -> Session:
        return Session(WORLDS[0])

    monkeypatch.setattr("ipistate.testing.laws.session_from_json", lossy)
    with pytest.raises(LawBrokenError, match="a session survives storage: 1"):
        kit.check_session_round_trip(stored)

    def foreign(data: bytes, *, tools: Mapping[str, Tool]) -> Session:
        return session_from_json(data)

    monkeypatch.setattr("ipistate.testing.laws.session_from_json", foreign)
    with pytest.raises(LawBrokenError, match="log_not_reproducible"):
        kit.check_session_round_trip(stored)


def test_law_about_round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that loses something breaks the law of round trips."""
    lossy = Scenario(environment=WORLDS[1], calls=(ToolCall("get_inbox"),))
    monkeypatch.setattr("ipistate.testing.laws.render", lambda _: "{}")
    with pytest.raises(LawBrokenError, match="models read"):
        kit.check_round_trip(lossy)


def test_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hypothesis, importing the test kit says what to install."""
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "ipistate.testing")

    with pytest.raises(ModuleNotFoundError, match="pip install hypothesis") as caught:
        importlib.import_module("ipistate.testing")
    assert "hypothesis" == caught.value.name


def test_all_laws_are_listed() -> None:
    """The list of laws holds every public check."""
    checks = [name for name in kit.__all__ if name.startswith("check_")]

    assert sorted(checks) == sorted(law.__name__ for law in kit.LAWS)


class FoundAll(Exception):
    """Every condition has been met."""


def finds(
    strategy: st.SearchStrategy[object], *conditions: Callable[..., Any]
) -> bool | str:
    """Tell whether each condition is met by some of a strategy's values."""
    open_ones = dict(enumerate(conditions))

    @SEARCH
    @given(strategy)
    def look(value: object) -> None:
        for number, condition in [*open_ones.items()]:
            if condition(value):
                del open_ones[number]
        if not open_ones:
            raise FoundAll

    with contextlib.suppress(FoundAll):
        look()
    return not open_ones or f"never met: {[*open_ones]}"


def test_json_values_have_the_corner_cases() -> None:
    """The strategies reach the values that break round trips."""
    text = kit.json_values().map(encode)

    assert True is finds(
        text,
        lambda t: b"\\ud" in t,
        lambda t: b"-0.0" in t,
        lambda t: b"e-07" in t,
        lambda t: b"36893488147419103233" in t,
        lambda t: "\u2028".encode() in t,
        lambda t: b'"__proto__":' in t,
        lambda t: b'"":' in t,
        lambda t: len(t) > 4000,
    )
    assert True is finds(
        kit.json_values().map(depth), lambda n: n > 150, lambda n: n == 0
    )
    assert True is finds(kit.json_values(5, 3).map(depth), lambda n: n == 3)
    assert True is finds(
        kit.json_objects(5, 9).map(depth), lambda n: n == 1, lambda n: n > 7
    )


@given(kit.json_objects(), kit.json_values(5, 7))
def test_depth_of_values(members: JsonObject, value: JsonValue) -> None:
    """No value is deeper than asked for."""
    assert depth(members) <= MAX_DEPTH
    assert depth(freeze([value])) <= MAX_DEPTH


@pytest.mark.parametrize("domain", RECORDS)
def test_worlds_have_everything(domain: str) -> None:
    """Worlds hold each table of their domain, empty and full, and the common parts."""
    names = [*RECORDS[domain], *kit.COMMON]
    worlds = kit.worlds(RECORDS[domain]).map(lambda world: world.document)

    assert True is finds(
        worlds,
        *[lambda w, n=name: n in w for name in names],
        *[lambda w, n=name: w.get(n) for name in RECORDS[domain]],
        lambda w: not w,
        lambda w: len(w) > 3,
    )


def test_damaged_worlds() -> None:
    """Damage reaches collections, rows and members, in worlds of any size."""
    empty = st.just(Environment.of({}))
    row = {"patient_id": "P-1", "name": "Ada", "conditions": ["flu"]}
    full = st.just(Environment.of({"patients": {"P-1": row}}))

    def patient(world: Environment) -> JsonValue:
        patients = world.document["patients"]
        return patients.get("P-1") if isinstance(patients, dict) else None

    def conditions(world: Environment) -> JsonArray | None:
        return (
            at(patient(world), "conditions")
            if isinstance(patient(world), dict)
            else None
        )

    assert True is finds(kit.damaged(empty), lambda w: "patients" in w.document)
    assert True is finds(
        kit.damaged(full),
        lambda w: not isinstance(w.document["patients"], dict),
        lambda w: not isinstance(patient(w), dict),
        lambda w: isinstance(patient(w), dict) and at(patient(w)).get("name") is None,
        lambda w: isinstance(conditions(w), list) and conditions(w) != ["flu"],
    )


def test_calls() -> None:
    """Calls succeed and fail, know the world's ids, and misspell now and then."""
    row = {"patient_id": "P-77", "name": "Ada"}
    world = Environment.of({"patients": {"P-77": row}})
    tools = {name: TOOLS[name] for name in ("get_patient_record", "get_inbox")}
    calls = kit.tool_calls(world, tools)

    def sends(call: ToolCall, value: str | None) -> bool:
        return value in call.arguments.values()

    assert True is finds(
        calls,
        lambda c: sends(c, "P-77"),
        lambda c: sends(c, None),
        lambda c: "env" in c.arguments,
        lambda c: not c.arguments,
        lambda c: c.name not in tools,
        lambda c: c.name == "get_inbox" and c.arguments,
        lambda c: {*c.arguments} - {"patient_id", "env"},
    )


@given(kit.scenarios(RECORDS["legal"]))
def test_scenarios(scenario: Scenario) -> None:
    """A scenario has calls, and running it gives one transition for each."""
    steps = scenario.run()

    assert len(steps) == len(scenario.calls) >= 1
    assert [one.output for one in steps[1:]] == [
        one.output for one in scenario.run(steps[0].environment, 1)
    ]
    assert "tools" not in repr(scenario)


def test_traces() -> None:
    """Traces hold good and broken calls between other items."""
    world = Environment.of({"patients": {}})
    items = kit.output_items(world, {"get_inbox": TOOLS["get_inbox"]})

    def calls(trace: list[dict[str, Any]]) -> list[dict[str, str]]:
        return [item for item in trace if item["type"] == "function_call"]

    def parsed(trace: list[dict[str, Any]]) -> Iterator[Any]:
        for item in calls(trace):
            try:
                yield json.loads(item["arguments"])
            except ValueError:
                yield "broken"

    assert True is finds(
        items,
        lambda trace: {} in parsed(trace),
        lambda trace: "broken" in parsed(trace),
        lambda trace: any(isinstance(one, str) for one in parsed(trace)),
        lambda trace: any(isinstance(one, list) for one in parsed(trace)),
        *[
            lambda trace, kind=kind: any(item["type"] == kind for item in trace)
            for kind in ("message", "reasoning", "function_call_output")
        ],
    )


def test_conversations() -> None:
    """Conversations hold good and broken calls, several in a message, and replies."""
    world = Environment.of({"patients": {}})
    messages = kit.chat_messages(world, {"get_inbox": TOOLS["get_inbox"]})

    def written(trace: list[dict[str, Any]]) -> list[str]:
        return [one.written for one in read_trace(trace).calls]

    assert True is finds(
        messages,
        lambda trace: "{}" in written(trace),
        lambda trace: any(text[-1:] != "}" for text in written(trace)),
        lambda trace: any(len(m.get("tool_calls", ())) > 1 for m in trace),
        lambda trace: any(one.reply for one in read_trace(trace).calls),
        *[
            lambda trace, role=role: any(message["role"] == role for message in trace)
            for role in ("system", "user", "assistant", "tool")
        ],
    )


def test_sequences_of_calls() -> None:
    """A later call may name what an earlier one has made."""
    world = Environment.of({"patients": {"P-7": {}}, "appointments": {}})
    names = ("schedule_appointment", "cancel_appointment")
    calls = kit.call_sequences(world, {name: TOOLS[name] for name in names})

    def cancels(sequence: tuple[ToolCall, ...]) -> bool:
        done = replay(world, sequence)
        return any("has been cancelled" in one.output for one in done)

    assert True is finds(
        calls, cancels, lambda made: len(made) == 1, lambda made: len(made) == 8
    )


def test_machine_catches_calls_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that forgets its keys breaks the machine's rule."""

    def once(
        session: Session,
        key: str,
        name: str,
        arguments: JsonObject,
        *,
        tools: Mapping[str, Tool],
    ) -> tuple[Session, Step]:
        made = execute(session.environment, ToolCall(name, arguments), key, tools=tools)
        return Session(session.seed, (*session.log, made)), made

    monkeypatch.setattr(Session, "once", once)
    case = kit.world_machine(
        {}, table_of([tool(honest, writes=["log"])]), {}
    ).TestCase()
    case.settings = QUIET  # type: ignore[misc]
    with pytest.raises(LawBrokenError, match="twice under one key"):
        case.runTest()


def test_machine_catches_hidden_state() -> None:
    """A tool whose answer lies outside of the world breaks the machine's rule."""

    def grow(world: JsonObject) -> tuple[JsonObject, str]:
        """Write a number from outside."""
        return with_member(world, "log", next(COUNTER)), "done"

    machine = kit.world_machine({}, table_of([tool(grow, writes=["log"])]), {})
    case = machine.TestCase()
    case.settings = QUIET  # type: ignore[misc]
    with pytest.raises(
        (LawBrokenError, Flaky, SchemaError),
        match=r"not what its log gives|Hypothesis|log_not_reproducible",
    ):
        case.runTest()


def test_reports_are_short() -> None:
    """Strategies print shortly, because every report prints them."""
    strategies = [
        kit.json_values(),
        kit.worlds(RECORDS["hr"]),
        kit.scenarios(RECORDS["hr"]),
        kit.json_names(),
    ]

    assert all(len(repr(strategy)) < 500 for strategy in strategies)


def test_misspelt_names() -> None:
    """Misspelt names are near ones, the reserved one and any other."""
    names = kit.misspelt(TOOLS["send_email"])

    assert True is finds(
        names, lambda n: n == "env", lambda n: n == "recipients", lambda n: n == ""
    )
    assert True is finds(kit.misspelt(TOOLS["get_inbox"]), lambda n: n == "xs")


def test_shapes_of_members() -> None:
    """Rows are drawn for every type that a record's field may have."""
    draws = kit.rows(RECORDS["ecommerce"]["orders"])

    assert True is finds(
        draws,
        lambda r: r.get("total") is None and "total" in r,
        lambda r: "total" not in r,
        lambda r: isinstance(r.get("items"), list),
        lambda r: next(iter(r)) != "order_id",
        lambda r: len(r) > 6,
    )
    billing = kit.rows(RECORDS["legal"]["billing_records"])
    assert True is finds(billing, lambda r: r.get("billable") is True)
