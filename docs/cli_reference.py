"""Write ``docs/reference/cli.md`` from the commands: ``python docs/cli_reference.py``.

The text above the first command is written by hand and stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ipistate.cli.app import cli
from ipistate.cli.groups import configurable


if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent / "reference" / "cli.md"
FIRST = "## ipistate\n"
WIDTH = 88


def contexts(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Visit a command and all commands below it, in the order of the help texts."""
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        **command.context_settings,
    )
    yield context
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            below = command.get_command(context, one)
            if below is not None and not below.hidden:
                if not isinstance(below, click.Group):
                    configurable(below)
                yield from contexts(below, one, context)


def page() -> str:
    """Return the page as the commands have it now."""
    above = PAGE.read_text("utf-8").partition(FIRST)[0]
    sections = [
        f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"
        for context in contexts(cli, "ipistate")
    ]
    return above + "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
