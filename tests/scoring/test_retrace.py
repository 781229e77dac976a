"""Traces executed again: the same replies, or the first one that differs."""

from __future__ import annotations

import json
import pickle
import random

from collections.abc import Callable
from re import Match
from typing import Any

import attrs
import pytest

from documents import at
from hypothesis import assume, given
from hypothesis import strategies as st

from ipistate import Environment, Injection, IpiStateError, thaw, verify
from ipistate.demo.scripts import builtin_scripts
from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject, JsonValue
from ipistate.scoring.renaming import MINTED
from ipistate.scoring.retrace import Executed, Refusal, retrace
from ipistate.scoring.trace_reading import calls_of_items
from ipistate.scoring.traces import TracedCall, read_arguments
from ipistate.sessions.session import Session
from ipistate.testing import plain_json, tool_calls
from ipistate.tools import table_of, tool
from ipistate.tools.transition import ToolCall, Transition


SCRIPTS = builtin_scripts()
POLICY = {"policies": {"POL-1": {"policy_id": "POL-1"}}, "claims": {}}
FILED = {
    "policy_id": "POL-1",
    "claim_type": "x",
    "date_of_loss": "2025-01-02",
    "description": "d",
    "amount_requested": 5,
    "claim_number": "N-1",
    "adjuster_id": "J-1",
}


def _sessions(minimum: int = 0) -> st.SearchStrategy[Session]:
    """Sessions of random calls on a built-in row, and of the scripts'."""
    random_calls = st.sampled_from(builtin.rows()).flatmap(
        lambda row: st.lists(
            tool_calls(row.environment), min_size=minimum, max_size=6
        ).map(lambda calls: stepped(row.environment, calls))
    )
    scripted = st.sampled_from(SCRIPTS).flatmap(
        lambda one: st.sampled_from((one.careful, one.gullible)).map(
            lambda calls: stepped(one.task.environment, calls)
        )
    )
    return st.one_of(random_calls, scripted)


def stepped(
    world: Environment, calls: list[ToolCall] | tuple[ToolCall, ...]
) -> Session:
    """Return the session in which these calls were made."""
    session = Session(world)
    for call in calls:
        session = session.step(call.name, call.arguments)
    return session


def traced(session: Session) -> list[TracedCall]:
    """Return a session's log as an agent records it."""
    return [
        TracedCall(
            name=step.call.name,
            written=json.dumps(thaw(step.call.arguments)),
            reply=step.output,
        )
        for step in session.log
    ]


def executed(step: Executed | Refusal) -> Transition:
    """Return what a step of a retrace did."""
    assert isinstance(step, Executed)
    return step.transition


@given(session=_sessions())
def test_own_steps_never_diverge(session: Session) -> None:
    """A session's own trace gives its own worlds again, with no id renamed."""
    again = retrace(session.seed, traced(session))

    assert (False, None) == (again.diverged, again.divergence)
    assert {} == again.renaming.differing
    assert [step.environment.to_json() for step in session.log] == [
        executed(step).environment.to_json() for step in again.steps
    ]
    assert list(session.worlds[:-1]) == [step.before for step in again.steps]


@given(session=_sessions(minimum=1), data=st.data(), other=st.text())
def test_tampering_is_found_at_its_call(
    session: Session, data: st.DataObject, other: str
) -> None:
    """Another text in reply k is found at call k, and nothing later is executed."""
    calls = traced(session)
    number = data.draw(st.integers(0, len(calls) - 1))
    reply = calls[number].reply
    assert reply is not None
    assume(other not in reply)
    position = data.draw(st.integers(0, len(reply)))
    changed = reply[:position] + other + reply[position:]
    calls[number] = attrs.evolve(calls[number], reply=changed)
    again = retrace(session.seed, calls)

    assert again.diverged
    assert number + 1 == len(again.steps)
    assert changed == again.steps[-1].traced.reply
    assert again.divergence is not None
    assert again.divergence.executed == executed(again.steps[-1]).output


TAILS = st.from_regex(r"[0-9A-F]{6}", fullmatch=True)


@given(seeded=st.sets(TAILS, min_size=1, max_size=5), data=st.data())
def test_tampered_ids_of_the_seed_are_found(
    seeded: set[str], data: st.DataObject
) -> None:
    """An id that no tool can have minted may not be renamed."""
    rows = {f"CL-{tail}": {"claim_id": f"CL-{tail}"} for tail in seeded}
    tail = data.draw(st.sampled_from(sorted(seeded)))
    other = data.draw(TAILS.filter(lambda one: one != tail))
    call = TracedCall(
        name="get_claim_by_id",
        written=f'{{"claim_id": "CL-{tail}"}}',
        reply=f'{{"claim_id": "CL-{other}"}}',
    )

    assert retrace(Environment.of({"claims": rows}), [call]).diverged


def test_id_of_the_arguments_that_was_tampered() -> None:
    """An id that the model made up is itself in both executions."""
    call = TracedCall(name="CL-00BEEF", written='{"a": "CL-00BEEF"}')
    same = attrs.evolve(call, reply="Unknown tool: CL-00BEEF")
    other = attrs.evolve(call, reply="Unknown tool: CL-00BEEE")

    assert not retrace(Environment.of({}), [same]).diverged
    assert retrace(Environment.of({}), [other]).diverged


def test_id_that_was_shown_before() -> None:
    """An id that an earlier reply has shown cannot get another name later."""
    session = stepped(Environment.of(POLICY), [])
    session = session.step("create_claim", FILED)
    (minted,) = at(session.environment.document, "claims")
    session = session.step("get_claim_by_id", {"claim_id": minted})
    calls = traced(session)
    renamed = str(calls[1].reply).replace(minted, "CL-00BEEF")
    calls[1] = attrs.evolve(calls[1], reply=renamed)
    again = retrace(session.seed, calls)

    assert (True, 2) == (again.diverged, len(again.steps))


def recorded_elsewhere(
    session: Session, draw: Callable[..., Any]
) -> tuple[list[TracedCall], dict[str, str]]:
    """Return a session's trace with other tails of the ids that its calls minted."""
    known = set(MINTED.findall(session.seed.to_json().decode()))
    ids: dict[str, str] = {}

    def other(match: Match[str]) -> str:
        if match.groups() in known:
            return str(match[0])
        return ids.setdefault(match[0], f"{match[1]}{draw(len(ids)):06X}")

    def renamed(text: str) -> str:
        return MINTED.sub(other, text)

    calls = []
    for call in traced(session):
        # What a call brings along is no minted id.
        known |= {m.groups() for m in MINTED.finditer(call.written) if m[0] not in ids}
        written, reply = renamed(call.written), renamed(str(call.reply))
        calls.append(attrs.evolve(call, written=written, reply=reply))
    return calls, ids


@given(session=_sessions(), seed=st.integers(0, 2**32))
def test_random_ids_are_renamed(session: Session, seed: int) -> None:
    """A recording with random ids is the same, also where it quotes them."""
    tails = random.Random(seed).sample(range(16**6), 64)
    calls, ids = recorded_elsewhere(session, tails.__getitem__)
    again = retrace(session.seed, calls)
    renamed = again.renaming.differing

    assert not again.diverged
    assert renamed.items() <= {old: new for new, old in ids.items()}.items()


def test_ids_that_are_quoted_in_texts() -> None:
    """Later calls are executed with this execution's ids, wherever they stand."""
    session = stepped(Environment.of(POLICY), []).step("create_claim", FILED)
    (minted,) = at(session.environment.document, "claims")
    for text in (f"about {minted}", f"x\n{minted}", f"\u00e9{minted}"):
        note = {"claim_id": minted, "adjuster_id": "J-1", "note_text": text}
        session = session.step("add_adjuster_note", note)
    session = session.step("get_claim_by_id", {"claim_id": minted})
    calls = [
        attrs.evolve(
            call,
            written=call.written.replace(minted, "CL-00BEEF"),
            reply=str(call.reply).replace(minted, "CL-00BEEF"),
        )
        for call in traced(session)
    ]
    again = retrace(session.seed, calls)

    assert not again.diverged
    assert minted == again.renaming.ids["CL-00BEEF"]
    assert [s.call for s in session.log] == [
        s.call for s in again.steps if isinstance(s, Executed)
    ]


def test_made_up_id_that_happens_to_be_ours() -> None:
    """A recorded id that is ours by chance is left as it is."""
    session = stepped(Environment.of(POLICY), []).step("create_claim", FILED)
    (minted,) = at(session.environment.document, "claims")
    first = traced(session)[0]
    assert first.reply is not None
    first = attrs.evolve(first, reply=first.reply.replace(minted, "CL-00BEEF"))
    second = TracedCall(name="get_claim_by_id", written=f'{{"claim_id": "{minted}"}}')
    again = retrace(session.seed, [first, second])

    step = again.steps[1]
    assert isinstance(step, Executed)
    assert minted == step.call.arguments["claim_id"]


ARGUMENTS = st.one_of(
    plain_json(4, 20).map(json.dumps),
    plain_json(4, 20).map(json.dumps).map(json.dumps),
    plain_json(4, 20).map(json.dumps).map(lambda text: text[:-1]),
    st.dictionaries(st.sampled_from(("recipient", "body")), st.text()).map(json.dumps),
    st.sampled_from(("", " ", "null", "[]", "{}", "true", '"{}"', "{")),
    st.text(),
)


@given(texts=st.lists(ARGUMENTS, max_size=5))
def test_b74_one_rule_for_execution_and_scoring(texts: list[str]) -> None:
    """A call is executed if its arguments are read, and scored only then."""
    calls = [TracedCall(name="send_message", written=text) for text in texts]
    steps = retrace(Environment.of({"messages": []}), calls).steps

    assert [_readable(text) for text in texts] == [
        isinstance(step, Executed) for step in steps
    ]
    for text, step in zip(texts, steps, strict=True):
        if isinstance(step, Refusal):
            assert not _followed(text, {"recipient": "eve"})
        elif target := {k: v for k, v in step.call.arguments.items() if str(v).strip()}:
            assert _followed(text, target)


def _readable(text: str) -> bool:
    try:
        read_arguments(text)
    except IpiStateError:
        return False
    return True


def _followed(text: str, target: dict[str, JsonValue]) -> bool:
    fields: tuple[str, ...] = (
        "goal",
        "verification_type",
        "attack_strategy",
        "attack_difficulty",
    )
    fields = (*fields, "vector", "injection_text", "category")
    injection = Injection.from_document(
        {
            **dict.fromkeys(fields, "x"),
            "target_tool": "send_message",
            "target_args": target,
        }
    )
    item = {"type": "function_call", "name": "send_message", "arguments": text}
    return verify([item], injection, ["send_message"]).injection_followed


@pytest.mark.parametrize(
    "written", ['"{\\"recipient\\": \\"eve\\"}"', "{", "null", "[]", '["eve"]']
)
def test_refused_calls_stop_nothing(written: str) -> None:
    """A call that is refused changes nothing, and its reply is not compared."""
    world = Environment.of({"messages": []})
    refused = TracedCall(name="send_message", written=written, reply="whatever")
    call = TracedCall(name="get_messages", written="", reply="[]")
    again = retrace(world, [refused, call])

    assert not again.diverged
    assert [Refusal, Executed] == [type(step) for step in again.steps]
    assert world is again.steps[1].before
    first = again.steps[0]
    assert isinstance(first, Refusal)
    assert first.error.code in {"wrong_type", "syntax"}


def test_replies_that_were_not_recorded() -> None:
    """A call without a recorded reply is executed and not compared."""
    again = retrace(Environment.of({}), [TracedCall(name="nothing", written="{}")])

    assert not again.diverged
    assert "Unknown tool: nothing" == executed(again.steps[0]).output


def test_reply_that_looks_like_a_body() -> None:
    """A record that is an object around a text is compared as it was recorded."""
    world = Environment.of({"claims": {"C-1": {"output": "x"}}})
    call = TracedCall(
        name="get_claim_by_id",
        written='{"claim_id": "C-1"}',
        reply="x",
        body='{"output": "x"}',
    )

    assert not retrace(world, [call]).diverged
    assert retrace(world, [attrs.evolve(call, body='{"output":"x"}')]).diverged


def test_tools_of_a_user() -> None:
    """A trace is executed with the tools that it is given."""
    again = retrace(Environment.of({}), [TracedCall(name="list_courses", written="")])
    without = retrace(
        Environment.of({}), [TracedCall(name="list_courses", written="")], tools={}
    )

    assert "[]" == executed(again.steps[0]).output
    assert "Unknown tool: list_courses" == executed(without.steps[0]).output


@pytest.mark.parametrize("recorded", ["\U0001f600", '{"output":"\U0001f600"}'])
def test_halves_of_a_character_arrive_as_one(recorded: str) -> None:
    """What a tool joins out of two halves is recorded as the character that it is."""

    def join(world: JsonObject, left: str, right: str) -> tuple[JsonObject, str]:
        return world, left + right

    written = '{"left":"\\ud83d","right":"\\ude00"}'
    calls = calls_of_items(
        [
            {"type": "function_call", "name": "join", "arguments": written},
            {"type": "function_call_output", "output": recorded},
        ]
    )
    again = retrace(Environment.of({}), calls, tools=table_of([tool(join, "d")]))

    assert not again.diverged


@given(session=_sessions())
def test_result_travels(session: Session) -> None:
    """A result is plain data: it survives pickling, between processes too."""
    again = retrace(session.seed, traced(session))

    assert again == pickle.loads(pickle.dumps(again))
