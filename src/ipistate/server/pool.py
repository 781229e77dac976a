"""Seeds seen before: rollouts of one task share one frozen world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from ipistate.codec import encode
from ipistate.server.seeds import Seed, read_seed


if TYPE_CHECKING:
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

    The first saves reading a request sent again. The second saves the memory of equal
    worlds when the rest of the request differs, as it does between rollouts.
    """

    def __init__(self, limit: int) -> None:
        self._by_request: Recent[Seed] = Recent(limit // 2)
        self._by_text: Recent[Environment] = Recent(limit // 2)

    def seed(self, request: bytes) -> Seed:
        """Return the seed that a request body carries, reading it only if it is new.

        Raises:
            DecodeError: The body is not acceptable JSON.
            SchemaError: It is not a seed.
        """
        known = self._by_request.get(request)
        if known is None:
            seed = read_seed(request)
            known = attrs.evolve(seed, world=self.shared(seed.world))
            self._by_request.put(request, known)
        return known

    def shared(self, world: Environment) -> Environment:
        """Return the world with this text that is known already, or else this one."""
        text = encode(world.document)
        known = self._by_text.get(text)
        if known is None:
            self._by_text.put(text, world)
            return world
        return known
