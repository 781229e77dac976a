"""The laws of session state, as functions to run on any domain.

Each takes a ``Scenario`` and raises ``LawBrokenError`` if the law does not hold. Equality
is that of bytes, because ``1 == True == 1.0`` and objects compare without order.
"""

from __future__ import annotations

import json

from typing import TYPE_CHECKING, Final

from ipistate.errors import SchemaError
from ipistate.kernel import (
    Environment,
    decode,
    encode,
    freeze,
    identical,
    render,
    thaw,
    trusted_object,
)
from ipistate.sessions import (
    IPICheckpointState,
    Session,
    session_from_json,
    session_to_json,
)
from ipistate.tools import Transition


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ipistate.testing.scenario import Scenario
    from ipistate.tools import ToolCall


class LawBrokenError(AssertionError):
    """A domain does not keep a law; the message says which one and where."""


def _hold(kept: bool, law: str, where: object) -> None:  # noqa: FBT001 - the verdict
    if not kept:
        raise LawBrokenError(f"{law}: {where!r}")


def _texts(transitions: Iterable[Transition]) -> list[tuple[str, bytes]]:
    return [(one.output, one.environment.to_json()) for one in transitions]


def _walk(scenario: Scenario, calls: Iterable[ToolCall]) -> Iterator[Transition]:
    world = scenario.environment
    for call in calls:
        step = scenario.step(world, call)
        world = step.environment
        yield step


def check_round_trip(scenario: Scenario) -> None:
    """Decoding after encoding is the identity, and the text depends on the value only."""
    for step in scenario.run():
        world = step.environment
        text = world.to_json()
        back = Environment.from_json(text)
        law = "decode after encode is the identity"
        _hold(back.to_json() == text, law, text)
        _hold(identical(back.document, world.document), law, text)
        rebuilt = freeze(thaw(world.document))
        _hold(encode(rebuilt) == text, "the text depends on the value only", text)
        shown = json.dumps(thaw(world.document))
        _hold(render(world.document) == shown, "models read json.dumps", shown)
        _hold(identical(decode(shown), rebuilt), "both texts mean the same", shown)


def check_pure(scenario: Scenario) -> None:
    """A call changes neither its world nor its arguments, and repeats itself."""
    world = scenario.environment
    for call in scenario.calls:
        before = world.to_json(), encode(call.arguments)
        first, second = scenario.step(world, call), scenario.step(world, call)
        after = world.to_json(), encode(call.arguments)
        _hold(before == after, "a call does not change its input", call)
        same = _texts([first]) == _texts([second]) and first.error == second.error
        _hold(same, "the same call in the same world does the same", call)
        world = first.environment


def check_replay(scenario: Scenario) -> None:
    """Replaying a log gives the same replies and the same bytes after every call."""
    steps = list(_walk(scenario, scenario.calls))
    copy = Environment.of(thaw(scenario.environment.document))
    # A tool that remembers calls outside of the world may differ only the first time.
    first = (scenario.drawn,) if scenario.drawn else ()
    for again in (*first, scenario.run(), scenario.run(copy)):
        _hold(_texts(steps) == _texts(again), "a replay repeats", scenario.calls)


def check_restore_continues(scenario: Scenario) -> None:
    """A state restored from a checkpoint continues as the original would.

    Checked at every cut point, so that no call depends on anything but the state.
    """
    whole = scenario.run()
    for cut in range(len(scenario.calls) + 1):
        world = whole[cut - 1].environment if cut else scenario.environment
        saved = IPICheckpointState(world).to_json()
        restored = IPICheckpointState.from_json(saved)
        _hold(restored.to_json() == saved, "a state survives storage", saved)
        rest = scenario.run(restored.environment, cut)
        _hold(_texts(whole[cut:]) == _texts(rest), "a restored state goes on", cut)


def check_forks_independent(scenario: Scenario) -> None:
    """Two forks of a world do not see each other, and their parent sees neither."""
    parent = scenario.environment
    before = parent.to_json()
    one, other = scenario.calls, scenario.calls[::-1]
    alone = _texts(_walk(scenario, one)), _texts(_walk(scenario, other))
    left = right = parent
    mixed: tuple[list[Transition], list[Transition]] = ([], [])
    for mine, theirs in zip(one, other, strict=True):
        mixed[0].append(scenario.step(left, mine))
        mixed[1].append(scenario.step(right, theirs))
        left, right = mixed[0][-1].environment, mixed[1][-1].environment
    law = "forks are independent"
    _hold(alone == (_texts(mixed[0]), _texts(mixed[1])), law, scenario.calls)
    _hold(parent.to_json() == before, law, scenario.calls)


def check_failing_call_changes_nothing(scenario: Scenario) -> None:
    """A call that is refused leaves the very same world behind."""
    world = scenario.environment
    for call, step in zip(scenario.calls, scenario.run(), strict=True):
        if step.error is not None:
            kept = step.environment is world
            _hold(kept, "a refused call leaves its input", call)
            shown = f"({step.error.type}): {step.error.message}"
            if call.name not in scenario.tools:
                shown = f"Unknown tool: {call.name}"
            _hold(step.output.endswith(shown), "the reply names the error", call)
        world = step.environment


def check_declared_collections(scenario: Scenario) -> None:
    """A tool changes only what it says it writes and needs only what it says it reads."""
    world = scenario.environment
    for call, step in zip(scenario.calls, scenario.run(), strict=True):
        tool = scenario.tools.get(call.name)
        if tool is not None:
            before, after = world.document, step.environment.document
            names = {*before, *after}
            changed = {n for n in names if before.get(n) is not after.get(n)}
            _hold(changed <= {*tool.writes}, "writes are declared", (call, changed))
            used = {*tool.reads, *tool.writes}
            part = {n: m for n, m in before.items() if n in used}
            alone = scenario.step(Environment(trusted_object(part)), call)
            _hold(alone.output == step.output, "reads are declared", call)
        world = step.environment


def _played(scenario: Scenario, stop: int | None = None) -> Session:
    return _continued(Session(scenario.environment), scenario, stop)


def _continued(session: Session, scenario: Scenario, stop: int | None) -> Session:
    tools = scenario.tools
    for number, call in [*enumerate(scenario.calls)][len(session.log) : stop]:
        # Every other call is made under a key.
        if number % 2:
            session = session.step(call.name, call.arguments, tools=tools)
        else:
            key = f"call {number}"
            session, _ = session.once(key, call.name, call.arguments, tools=tools)
    return session


def check_session_round_trip(scenario: Scenario) -> None:
    """A session survives storage with its log, and goes on from every cut point."""
    whole = session_to_json(_played(scenario))
    for cut in range(len(scenario.calls) + 1):
        saved = session_to_json(_played(scenario, cut))
        try:
            restored = session_from_json(saved, tools=scenario.tools)
        except SchemaError as error:
            raise LawBrokenError(f"a session survives storage: {error}") from error
        _hold(session_to_json(restored) == saved, "a session survives storage", cut)
        rest = session_to_json(_continued(restored, scenario, None))
        _hold(rest == whole, "a restored session goes on", cut)


def check_rewind(scenario: Scenario) -> None:
    """A session without its last calls is the one in which they were never made."""
    session = _played(scenario)
    for count in range(len(session.log) + 1):
        back = session_to_json(session.rewind(len(session.log) - count))
        same = back == session_to_json(_played(scenario, count))
        _hold(same, "a rewound session is the one from before", count)


LAWS: Final[tuple[Callable[[Scenario], None], ...]] = (
    check_declared_collections,
    check_failing_call_changes_nothing,
    check_forks_independent,
    check_pure,
    check_replay,
    check_restore_continues,
    check_rewind,
    check_round_trip,
    check_session_round_trip,
)
"""Every law, for a parametrised test."""
