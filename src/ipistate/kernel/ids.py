"""Record ids: in the form of the wire, derived and not drawn at random.

An id depends on the call and on the table it goes into, so a replay, a fork and a
restored session mint the same one (docs/explanation/determinism.md).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from ipistate.kernel.codec import encode


if TYPE_CHECKING:
    from collections.abc import Container

    from ipistate.kernel.values import JsonObject

SPACE: Final = 16**6
"""How many ids one prefix has: six upper-case hex digits."""


def derive_id(
    prefix: str, call: JsonObject, collection: str, used: Container[str], size: int
) -> str:
    """Mint ``prefix`` plus six hex digits that are not in use.

    Args:
        prefix: Wire prefix, such as ``"CL-"``.
        call: What is being recorded; equal records give equal digests.
        collection: Name of the table that the record goes into.
        used: Ids that must not be taken again.
        size: Records in the table, so that equal calls in a row differ at once.
    """
    seed = f"{prefix}\0{collection}\0{size}\0".encode() + encode(call)
    start = int.from_bytes(blake2b(seed, digest_size=8).digest())
    for step in range(SPACE):
        candidate = f"{prefix}{(start + step) % SPACE:06X}"
        if candidate not in used:
            return candidate
    return f"{prefix}{start % SPACE:06X}"  # all 16 million are taken
