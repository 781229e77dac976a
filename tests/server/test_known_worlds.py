"""Worlds read before: one for equal texts, in bounded space, never in a wrong place."""

from __future__ import annotations

from typing import Any

import pytest

from hypothesis import example, given
from hypothesis import strategies as st

from ipistate import DecodeError, Environment, SchemaError
from ipistate.server.live.known_worlds import KnownWorlds
from ipistate.server.live.recent import Recent
from ipistate.server.live.seeds import read_seed


def row(environment: str, **members: int) -> bytes:
    """Return a seed request with this environment's text."""
    extra = "".join(f', "{name}": {value}' for name, value in members.items())
    return f'{{"environment": {environment}{extra}}}'.encode()


def worlds_of(*bodies: bytes) -> list[Environment]:
    """Seed from these bodies, one after the other, and return the worlds."""
    known = KnownWorlds(10_000)
    return [read_seed(body, known).world for body in bodies]


def test_rollouts_of_one_task_share_their_world() -> None:
    """Requests that differ elsewhere have one world in memory."""
    texts = ['{"a":[1]}', '{"a": [1]}', '{"a":[1] }', '{"\\u0061":[1]}'] * 3
    worlds = worlds_of(*(row(text, n=n) for n, text in enumerate(texts)))

    assert {id(worlds[0])} == set(map(id, worlds))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": 0.0}', '{"a": -0.0}'),
        ('{"a": 18446744073709551616}', '{"a": 18446744073709551616.0}'),
        ('{"environment": {}}', "{}"),
    ],
)
def test_b02_different_texts_are_different_worlds(left: str, right: str) -> None:
    """Equal for Python, but not for a model that reads them."""
    first, second = worlds_of(row(left), row(right))

    assert first.to_json() != second.to_json()


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", row("[]")])
def test_what_is_no_seed_is_not_kept(body: bytes) -> None:
    """It is refused every time."""
    known = KnownWorlds(10_000)
    for _ in range(2):
        with pytest.raises((DecodeError, SchemaError)):
            read_seed(body, known)


def test_a_pool_of_size_zero_still_reads() -> None:
    """Pooling can be switched off."""
    known = KnownWorlds(0)
    body = row('{"a": 1}')

    assert b'{"a":1}' == read_seed(body, known).world.to_json()
    first, second = (read_seed(body, known).world for _ in range(2))
    assert first is not second


def outcome(body: bytes, known: KnownWorlds) -> object:
    """Return what reading a body gives, or the error as it would be answered."""
    try:
        seed = read_seed(body, known)
    except (DecodeError, SchemaError) as error:
        return error.code, str(error), error.path
    return seed.native, seed.world.to_json()


WORLD = '{"a":[1,{"environment":{}}],"é":"x","f":1e3}'
SPELLINGS = (WORLD, WORLD.replace(",", ", "), WORLD.replace("é", "\\u00e9"), "{}")
PARTS = (
    '"environment":%s',
    '"environment" : %s',
    '"\\u0065nvironment":%s',
    '"other":{"environment":%s}',
    '"other":"\\"environment\\":%s"',
    '"task_data":{"environment":%s}',
    '"task_data":{"x":{"environment":%s}}',
    '"resources_session_id":"s"',
    '"task_id":{"environment":%s}',
    '"episode_id":{"rollout_id":"r","attempt":1}',
    '"n":1e999',
    '"n":123456789012345678901234567890',
    "broken",
)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(PARTS), min_size=1, max_size=5),
            st.sampled_from(SPELLINGS),
        ),
        min_size=1,
        max_size=6,
    )
)
@example([([PARTS[3], '"environment":null'], WORLD)])
def test_what_is_known_changes_no_answer(
    bodies: list[tuple[list[str], str]],
) -> None:
    """Wherever a known text stands in a body, it is read as without any memory."""
    known = KnownWorlds(10_000)
    read_seed(row(WORLD), known)
    for parts, spelling in bodies:
        members = [part.replace("%s", spelling) for part in parts]
        body = ("{" + ",".join(members) + "}").encode()

        assert outcome(body, KnownWorlds(0)) == outcome(body, known)


def test_worlds_that_begin_alike_are_told_apart() -> None:
    """A common opening is no common world, however many there are."""
    texts = [f'{{"a":"{"x" * 300}","b":{n}}}' for n in range(40)]

    assert texts == [w.to_json().decode() for w in worlds_of(*map(row, texts * 2))[:40]]
    assert 40 <= len({id(world) for world in worlds_of(*map(row, texts * 2))}) <= 80


@given(st.lists(st.binary(min_size=1, max_size=12)), st.integers(1, 40))
def test_recent_values_stay_below_the_limit(keys: list[bytes], limit: int) -> None:
    """The kept keys are the last distinct ones that fit together."""
    recent: Recent[Any] = Recent(limit)
    for key in keys:
        recent.put(key, len(key))
    expected, size = [], 0
    for key in dict.fromkeys(reversed([k for k in keys if len(k) <= limit])):
        size += len(key)
        if size > limit:
            break
        expected.append(key)

    assert expected == [key for key in dict.fromkeys(reversed(keys)) if key in recent]
    assert len(expected) == len(recent)


def test_a_value_that_is_used_stays() -> None:
    """What was looked at last is forgotten last."""
    recent: Recent[Any] = Recent(2)
    recent.put(b"a", 1)
    recent.put(b"b", 2)
    recent.get(b"a")
    recent.put(b"c", 3)

    assert (1, None, 3) == (recent.get(b"a"), recent.get(b"b"), recent.get(b"c"))


def test_a_value_that_is_discarded_makes_room() -> None:
    """Its size counts no more; what is not known can be discarded, too."""
    recent: Recent[Any] = Recent(2)
    recent.put(b"a", 1)
    recent.put(b"b", 2)
    recent.discard(b"a")
    recent.discard(b"unknown")
    recent.put(b"c", 3)

    assert (None, 2, 3) == (recent.get(b"a"), recent.get(b"b"), recent.get(b"c"))
