"""Makes the simulator's modules importable, as they are for ``run.py``."""

import sys

from pathlib import Path


sys.path.insert(0, str(Path(__file__).parent))
