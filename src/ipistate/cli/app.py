"""The command ``ipistate``: its verbs, loaded when they are called."""

from __future__ import annotations

import sys
import traceback

from contextlib import suppress
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ipistate.cli.exits import (
    LEGEND,
    Exit,
    MissingExtraError,
    UnusableVariableError,
)
from ipistate.cli.groups import HELP, RootGroup
from ipistate.cli.streams import let_go, open_closed_streams
from ipistate.cli.texts import shown
from ipistate.errors import EnvironmentVariableError


if TYPE_CHECKING:
    from collections.abc import Mapping


class Verb(NamedTuple):
    """A line of the help; the verb is the command ``command`` of a module of its name."""

    summary: str
    extra: str = "cli"


VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "serve": Verb("Serve sessions over the NeMo Gym protocol.", "server"),
        "deploy": Verb("Start the servers of a whole deployment.", "run"),
        "gym": Verb("Let NeMo Gym's launcher start this server.", "server"),
        "secret": Verb("Write a random secret for serve to a file."),
        "demo": Verb("Kill a server in the middle of 80 rollouts, and lose nothing."),
        "run": Verb("Let a policy play task rows, and score every rollout."),
        "call": Verb("Call one tool on a world from a file."),
        "diff": Verb("Show what changed between two worlds."),
        "verify": Verb("Score stored rollouts again and compare."),
        "replay": Verb("Execute stored rollouts again and compare the replies."),
        "report": Verb("Show rollouts as one page of HTML.", "report"),
        "tools": Verb("List the tools, or write their function definitions."),
        "tasks": Verb("Generate, check, audit and count task rows."),
        "checkpoint": Verb(
            "Drive checkpoints of servers; look into their directories."
        ),
    }
)


class LazyGroup(RootGroup):
    """A group that knows its verbs' names and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs in the order of the help."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb's module.

        Raises:
            MissingExtraError: A module that it needs is not installed.
            UnusableVariableError: A module cannot start in this environment.
        """
        del ctx
        if cmd_name not in VERBS:
            return None
        try:
            module = import_module(f"ipistate.cli.{cmd_name}")
        except ModuleNotFoundError as error:
            name = error.name or ""
            if name.startswith("ipistate"):
                raise
            raise MissingExtraError(cmd_name, name, VERBS[cmd_name].extra) from error
        except EnvironmentVariableError as error:
            raise UnusableVariableError(error.message) from error
        command: click.Command = module.command
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the verbs' lines without importing any."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


@click.group(cls=LazyGroup, epilog=LEGEND, context_settings=HELP)
@click.version_option(
    None, "-V", "--version", package_name="ipistate", prog_name="ipistate"
)
def cli() -> None:
    """Session state for indirect-prompt-injection environments.

    A world is a value: serve it, save it, kill the server, restore it, and every reply
    is the same byte for byte.

    \b
    See it work:
      ipistate demo
    Serve in place of NeMo Gym's IPI server, with checkpoints:
      ipistate serve --port 8000 --checkpoint-token-file token.txt
    Call a tool on a world:
      echo '{"patients": {"P-1": {"name": "A. Berg"}}}' |
        ipistate call get_patient_record --arguments '{"patient_id": "P-1"}' -e -

    Data goes to standard output, progress and messages to standard error. With --json
    a verb writes one JSON document. Options may stand in a TOML file (--config).
    """


def run() -> int:
    """Run the command line and return its exit code.

    Output that cannot be written ends any verb, and so does a fault of this program;
    neither is mistaken for a success or a finding.
    """
    open_closed_streams()
    try:
        code: int = cli.main(prog_name="ipistate", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has gone, so a message would not be read.
        let_go(sys.stdout)
        return Exit.FINDINGS
    except OSError as error:
        if isinstance(error.filename, str):
            # A file that is read, and not the output.
            note = f"{shown(error.filename)}: {error.strerror}"
            click.echo(f"Error: {note}", err=True)
            return Exit.REFUSED
        with suppress(OSError):
            click.echo(f"Error: cannot write the output: {error}", err=True)
        let_go(sys.stdout)
        let_go(sys.stderr)
        return Exit.REFUSED
    except Exception:  # noqa: BLE001 - Python's own exit code, 1, means findings here
        traceback.print_exc()
        click.echo("Error: this is a fault of ipistate; please report it", err=True)
        return Exit.REFUSED
    return code
