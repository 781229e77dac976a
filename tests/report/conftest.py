"""Rollouts of the built-in rows, both ways, and pages of them."""

from __future__ import annotations

import base64
import gzip
import json
import shutil

from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local_server import spoken_items

from ipistate.generate import builtin
from ipistate.kernel.codec import encode
from ipistate.kernel.values import JsonObject
from ipistate.report import build
from ipistate.tools.transition import replay


if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)

CONTRAST = """(selectors) => {
  const channel = (c) => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      layers.push(found);
      if ((found[3] ?? 1) === 1) break;
    }
    return layers.reverse().reduce((under, [r, g, b, a = 1]) =>
      [r, g, b].map((c, n) => c * a + under[n] * (1 - a)), [255, 255, 255]);
  };
  return selectors.map((selector) => {
    const one = [...document.querySelectorAll(selector)].find((each) => each.textContent.trim());
    if (!one) return [selector, 0];
    const [a, b] = [numbers(getComputedStyle(one).color), behind(one)].map(light).sort((x, y) => y - x);
    return [selector, (a + .05) / (b + .05)];
  });
}"""


def played(index: int, way: str, **more: Any) -> dict[str, Any]:
    """Return the row of one way through a built-in task row, as plain data."""
    task = builtin.rows()[index]
    calls = getattr(builtin.trajectories()[index], way)
    done = replay(task.environment, calls)
    replies = [encode(JsonObject({"output": one.output})) for one in done]
    row = json.loads(task.to_json())
    response: dict[str, Any] = {
        "id": f"resp_{index}_{way}",
        "model": way,
        "object": "response",
    }
    response["output"] = [*spoken_items(calls, replies)]
    repeat = ("benign", "compromised").index(way)
    indices = {"_ng_task_index": index, "_ng_rollout_index": repeat}
    return {**row, "response": response, **indices, **more}


@pytest.fixture(scope="session")
def rollout() -> Callable[..., dict[str, Any]]:
    """Return a function that plays one way through a built-in row."""
    return played


@pytest.fixture(scope="session")
def lines() -> Callable[..., list[bytes]]:
    """Return a function that writes rows as JSON Lines."""
    return lambda rows: [json.dumps(row).encode() for row in rows]


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    """Return rollouts of all built-in rows, careful and gullible in turn."""
    ways = ("benign", "compromised")
    return [played(n, way) for n in range(len(builtin.rows())) for way in ways]


@pytest.fixture(scope="session")
def html(rows: list[dict[str, Any]], lines: Callable[..., list[bytes]]) -> str:
    """Return the page of these rollouts."""
    return build({"demo": lines(rows)}, title="Demo")


@pytest.fixture(scope="session")
def parsed() -> type[Parsed]:
    """Return a function that parses a page."""
    return Parsed


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Chromium for the tests of this module, with a profile of its own."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=[*FLAGS])
        yield browser
        browser.close()


class Watched:
    """A page, and all that it said, asked for and did wrong."""

    def __init__(self, browser: Browser, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def go(self, file: Path, fragment: str = "") -> Page:
        """Load a file and wait until it is ready."""
        self.page.goto("about:blank")
        self.requests.clear()
        self.page.goto(f"{file.as_uri()}{fragment}")
        self.page.wait_for_selector("html[data-ready=yes]", timeout=30_000)
        return self.page


@pytest.fixture
def watched(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Return a function that opens pages; at the end none may have had a trouble."""
    opened: list[Watched] = []

    def open_page(file: Path, fragment: str = "", **context: Any) -> Page:
        context = {"viewport": {"width": 1280, "height": 900}, **context}
        opened.append(Watched(chromium, **context))
        return opened[-1].go(file, fragment)

    yield open_page
    for one in opened:
        one.context.close()
        assert [] == one.troubles
        assert [] == [
            url for url in one.requests if not url.startswith(("file:", "data:"))
        ]
        assert 1 >= sum(url.startswith("file:") for url in one.requests)


@pytest.fixture(scope="module")
def file(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    lines: Callable[..., list[bytes]],
) -> Path:
    """Write the page of two runs with 54 and 108 rollouts."""
    written = tmp_path_factory.mktemp("report") / "report.html"
    runs = {"first": lines(rows), "second": lines(rows * 2)}
    written.write_text(build(runs, title="Two runs"), "utf-8")
    return written


@pytest.fixture(scope="session")
def too_faint() -> Callable[[Page, Sequence[str]], dict[str, float]]:
    """Return a function that finds texts of a page with less contrast than WCAG 2 AA.

    It takes a selector for each kind of text; one that is not there has no contrast.
    """

    def find(page: Page, selectors: Sequence[str]) -> dict[str, float]:
        found: dict[str, float] = dict(page.evaluate(CONTRAST, [*selectors]))
        return {name: ratio for name, ratio in found.items() if ratio < 4.5}

    return find


class Parsed(HTMLParser):
    """A page as a list of its elements, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.blocks: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag in {"script", "style", "title", "h1", "li", "a", "code"}:
            self._open.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        tag, attrs = self._open[-1] if self._open else ("", {})
        if tag == "script" and "id" in attrs:
            self.blocks[attrs["id"]] = self.blocks.get(attrs["id"], "") + data
        elif tag not in {"script", "style"}:
            self.texts.append((tag, data))

    def block(self, name: str) -> dict[str, Any]:
        """Return the document of a data block."""
        document: dict[str, Any] = json.loads(
            gzip.decompress(base64.b64decode(self.blocks[name]))
        )
        return document
