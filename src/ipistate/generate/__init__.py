"""Task generator: worlds, requests and hidden instructions, all drawn from a seed.

Row ``n`` depends on the domains, the seed, ``n`` and the size, and on nothing else.
"""

from ipistate.generate import builtin
from ipistate.generate.compose import (
    DEFAULT_SIZE,
    LARGEST,
    SMALLEST,
    Generated,
    generate,
)
from ipistate.generate.domains import DOMAINS
from ipistate.generate.stats import RowTally, Statistics
from ipistate.generate.strategies import DIFFICULTIES, STRATEGIES, Difficulty


__all__ = [
    "DEFAULT_SIZE",
    "DIFFICULTIES",
    "DOMAINS",
    "LARGEST",
    "SMALLEST",
    "STRATEGIES",
    "Difficulty",
    "Generated",
    "RowTally",
    "Statistics",
    "builtin",
    "generate",
]
