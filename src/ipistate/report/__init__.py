"""A report on rollouts: one page of HTML that needs no network and no server.

Needs the ``report`` extra.
"""

from ipistate.report.report import build, write
from ipistate.report.runs import Run, Source


__all__ = ["Run", "Source", "build", "write"]
