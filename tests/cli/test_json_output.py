"""With ``--json`` standard output is one document, whatever else happens (B92)."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest


if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture
def commands(
    write: Callable[..., Path], stored: list[dict[str, Any]], checkpoint: Path
) -> dict[str, tuple[str | Path, ...]]:
    """Return a command line for every reporting verb."""
    rows = write("rows.jsonl", *stored)
    world = write("world.json", {"messages": []})
    return {
        "call": ("call", "get_messages", "-e", world),
        "diff": ("diff", world, world),
        "verify": ("verify", rows),
        "replay": ("replay", rows),
        "tools": ("tools",),
        "check": ("tasks", "check", rows),
        "audit": ("tasks", "audit"),
        "list": ("tasks", "list"),
        "show": ("tasks", "show", "hr-1"),
        "inspect": ("checkpoint", "inspect", checkpoint),
        "checkpoint": ("checkpoint", "verify", checkpoint),
        "checkpoints": ("checkpoint", "diff", checkpoint, checkpoint),
    }


NAMES = [
    "call",
    "verify",
    "replay",
    "tools",
    "check",
    "list",
    "show",
    "inspect",
    "audit",
]


@pytest.mark.parametrize("name", [*NAMES, "diff", "checkpoint", "checkpoints"])
def test_b92_standard_output_is_one_document(
    run: Callable[..., Result], commands: dict[str, tuple[str | Path, ...]], name: str
) -> None:
    """Each reporting verb writes one JSON document and one newline."""
    shown = run(*commands[name], "--json").stdout

    assert json.loads(shown) is not None
    assert (1, "\n") == (shown.count("\n"), shown[-1])


@pytest.mark.parametrize("name", [*NAMES, "diff", "checkpoint", "checkpoints"])
def test_reports_for_people_are_not_json(
    run: Callable[..., Result], commands: dict[str, tuple[str | Path, ...]], name: str
) -> None:
    """Without --json there is something to read, and it is not coloured in a pipe."""
    shown = run(*commands[name]).stdout

    assert shown.strip()
    assert "\x1b" not in shown
