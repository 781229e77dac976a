"""The pool: seeds seen before, so that rollouts of one task share one frozen world.

Worlds are immutable, so sharing one between sessions changes nothing that they can see.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from ipistate.kernel import freeze
from ipistate.server.live.recent import Recent
from ipistate.server.live.seeds import Seed, build_world, read_seed


if TYPE_CHECKING:
    from ipistate.kernel import Adopt, Environment


class SeedCache:
    """Worlds by the request that seeded them, and by the digest of their own text.

    The first saves reading a request sent again. The second saves building a world, and
    its memory, when only the rest of the request differs, as it does between rollouts.
    """

    def __init__(self, limit: int) -> None:
        # Requests are repeated at once or not at all.
        self._by_request: Recent[Seed] = Recent(limit // 16)
        self._by_digest: Recent[Environment] = Recent(limit)

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

    def _shared(self, members: dict[str, Any], adopt: Adopt) -> Environment:
        text = None if adopt is freeze else _text(members)
        if text is None:
            return build_world(members, adopt)
        digest = sha256(text).digest()
        known = self._by_digest.get(digest)
        if known is None:
            known = build_world(members, adopt)
            self._by_digest.put(digest, known, len(text))
        else:
            # The tree is ours alone, and decoding looks at what is left of it. These
            # members are the known world's to the digit: they need no second look.
            members.clear()
        return known


def _text(members: dict[str, Any]) -> bytes | None:
    # A tree of the fast parser may have lost digits. Its text is no known world's then:
    # building a world from such a tree fails, so it never gets into the pool.
    try:
        return orjson.dumps(members)
    except TypeError:
        return None
