"""The command itself: help, version, exit codes, missing extras."""

from __future__ import annotations

import os
import subprocess
import sys

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click
import pytest

import ipistate.cli

from ipistate.cli import app
from ipistate.cli.app import VERBS
from ipistate.cli.exits import Exit


if TYPE_CHECKING:
    from click.testing import Result


def test_help_teaches_with_examples_and_exit_codes(run: Callable[..., Result]) -> None:
    """The help shows commands to copy, every verb, and what exit codes mean."""
    result = run("--help")

    assert result.exit_code == 0
    assert "ipistate serve --port 8000" in result.stdout
    assert "4 interrupted" in result.stdout
    assert all(verb in result.stdout for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb(run: Callable[..., Result], verb: str) -> None:
    """Each verb explains itself and its exit codes."""
    result = run(verb, "--help")

    assert result.exit_code == 0
    assert "Exit codes: 0 ok, 1 findings" in result.stdout


def test_completion_knows_the_verbs() -> None:
    """Shells complete the verbs without importing them."""
    assert list(VERBS) == app.cli.list_commands(click.Context(app.cli))


def test_reader_that_leaves() -> None:
    """Output that nobody reads any more ends the command without a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "ipistate", "tools", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)

    assert (1, b"") == (result.returncode, result.stderr)


@pytest.mark.parametrize("target", ["/dev/full", "&-"])
@pytest.mark.parametrize(
    "words", ["--help", "--version", "tools", "tasks list --json", "tasks --help"]
)
def test_output_that_cannot_be_written(words: str, target: str) -> None:
    """Output to a full device or a closed stream is exit code 3 and one line."""
    result = shell(f"{words} >{target}")

    assert Exit.REFUSED == result.returncode
    assert result.stderr.startswith(b"Error: cannot write the output: ")
    assert 1 == result.stderr.count(b"\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("tools >/dev/full 2>/dev/full", Exit.REFUSED),
        ("tools >&- 2>&-", Exit.REFUSED),
        ("frobnicate 2>/dev/full", Exit.REFUSED),
        ("frobnicate 2>&-", Exit.USAGE),
        ("tools 2>&-", Exit.OK),
    ],
)
def test_messages_that_cannot_be_written(words: str, code: Exit) -> None:
    """The exit code is right even if nobody can be told; closed stderr is no failure."""
    assert code == shell(words).returncode


@pytest.mark.parametrize("words", ["diff - /dev/null", "replay -", "tasks check -"])
def test_input_that_cannot_be_read(words: str) -> None:
    """A closed standard input is exit code 3 and one line."""
    result = shell(f"{words} <&-")

    assert Exit.REFUSED == result.returncode
    assert b"Error: standard input: Bad file descriptor\n" == result.stderr


def shell(words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command from a shell, which can close its streams."""
    return subprocess.run(
        ["sh", "-c", f'"$0" -m ipistate {words}', sys.executable],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )


def test_version(run: Callable[..., Result]) -> None:
    """--version prints the package's version."""
    assert run("--version").stdout == "ipistate, version 0.1.0\n"


def test_unknown_verb_is_usage(run: Callable[..., Result]) -> None:
    """A verb that does not exist is a usage error."""
    assert run("frobnicate").exit_code == Exit.USAGE


@pytest.mark.parametrize(("verb", "extra"), [("serve", "server"), ("demo", "cli")])
def test_missing_module_names_the_extra(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, verb: str, extra: str
) -> None:
    """A verb whose module is not installed says which extra to install."""

    def fails(_: str) -> NoReturn:
        raise ModuleNotFoundError(name="starlette")

    monkeypatch.setattr(app, "import_module", fails)
    result = run(verb)

    assert result.exit_code == Exit.USAGE
    assert "'starlette'" in result.stderr
    assert f"pip install 'ipistate[{extra}]'" in result.stderr


def test_broken_own_module_is_not_a_missing_extra(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error inside the package is not reported as a missing extra."""

    def fails(_: str) -> NoReturn:
        raise ModuleNotFoundError(name="ipistate.nothing")

    monkeypatch.setattr(app, "import_module", fails)

    assert isinstance(run("tools").exception, ModuleNotFoundError)


def test_command_line_without_click(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    """Without the extra the entry point says what to install, with exit code 2."""

    def fails(_: str) -> NoReturn:
        raise ModuleNotFoundError(name="click")

    monkeypatch.setattr(ipistate.cli, "import_module", fails)
    with pytest.raises(SystemExit) as ended:
        ipistate.cli.main()

    assert ended.value.code == Exit.USAGE
    assert "pip install 'ipistate[cli]'" in capsys.readouterr().err


def test_entry_point_with_a_broken_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point does not hide an error inside the package either."""

    def fails(_: str) -> NoReturn:
        raise ModuleNotFoundError(name="ipistate.cli.app")

    monkeypatch.setattr(ipistate.cli, "import_module", fails)
    with pytest.raises(ModuleNotFoundError):
        ipistate.cli.main()


def test_entry_point_ends_with_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    """The entry point ends the process with the verb's exit code."""
    monkeypatch.setattr(sys, "argv", ["ipistate", "frobnicate"])
    with pytest.raises(SystemExit) as ended:
        ipistate.cli.main()

    assert ended.value.code == Exit.USAGE
    assert "frobnicate" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_interruption(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[Any],
    error: type[KeyboardInterrupt | click.Abort],
) -> None:
    """Ctrl-C ends with exit code 4 and one line."""

    def interrupted(*_: Any, **__: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(click.Group, "main", interrupted)

    assert app.run() == Exit.INTERRUPTED
    assert capsys.readouterr().err == "ipistate: interrupted\n"
