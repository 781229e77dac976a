"""A report of 10,000 rollouts: how long it takes, and how soon its page can be read."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any

from report import Row, duration

from ipistate.agents.items import NewItems
from ipistate.generate import generate
from ipistate.kernel.codec import encode
from ipistate.kernel.values import JsonObject, trusted_object
from ipistate.report.chunk import ReportLine, chunk
from ipistate.tools.transition import ToolCall, replay


ROLLOUTS = 10_000
SECONDS, OPENING = 20.0, 2.0
"""The limits of both."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic")


def rows() -> Iterator[Row]:
    """Measure the command, one process alone, and the page in Chromium."""
    with tempfile.TemporaryDirectory() as name:
        stored, page = Path(name, "rollouts.jsonl"), Path(name, "report.html")
        with stored.open("wb") as file:
            file.writelines(line + b"\n" for line in _rollouts())
        yield _alone(stored)
        yield _command(stored, page)
        found = next(filter(None, map(shutil.which, _BROWSERS)), None)
        if found is not None:
            yield _opening(page, found)


def _rollouts() -> Iterator[bytes]:
    for number, one in enumerate(generate(count=ROLLOUTS, seed=1)):
        ways = one.trajectories.benign, one.trajectories.compromised
        calls = ways[number % 2]
        done = replay(one.task.environment, calls)
        replies = [encode(JsonObject({"output": each.output})) for each in done]
        response = {"object": "response", "output": _spoken(calls, replies)}
        task = {**one.task.to_document(), "_ng_task_index": number}
        yield encode(trusted_object({**task, "response": JsonObject(response)}))


def _spoken(calls: Sequence[ToolCall], replies: Iterable[bytes]) -> list[JsonObject]:
    said: list[JsonObject] = []
    for call, reply in zip(calls, replies, strict=True):
        item = NewItems(said).function_call(None, call.name, call.arguments)
        answer = {"type": "function_call_output", "call_id": item["call_id"]}
        said += [item, JsonObject({**answer, "output": reply.decode()})]
    return said


def _alone(stored: Path) -> Row:
    with stored.open("rb") as file:
        lines = [ReportLine(number, next(file)) for number in range(1, 501)]
    times: list[float] = []
    for start in range(0, 500, 50):
        began = thread_time()
        chunk(lines[start : start + 50])
        times.append((thread_time() - began) / 50)
    seconds = median(times)
    limit = SECONDS / ROLLOUTS
    return _row("report, one rollout in one process", seconds, limit, "")


def _command(stored: Path, page: Path) -> Row:
    command = [sys.executable, "-m", "ipistate", "report", str(stored), "-o", str(page)]
    began = perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    seconds = perf_counter() - began
    sizes = [f"{one.stat().st_size / 1e6:.0f} MB" for one in (stored, page)]
    note = f"{sizes[0]} become {sizes[1]}"
    return _row(f"report of {ROLLOUTS:,} rollouts", seconds, SECONDS, note)


def _opening(page: Path, browser: str) -> Row:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only if it can be used

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=[*_FLAGS])
        times = [*_opened(chromium, page)]
        chromium.close()
    work = f"its page opens, a deep link to the last of {ROLLOUTS:,} rollouts"
    return _row(work, median(times), OPENING, "")


def _opened(browser: Any, page: Path) -> Iterator[float]:
    for _ in range(5):
        tab = browser.new_page()
        began = perf_counter()
        tab.goto(f"{page.as_uri()}#r=1.{ROLLOUTS}")
        tab.wait_for_selector("#viewer[data-rollout] .turns")
        yield perf_counter() - began
        tab.close()


def _row(work: str, seconds: float, limit: float, note: str) -> Row:
    return Row(
        work=work,
        figure=duration(seconds),
        floor=f"limit: {duration(limit)}",
        ratio=seconds / limit,
        budget=1.0,
        note=note,
    )
