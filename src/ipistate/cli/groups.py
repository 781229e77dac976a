"""Groups of verbs: near misses are named, options may stand in a configuration file."""

from __future__ import annotations

import sys

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import click

from ipistate.cli.configuration import CONFIGURATION
from ipistate.cli.exits import Exit
from ipistate.cli.streams import prepare_streams
from ipistate.cli.texts import plain


if TYPE_CHECKING:
    from collections.abc import Sequence

HELP: Final = {"help_option_names": ["-h", "--help"]}
"""Settings of a group, which its verbs take over."""


class VerbGroup(click.Group):
    """A group of verbs; each of them has the option ``--config``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a verb.

        Raises:
            UsageError: There is none of this name; the message has those like it.
        """
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and not name.startswith("-"):
            near = get_close_matches(name, self.list_commands(ctx), n=2, cutoff=0.5)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        if command is not None and not isinstance(command, click.Group):
            configurable(command)
        return super().resolve_command(ctx, args)


def configurable(command: click.Command) -> None:
    """Give a verb the option ``--config``, unless it has it."""
    if CONFIGURATION not in command.params:
        command.params.append(CONFIGURATION)


class RootGroup(VerbGroup):
    """The whole command line: what every verb owes to its streams and its user."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's own signature
        **extra: Any,
    ) -> Any:
        """Run a verb and give its exit code; end the process if it stands alone."""
        prepare_streams()
        code = self._code(args, prog_name, complete_var, extra)
        if standalone_mode:
            sys.exit(code)
        return code

    def _code(
        self,
        args: Sequence[str] | None,
        name: str | None,
        completing: str | None,
        extra: dict[str, Any],
    ) -> int:
        try:
            done: int | None = super().main(
                args, name, completing, standalone_mode=False, **extra
            )
        except click.ClickException as error:
            vars(error)["message"] = plain(error.message)
            error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("ipistate: interrupted", err=True)
            return Exit.INTERRUPTED
        return done or Exit.OK
