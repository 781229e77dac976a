"""Makes the simulator's modules importable, as they are for ``simulate.py``."""

import sys

from pathlib import Path


sys.path.insert(0, str(Path(__file__).parent))
