"""A bounded memory: what was not used for longest is forgotten first.

Threads may share one: large bodies are read beside the event loop.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar


V = TypeVar("V")


class Recent(Generic[V]):
    """A mapping from bytes that forgets what was not used for longest.

    ``limit`` bounds the sum of the sizes: those of the keys, and what ``put`` says.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        # A plain dict takes long to find its first key after many were taken out.
        self._entries: OrderedDict[bytes, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> V | None:
        """Return a value and remember that it was used."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: bytes, value: V, size: int = 0) -> None:
        """Keep a value; what is larger than the limit is not kept at all."""
        size += len(key)
        if size > self._limit:
            return
        with self._lock:
            self._forget(key)
            self._entries[key] = value, size
            self._size += size
            while self._size > self._limit:
                _, (_, forgotten) = self._entries.popitem(last=False)
                self._size -= forgotten

    def discard(self, key: bytes) -> None:
        """Forget a key, if it is known."""
        with self._lock:
            self._forget(key)

    def _forget(self, key: bytes) -> None:
        _, forgotten = self._entries.pop(key, (None, 0))
        self._size -= forgotten

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries
