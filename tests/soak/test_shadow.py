"""The shadow sees every way in which a checkpoint can differ, and settles doubts."""

from __future__ import annotations

import asyncio

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from documents import at
from durability import lines_of
from shadow import Cut, Shadow, ShadowSession, Unanswered
from traffic import Part, message

from ipistate import Environment, JsonObject, ToolCall, call_tool, decode
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import SessionRecord


Records = list[SessionRecord]


def records_of(cut: Cut) -> Records:
    """Return the records that a faultless server writes."""
    return [
        SessionRecord(one.episode, one.session_id or "fresh", cut.worlds[name])
        for name, one in cut.sessions.items()
    ]


def settled(cut: Cut, records: Records) -> tuple[Cut, list[str]]:
    """Compare a cut with a checkpoint of these records."""
    return asyncio.run(cut.settled(lines_of(records)))


def changed(world: object) -> Environment:
    """Return a world in which one more message stands."""
    assert isinstance(world, Environment)
    return call_tool(world, "send_message", {"recipient": "A", "body": "B"}).environment


def other(**members: Any) -> Callable[[Records], Records]:
    """Spoil the second record."""
    return lambda records: [
        records[0],
        attrs.evolve(records[1], **members),
        *records[2:],
    ]


SPOILED: dict[str, Callable[[Records], Records]] = {
    "another world": lambda records: [
        *records[:2],
        attrs.evolve(records[2], state=changed(records[2].state)),
    ],
    "another order of members": lambda records: [
        *records[:2],
        attrs.evolve(records[2], state=turned(records[2].state)),
    ],
    "a world of another session": lambda records: other(state=records[0].state)(
        records
    ),
    "another attempt": other(episode_id=EpisodeId("r1", 3)),
    "another session": other(session_id="s7"),
    "lost": lambda records: records[1:],
    "twice": lambda records: [*records, records[0]],
    "one more": lambda records: [
        *records,
        attrs.evolve(records[0], episode_id=EpisodeId("r9")),
    ],
}


def turned(world: object) -> Environment:
    """Return a world whose collections stand the other way round."""
    assert isinstance(world, Environment)
    return Environment.of(dict(reversed(world.document.items())))


def test_a_faultless_checkpoint_does_not_differ(shadow: Shadow) -> None:
    """Equal bytes, in any order of the records."""
    cut = shadow.cut()
    found, differences = settled(cut, records_of(cut)[::-1])

    assert (cut, []) == (found, differences)


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_each_difference_is_told(
    shadow: Shadow, spoil: Callable[[Records], Records]
) -> None:
    """One session that is not byte for byte what it should be is one difference."""
    cut = shadow.cut()

    assert 1 == len(settled(cut, spoil(records_of(cut)))[1])


@pytest.mark.parametrize("has_happened", [False, True])
@pytest.mark.parametrize("kind", ["call", "seed", "verify", "new"])
def test_a_request_without_its_answer_has_happened_or_not(
    shadow: Shadow, drawn: tuple[Part, ...], kind: str, has_happened: bool
) -> None:
    """The checkpoint decides, whatever the request was; the shadow goes on from there."""
    part, known = drawn[0], shadow.sessions["r0"]
    new = ShadowSession(episode=EpisodeId("r5"), part=part)
    session, sent = {
        "call": (known, message(7)),
        "seed": (known, part.seed),
        "verify": (known, part.verdicts[0]),
        "new": (new, part.seed),
    }[kind]
    before = shadow.cut()
    shadow.unanswered[session.episode.rollout_id] = Unanswered(session, sent)
    in_doubt = shadow.cut()
    asyncio.run(shadow.answer(session, sent))
    after = attrs.evolve(shadow.cut(), unanswered={})
    held = after if has_happened else before
    found, differences = settled(in_doubt, records_of(held))

    assert ([], {}) == (differences, found.unanswered)
    assert records_of(held) == records_of(found)
    assert after.worlds != before.worlds


def test_a_doubt_is_no_licence(shadow: Shadow) -> None:
    """A world that is neither before nor after the request differs."""
    session = shadow.sessions["r2"]
    shadow.unanswered["r2"] = Unanswered(session, session.part.seed)
    cut = shadow.cut()

    assert 1 == len(settled(cut, SPOILED["another world"](records_of(cut)))[1])


def test_going_back_forgets_what_came_after(shadow: Shadow) -> None:
    """The sessions of the cut are there, as their next attempts, with its worlds."""
    cut = shadow.cut()
    session = shadow.sessions["r1"]
    asyncio.run(shadow.answer(session, session.part.verdicts[0]))
    shadow.go_back(cut)

    assert cut.worlds == shadow.local.worlds
    assert {"r0": 3, "r1": 3, "r2": 3} == {
        name: one.episode.attempt for name, one in shadow.sessions.items()
    }


def test_requests_change_worlds_and_are_refused(drawn: tuple[Part, ...]) -> None:
    """In every row there are calls that change its world, read it, and are errors."""
    for part in drawn:
        made = [
            call_tool(part.world, call.name, call.arguments)
            for call in (
                ToolCall(one.route, JsonObject(at(decode(one.body))))
                for one in part.calls
            )
        ]
        assert any(one.environment != part.world for one in made)
        assert any(one.error is not None for one in made)
        assert any(one.error is None and one.environment is part.world for one in made)
