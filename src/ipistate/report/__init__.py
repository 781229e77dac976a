"""A report on rollouts: one page of HTML that needs no network and no server.

Needs the ``report`` extra.
"""

from ipistate.report.chunk import Broken, Here, Processes, ReportLine
from ipistate.report.report import build, write
from ipistate.report.runs import Run, Source, Worker


__all__ = [
    "Broken",
    "Here",
    "Processes",
    "ReportLine",
    "Run",
    "Source",
    "Worker",
    "build",
    "write",
]
