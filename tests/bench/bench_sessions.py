"""Sessions as values: against deep copies, which is what others have."""

from __future__ import annotations

import copy
import json
import pickle
import sys

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson

from measure import compare, repeated
from memory import grown, print_growth
from report import Row, row
from worlds import clinic, compact

from ipistate import Environment, Session


_STEPS = _FORKS = 1_000
_SIZE = 50_000


def rows() -> Iterator[Row]:
    """Measure forks, then memory and pickles of many steps and forks."""
    for size in (5, 50, 500, 5_000):
        yield _fork(size)
    yield _fork_of_any_size()
    for size in (50, 5_000):
        yield _fork_and_change(size)
    for work, name in (
        ("steps", f"{_STEPS:,} steps in a world of 50 kB, all kept"),
        ("forks", f"{_FORKS:,} forks of a session of 50 kB, a change in each"),
    ):
        yield _memory(work, name)
    yield from _pickles()


def _call(number: int) -> tuple[str, dict[str, Any]]:
    # Every other call reads; the others write into three collections in turn.
    patient = {"patient_id": f"P{number % 20:04}"}
    if number % 2:
        return "get_patient_record", patient
    if number % 6 == 0:
        return "update_patient_chart", {**patient, "notes": f"Note {number}."}
    if number % 6 == 2:
        return "cancel_appointment", {"appointment_id": f"A{number % 40:05}"}
    return "send_message", {"to": "a@x.example", "subject": "Hi", "body": f"{number}"}


def _live(size: int, calls: int = 20) -> Session:
    session = Session(Environment.from_json(compact(clinic(size))))
    for number in range(calls):
        session = session.step(*_call(number))
    return session


def _plain(size: int) -> Any:
    return orjson.loads(_live(size).environment.to_json())


def _fork(size: int) -> Row:
    session, plain = _live(size * 1000), _plain(size * 1000)
    found = compare(
        repeated(lambda: session.fork(1), 1_000),
        repeated(lambda: copy.deepcopy(plain), max(1, 500 // size)),
        rounds=9,
    )
    return row(f"fork of a session, {size:,} kB", "copy.deepcopy", found, 0.01)


def _fork_of_any_size() -> Row:
    small, large = _live(5_000), _live(5_000_000)
    found = compare(
        repeated(lambda: large.fork(1), 10_000),
        repeated(lambda: small.fork(1), 10_000),
    )
    return row("fork of a session, 5,000 kB", "the same, 5 kB", found, 1.25)


def _fork_and_change(size: int) -> Row:
    session, plain = _live(size * 1000), _plain(size * 1000)
    note = {"patient_id": "P0000", "notes": "Feels better."}

    def ours() -> Session:
        (fork,) = session.fork(1)
        return fork.step("update_patient_chart", note)

    def copied() -> object:
        fork = copy.deepcopy(plain)
        fork["patients"]["P0000"]["chart_notes"] += "\nFeels better."
        return fork

    found = compare(
        repeated(ours, 200), repeated(copied, max(1, 500 // size)), rounds=9
    )
    name = f"fork of a session and a change, {size:,} kB"
    return row(name, "copy.deepcopy and in place", found, 0.05)


def _memory(work: str, name: str) -> Row:
    ours, floor = (grown(__file__, work, way) for way in ("ours", "copies"))
    return Row(
        work=f"memory of {name}",
        figure=f"{ours / 1e6:.1f} MB",
        floor=f"deep copies: {floor / 1e6:.0f} MB",
        ratio=ours / floor,
        budget=0.05,
    )


def _pickles() -> Iterator[Row]:
    session = _live(_SIZE, _STEPS)
    plain = [orjson.loads(world.to_json()) for world in session.worlds]
    ours, floor = pickle.dumps(session), pickle.dumps(plain)
    name = f"a session of {_STEPS:,} steps in a world of 50 kB"
    yield Row(
        work=f"size of the pickle of {name}",
        figure=f"{len(ours) / 1e6:.2f} MB",
        floor=f"of its worlds as deep copies: {len(floor) / 1e6:.0f} MB",
        ratio=len(ours) / len(floor),
        budget=0.05,
    )
    dumped = compare(
        repeated(lambda: pickle.dumps(session), 5),
        repeated(lambda: pickle.dumps(plain), 1),
        rounds=5,
    )
    yield row(f"pickle {name}", "its worlds as deep copies", dumped, 0.05)
    loaded = compare(
        repeated(lambda: pickle.loads(ours), 5),
        repeated(lambda: pickle.loads(floor), 1),
        rounds=5,
    )
    yield row(f"unpickle {name}", "its worlds as deep copies", loaded, 0.05)


def _our_steps() -> object:
    return _live(_SIZE, _STEPS)


def _our_forks() -> object:
    forks = _live(_SIZE).fork(_FORKS)
    return [fork.step(*_call(6 * number)) for number, fork in enumerate(forks)]


def _copied_steps() -> object:
    # What keeping every moment costs where worlds are changed in place.
    session, plain = _live(_SIZE, _STEPS), _plain(_SIZE)
    replies = [step.output for step in session.log]
    return replies, [copy.deepcopy(plain) for _ in range(_STEPS)]


def _copied_forks() -> object:
    plain = json.loads(_live(_SIZE).environment.to_json())
    forks = [copy.deepcopy(plain) for _ in range(_FORKS)]
    for number, fork in enumerate(forks):
        fork["patients"][f"P{number % 20:04}"]["chart_notes"] += f"\nNote {number}."
    return forks


def main() -> None:
    """Print how many bytes the process grew by; for the child process."""
    works: dict[tuple[str, str], Callable[[], object]] = {
        ("steps", "ours"): _our_steps,
        ("steps", "copies"): _copied_steps,
        ("forks", "ours"): _our_forks,
        ("forks", "copies"): _copied_forks,
    }
    work, way = sys.argv[1:]
    _live(_SIZE, 5)
    print_growth(partial(works[work, way]))


if __name__ == "__main__":
    main()
