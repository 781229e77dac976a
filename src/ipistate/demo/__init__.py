"""The demo: sessions that survive the death of their server.

Scripted agents play task rows over HTTP; the server is killed in the middle, a fresh one
restores the checkpoint, and every reply is compared with an uninterrupted run. Needs the
``cli`` extra; ``ipistate demo`` is its command.
"""

from ipistate.demo.kills import run_rounds
from ipistate.demo.outcome import DemoOutcome, DomainLine
from ipistate.demo.plan import DemoRollout, plan, plan_for
from ipistate.demo.play import DemoWatcher
from ipistate.demo.report import Crash, DemoReport, FullReport, RoundsLine, RoundsReport
from ipistate.demo.scripts import (
    DemoScript,
    builtin_scripts,
    derive,
    generated_scripts,
    prompt,
)
from ipistate.demo.story import run, run_full
from ipistate.demo.workplace import Workplace


__all__ = [
    "Crash",
    "DemoOutcome",
    "DemoReport",
    "DemoRollout",
    "DemoScript",
    "DemoWatcher",
    "DomainLine",
    "FullReport",
    "RoundsLine",
    "RoundsReport",
    "Workplace",
    "builtin_scripts",
    "derive",
    "generated_scripts",
    "plan",
    "plan_for",
    "prompt",
    "run",
    "run_full",
    "run_rounds",
]
