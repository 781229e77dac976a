"""``--config``: options in a TOML file, and near misses of names."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.cli import groups
from ipistate.cli.app import VERBS, cli


if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture
def configured(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return a function that runs a verb with a configuration file."""
    monkeypatch.chdir(tmp_path)

    def invoke(text: str | bytes, *words: str) -> Result:
        data = text if isinstance(text, bytes) else text.encode()
        Path("c.toml").write_bytes(data)
        return run(*words, "--config", "c.toml")

    return invoke


def test_d10_options_stand_in_a_file(configured: Callable[..., Result]) -> None:
    """D10: numbers, texts, flags; the command line goes before the file."""
    text = """
    [tasks.generate]
    count = 3
    domain = "hr,legal"
    output = "rows.jsonl"
    force = true
    """
    first = configured(text, "tasks", "generate")
    again = configured(text, "tasks", "generate", "--count", "2")

    assert (0, 0) == (first.exit_code, again.exit_code), first.stderr
    assert 2 == len(Path("rows.jsonl").read_text().splitlines())


def test_d10_required_and_repeated_options(configured: Callable[..., Result]) -> None:
    """D10: a required option may stand there, a repeated one is an array."""
    text = """
    [checkpoint.status]
    url = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    token-file = "token.txt"
    json = true
    """
    Path("token.txt").write_text("secret")
    done = configured(text, "checkpoint", "status")

    assert (1, 2) == (done.exit_code, len(json.loads(done.stdout)["failures"]))


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("[tools]\ndomian = 'hr'", 3, "did you mean 'domain'?"),
        ("[tools]\nconfig = 'c.toml'", 3, "no option 'config'"),
        ("[tools]\ndomain = 'nothing'", 2, "--domain"),
        ("tools = 3", 3, "'tools' is no table"),
        ("[tools", 3, "c.toml: "),
        (b"\xff", 3, "c.toml: "),
        ("# " + "x" * 2**20, 3, "longer than"),
    ],
)
def test_d10_what_is_wrong_with_a_file(
    configured: Callable[..., Result], text: str | bytes, code: int, said: str
) -> None:
    """D10: the file, the table and the option are named."""
    done = configured(text, "tools")

    assert code == done.exit_code
    assert said in done.stderr


def test_d10_tables_of_other_verbs(configured: Callable[..., Result]) -> None:
    """D10: one file serves several verbs."""
    done = configured("[run]\nanything = 1\n[tools]\ndomain = 'hr'", "tools")

    assert 0 == done.exit_code
    assert {"hr"} == {one.split()[0] for one in done.stdout.splitlines()[1:]}


def test_d10_a_file_that_is_not_there(run: Callable[..., Result]) -> None:
    """D10: it is refused by its name."""
    done = run("tools", "--config", "none.toml")

    assert 3 == done.exit_code
    assert "none.toml" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_d10_short_help(run: Callable[..., Result], verb: str) -> None:
    """D10: -h is --help, at every verb."""
    assert run(verb, "-h").stdout == run(verb, "--help").stdout
    assert 0 == run(verb, "-h").exit_code


def test_d10_short_version(run: Callable[..., Result]) -> None:
    """D10: -V is --version."""
    assert run("--version").stdout == run("-V").stdout


@given(st.sampled_from(list(VERBS)), st.integers(0, 10))
def test_d10_near_misses_are_named(verb: str, place: int) -> None:
    """D10: a verb with a letter too many is named in the refusal."""
    wrong = f"{verb[:place]}x{verb[place:]}"
    ctx = click.Context(cli, info_name="ipistate")
    assert isinstance(cli, groups.RootGroup)
    with pytest.raises(click.UsageError, match=repr(verb)):
        cli.resolve_command(ctx, [wrong])


@pytest.mark.parametrize("words", [["checkpoint", "restroe"], ["tasks", "chek"]])
def test_d10_near_misses_inside_a_group(
    run: Callable[..., Result], words: list[str]
) -> None:
    """D10: also of the verbs of verbs."""
    done = run(*words)

    assert 2 == done.exit_code
    assert "Did you mean" in done.stderr


def test_d10_interrupted_imports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """D10: Ctrl-C while modules are imported is one line and exit code 4."""
    from ipistate import cli as entry  # noqa: PLC0415 - not the command

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "import_module", interrupted)
    with pytest.raises(SystemExit) as ended:
        entry.main()

    assert 4 == ended.value.code
    assert "ipistate: interrupted\n" == capsys.readouterr().err


def test_a22_a_fault_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A22: a fault of the program has its traceback, and not exit code 1."""
    from ipistate.cli import app  # noqa: PLC0415 - the module, not the command

    def broken(*_: object, **__: object) -> None:
        raise UnicodeEncodeError("ascii", "é", 0, 1, "for the test")

    monkeypatch.setattr(click.Group, "main", broken)

    assert 3 == app.run()
    assert "please report it" in capsys.readouterr().err


def test_a21_errors_of_files_name_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A21: an error about a file that is read is not one about the output."""
    from ipistate.cli import app  # noqa: PLC0415 - the module, not the command

    def broken(*_: object, **__: object) -> None:
        raise OSError(29, "Illegal seek", "in\x1bput")

    monkeypatch.setattr(click.Group, "main", broken)

    assert 3 == app.run()
    assert "Error: in\\x1bput: Illegal seek\n" == capsys.readouterr().err
