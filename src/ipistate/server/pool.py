"""Seeds seen before: rollouts of one task share one frozen world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

from ipistate.server.seeds import Seed, build_world, read_seed
from ipistate.values import freeze


if TYPE_CHECKING:
    from ipistate.codec import Freeze
    from ipistate.environment import Environment

V = TypeVar("V")


class Recent(Generic[V]):
    """A mapping from bytes that forgets what was not used for longest.

    ``limit`` bounds the sum of the keys' lengths.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._values: dict[bytes, V] = {}

    def get(self, key: bytes) -> V | None:
        """Return a value and remember that it was used."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def put(self, key: bytes, value: V) -> None:
        """Keep a value; a key longer than the limit is not kept at all."""
        if len(key) > self._limit:
            return
        if self._values.pop(key, None) is None:
            self._size += len(key)
        self._values[key] = value
        while self._size > self._limit:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self._size -= len(oldest)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: bytes) -> bool:
        return key in self._values


class SeedPool:
    """Worlds by the request that seeded them, and by their own text.

    The first saves reading a request sent again. The second saves building a world, and
    its memory, when only the rest of the request differs, as it does between rollouts.
    """

    def __init__(self, limit: int) -> None:
        # Requests are repeated at once or not at all.
        self._by_request: Recent[Seed] = Recent(limit // 8)
        self._by_text: Recent[Environment] = Recent(limit - limit // 8)

    def seed(self, request: bytes) -> Seed:
        """Return the seed that a request body carries, reading it only if it is new.

        Raises:
            DecodeError: The body is not acceptable JSON.
            SchemaError: It is not a seed.
        """
        known = self._by_request.get(request)
        if known is None:
            known = read_seed(request, self._shared)
            self._by_request.put(request, known)
        return known

    def _shared(self, members: dict[str, Any], adopt: Freeze) -> Environment:
        text = None if adopt is freeze else _text(members)
        if text is None:
            return build_world(members, adopt)
        known = self._by_text.get(text)
        if known is None:
            known = build_world(members, adopt)
            self._by_text.put(text, known)
        return known


def _text(members: dict[str, Any]) -> bytes | None:
    # A tree of the fast parser may have lost digits. Its text is no known world's then:
    # building a world from such a tree fails, so it never gets into the pool.
    try:
        return orjson.dumps(members)
    except TypeError:
        return None
