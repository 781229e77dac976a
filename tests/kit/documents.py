"""The way into a JSON document, whose parts have no type before they are looked at."""

from __future__ import annotations

from typing import Any


def at(document: Any, *path: str | int) -> Any:
    """Return what stands at a path of a JSON document."""
    for step in path:
        document = document[step]
    return document
