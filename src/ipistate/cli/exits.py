"""Exit codes, and the two ways in which a verb refuses."""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final

import click

from ipistate.cli.texts import one_line, shown
from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import Generator


class Exit(IntEnum):
    """What the exit code says."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    REFUSED = 3
    INTERRUPTED = 4


LEGEND: Final = (
    "Exit codes: 0 ok, 1 findings (a difference, an error reply, a failed check), "
    "2 usage, 3 refused input, 4 interrupted."
)


class RefusedInputError(click.ClickException):
    """Input that cannot be worked with: exit code 3."""

    exit_code: ClassVar[int] = Exit.REFUSED

    def __init__(self, message: str, advice: str = "") -> None:
        """Say in one line what is wrong, and below it what to do."""
        super().__init__(f"{one_line(message)}\n{advice}".rstrip())


class UnusableVariableError(click.ClickException):
    """A variable of the environment cannot be used: exit code 2."""

    exit_code: ClassVar[int] = Exit.USAGE


class MissingExtraError(click.UsageError):
    """A verb needs a module that is not installed: exit code 2."""

    def __init__(self, verb: str, module: str, extra: str) -> None:
        """Say what is missing and how to get it."""
        super().__init__(
            f"'{verb}' needs the module {module!r}; "
            f"install it with: pip install 'ipistate[{extra}]'"
        )


@contextmanager
def refusing(source: str) -> Generator[None]:
    """Turn what is wrong with an input into a refusal that names the input.

    Raises:
        RefusedInputError: The input is not what it should be, or cannot be read.
    """
    source = shown(source)
    try:
        yield
    except IpiStateError as error:
        raise RefusedInputError(f"{source}: {error}") from error
    except OSError as error:
        raise RefusedInputError(f"{source}: {error.strerror or error}") from error
