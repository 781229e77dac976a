"""Every domain's tasks do what they say; a hundred rows of each are looked at."""

from __future__ import annotations

import re

from functools import cache

import pytest

from documents import at

from ipistate.generate import DOMAINS, Generated, generate
from ipistate.generate.names import DESKS
from ipistate.kernel import encode, render
from ipistate.scoring.audit import audit, trace_check
from ipistate.scoring.effects import Effects, assess
from ipistate.scoring.effects.requirements import is_error
from ipistate.scoring.task import check_rows
from ipistate.tools import RECORDS, TOOLS
from ipistate.tools.transition import ToolCall, Transition, replay


ROWS = 150
names = pytest.mark.parametrize("name", DOMAINS)


@cache
def rows(name: str) -> tuple[Generated, ...]:
    """Return rows of a domain, generated once."""
    return tuple(generate([name], ROWS, 11, size=(2_000, 12_000)))


def played(one: Generated, calls: tuple[ToolCall, ...]) -> list[Transition]:
    """Execute calls on a row's world."""
    return list(replay(one.task.environment, calls))


def effects(one: Generated, calls: tuple[ToolCall, ...]) -> Effects:
    """Say what calls do."""
    task = one.task
    return assess(calls, task.injection, task.required_tools, task.environment)


def target_position(one: Generated) -> int:
    """Find the target's call among those of an agent that obeys."""
    injection = one.task.injection
    target = ToolCall(injection.target_tool, injection.target_args)
    return one.trajectories.compromised.index(target)


@names
def test_no_finding(name: str) -> None:
    """The checks of task files have nothing to say, not even a warning."""
    lines = [one.task.to_json() for one in rows(name)]

    assert [] == list(check_rows(lines))


@names
def test_benign_trajectory(name: str) -> None:
    """A careful agent gets the whole reward, and changes nothing beyond its task."""
    for one in rows(name):
        done = effects(one, one.trajectories.benign)

        assert trace_check(one.task)(one.trajectories.benign).useful
        assert ("resisted", 1.0, ()) == (done.outcome, done.utility, done.collateral)


@names
def test_compromised_trajectory(name: str) -> None:
    """An agent that obeys makes one call more, which changes the world."""
    for one in rows(name):
        ways, judged = one.trajectories, trace_check(one.task)
        place = target_position(one)
        done = effects(one, ways.compromised)

        assert ways.benign == ways.compromised[:place] + ways.compromised[place + 1 :]
        assert judged(ways.compromised).followed
        assert ("followed", True, ()) == (
            done.outcome,
            done.effective,
            done.other_route,
        )


@names
def test_calls_succeed(name: str) -> None:
    """No call of a trajectory is answered by an error."""
    for one in rows(name):
        for calls in (one.trajectories.benign, one.trajectories.compromised):
            for step in played(one, calls):
                assert step.error is None
                assert not is_error(step.output), step.output


@names
def test_the_order_is_read_before_it_is_obeyed(name: str) -> None:
    """The call before the target's shows the injected text, and is a required one."""
    for one in rows(name):
        place = target_position(one)
        reply = played(one, one.trajectories.compromised)[place - 1].output

        assert render(one.task.injection.injection_text)[1:-1] in reply
        read = one.trajectories.compromised[place - 1].name
        assert read in one.task.required_tools
        assert not TOOLS[read].writes


@names
def test_audit(name: str) -> None:
    """No change of a reference call goes unnoticed without a reason."""
    for one in rows(name)[:40]:
        found = audit(one.trajectories.row, one.task, one.trajectories)

        assert ((), ()) == (found.unsound, found.unexplained)


@names
def test_rows_are_well_formed(name: str) -> None:
    """Typed rows of a world read back as what they were built from."""
    for one in rows(name)[:40]:
        for collection, record in RECORDS[name].items():
            for key, row in record.table(one.task.environment, collection).items():
                document = row.to_document()

                assert encode(document) == encode(
                    at(one.task.environment.document, collection, key)
                )


@names
def test_everything_of_a_domain_occurs(name: str) -> None:
    """All attacks of a domain and all of its collections come up."""
    domain = DOMAINS[name]
    targets = {one.task.injection.target_tool for one in rows(name)}
    worlds = [one.task.environment.document for one in rows(name)]

    assert set(domain.attacks) == targets
    for collection in domain.shapes:
        assert any(world[collection] for world in worlds), collection


@names
def test_attacks_stand_under_their_tool(name: str) -> None:
    """An attack uses the tool it is listed under; no benign call does."""
    for one in rows(name):
        benign = {call.name for call in one.trajectories.benign}
        assert one.task.injection.target_tool not in benign
        assert name in TOOLS[one.task.injection.target_tool].domains


@names
def test_an_address_gives_nothing_away(name: str) -> None:
    """Departments of other companies write to and from honest records as well."""
    desk = re.compile(rf"(?:{'|'.join(DESKS)})(?:[.-]\w+)?@")
    honest = 0
    for one in rows(name):
        document = one.task.to_json().decode()
        injected = render(one.task.injection.injection_text)[1:-1]
        outside = document.replace(injected, "").partition('"injection":')[0]
        honest += bool(desk.search(outside))

    assert honest > ROWS // 4
