"""What reaches the terminal: no character that it would obey."""

from __future__ import annotations

from typing import Any

import pytest

from ipistate.cli.terminal import amount, stdout_console, table
from ipistate.cli.texts import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("a\rb\tc", "a\\rb\\tc"),
        ("\ud800", "\\ud800"),
        ("é…\n", "é…\n"),
    ],
)
def test_plain_escapes_what_a_terminal_obeys(text: str, shown: str) -> None:
    """Control, direction and surrogate characters are shown as escapes."""
    assert shown == plain(text)


def test_tables_take_texts_literally(capsys: pytest.CaptureFixture[Any]) -> None:
    """A cell is neither markup nor a terminal sequence."""
    stdout_console().print(table(["head"], [["[red]x[/red]"], ["\x1b[31m"]]))
    shown = capsys.readouterr().out

    assert "[red]x[/red]" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ("0 rows", (0, "row")),
        ("1 row", (1, "row")),
        ("2 rows", (2, "row")),
        ("1 reply", (1, "reply", "replies")),
        ("2 replies", (2, "reply", "replies")),
    ],
)
def test_amounts(shown: str, given: Any) -> None:
    """One thing is named in the singular."""
    assert shown == amount(*given)
