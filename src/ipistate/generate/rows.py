"""Task generator: worlds, requests and hidden instructions, all drawn from a seed.

Row ``n`` depends on the domains, the seed, ``n`` and the size, and on nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.errors import SchemaError, preview
from ipistate.generate.compose import Generated, compose
from ipistate.generate.domains import DOMAINS
from ipistate.generate.draw import Draw


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SMALLEST: Final = 2_000
LARGEST: Final = 500_000
"""Bytes of JSON that a world may be asked to have."""
DEFAULT_SIZE: Final = (4_000, 16_000)


def generate(
    domains: Sequence[str] = tuple(DOMAINS),
    count: int = 1,
    seed: int = 0,
    *,
    size: int | tuple[int, int] = DEFAULT_SIZE,
) -> Iterator[Generated]:
    """Generate task rows, one after another.

    Args:
        domains: Names of domains; rows take them in turn.
        count: How many rows.
        seed: Any whole number.
        size: Bytes of JSON that a world has, or the smallest and the largest number;
            small ones are likelier. A world is filled until it is that large, so it
            may be larger by a few rows, or by what the task itself needs.

    Raises:
        SchemaError: ``unknown_domain``, ``wrong_count`` or ``wrong_size``.
    """
    low, high = (size, size) if isinstance(size, int) else size
    _check(domains, count, (low, high))
    return _rows(domains, count, seed, low, high)


def _rows(
    domains: Sequence[str], count: int, seed: int, low: int, high: int
) -> Iterator[Generated]:
    for row in range(count):
        name = domains[row % len(domains)]
        draw = Draw(f"ipistate/1/{seed}/{row}/{name}")
        yield compose(DOMAINS[name], row, draw, draw.small(low, high))


def _check(domains: Sequence[str], count: int, size: tuple[int, int]) -> None:
    unknown = [name for name in domains if name not in DOMAINS]
    if unknown or not domains:
        message = f"name at least one domain of {', '.join(DOMAINS)}"
        raise SchemaError("unknown_domain", message, preview=preview(unknown))
    if count < 0:
        message = "the number of tasks is 0 or more"
        raise SchemaError("wrong_count", message, preview=preview(count))
    if not SMALLEST <= size[0] <= size[1] <= LARGEST:
        message = f"a world has {SMALLEST} to {LARGEST} bytes, the smaller number first"
        raise SchemaError("wrong_size", message, preview=preview(list(size)))
