"""Seeds seen before: one world for equal texts, in bounded space."""

from __future__ import annotations

from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import DecodeError, SchemaError
from ipistate.server.live.recent import Recent
from ipistate.server.live.seeds import SeedCache


def row(environment: str, **members: int) -> bytes:
    """Return a seed request with this environment's text."""
    extra = "".join(f', "{name}": {value}' for name, value in members.items())
    return f'{{"environment": {environment}{extra}}}'.encode()


def test_the_same_request_gives_the_same_seed() -> None:
    """Nothing is read a second time."""
    pool = SeedCache(10_000)

    assert pool.seed(row('{"a": [1]}')) is pool.seed(row('{"a": [1]}'))


def test_rollouts_of_one_task_share_their_world() -> None:
    """Requests that differ elsewhere have one world in memory."""
    pool = SeedCache(10_000)
    first = pool.seed(row('{"a": [1]}', _ng_rollout_index=0))
    second = pool.seed(row('{"a":[1]}', _ng_rollout_index=1))

    assert first.world is second.world


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
    pool = SeedCache(10_000)
    first, second = pool.seed(row(left)), pool.seed(row(right))

    assert first.world.to_json() != second.world.to_json()


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", row("[]")])
def test_what_is_no_seed_is_not_kept(body: bytes) -> None:
    """It is refused every time."""
    pool = SeedCache(10_000)
    for _ in range(2):
        with pytest.raises((DecodeError, SchemaError)):
            pool.seed(body)


def test_a_pool_of_size_zero_still_reads() -> None:
    """Pooling can be switched off."""
    pool = SeedCache(0)
    body = row('{"a": 1}')

    assert b'{"a":1}' == pool.seed(body).world.to_json()
    assert pool.seed(body) is not pool.seed(body)


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
