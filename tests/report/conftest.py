"""Rollouts of the built-in rows, both ways, and pages of them."""

from __future__ import annotations

import base64
import gzip
import json

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from local_server import spoken_items

from ipistate.generate import builtin
from ipistate.kernel.codec import encode
from ipistate.kernel.values import JsonObject
from ipistate.report import build
from ipistate.tools.transition import replay


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
