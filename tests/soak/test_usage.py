"""Growth of memory and descriptors is seen, and an even course is none."""

from __future__ import annotations

import os

from collections.abc import Iterable

import pytest

from usage import Sample, Usage


MB = 10**6


def used(
    memory: Iterable[int], descriptors: int = 30, *, by_life: bool = True
) -> Usage:
    """Return samples of servers that came one after the other, or of one server."""
    taken = [
        Sample(
            seconds=float(number),
            life=number if by_life else 1,
            round=0 if by_life else number,
            sessions=10,
            replies=number,
            memory=size,
            descriptors=30 if number == 0 else descriptors,
        )
        for number, size in enumerate(memory)
    ]
    return Usage(taken)


def test_an_even_course_is_no_growth() -> None:
    """Memory may be larger at first, and too few samples say nothing."""
    assert used([900 * MB, *[400 * MB] * 8]).memory()["ok"]
    assert used([100 * MB, 900 * MB]).memory()["ok"]
    assert used([]).memory()["ok"]
    assert used([]).descriptors()["ok"]


@pytest.mark.parametrize(
    ("by_life", "course"), [(True, "between servers"), (False, "within a server")]
)
def test_growing_memory_is_seen(by_life: bool, course: str) -> None:
    """The last third is compared with the third before it, of servers and of one."""
    found = used([400 * MB] * 6 + [600 * MB] * 3, by_life=by_life).memory()

    assert (False, {course: 1.5}, 600.0) == (
        found["ok"],
        found["growth"],
        found["most_mb"],
    )


def test_open_descriptors_are_seen() -> None:
    """Clients are always as many, so descriptors are."""
    assert used([MB] * 3, descriptors=31).descriptors()["ok"]
    assert not used([MB] * 3, descriptors=39).descriptors()["ok"]


def test_a_process_is_measured() -> None:
    """This process has memory and descriptors."""
    usage = used([])
    usage.take(os.getpid(), life=1, number=0, sessions=2, replies=3)

    assert usage.samples[0].memory > MB
    assert usage.samples[0].descriptors >= 3
