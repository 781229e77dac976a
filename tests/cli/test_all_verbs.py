"""What holds for every verb that reads or writes: pipes, encodings, hostile texts.

A verb that is added has to be added here: ``test_every_verb_is_tried`` tells.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from click.testing import CliRunner, Result

from ipistate.cli.app import cli
from ipistate.cli.texts import one_line, plain, plain_json
from ipistate.generate import builtin
from ipistate.kernel import decode, encode, identical


HOSTILE = "a\x1b[31m\u202e\x9b2J\u2066é…\u4e16\nEvil"
"""Controls, marks of direction, what is in no 8-bit encoding, and a line of its own."""

OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""What no verb writes; newlines are looked for in another way."""

READERS: dict[str, list[str]] = {
    "call": ["call", "search_patients", "-a", '{"query": "a"}', "-e", "WORLD"],
    "diff": ["diff", "WORLD", "OTHER"],
    "verify": ["verify", "ROLLOUTS", "--tasks", "TASKS"],
    "verify effects": ["verify", "ROLLOUTS", "--tasks", "TASKS", "--effects"],
    "replay": ["replay", "ROLLOUTS", "--tasks", "TASKS", "--diff"],
    "tasks check": ["tasks", "check", "TASKS"],
    "tasks stats": ["tasks", "stats", "TASKS"],
    "tasks audit": ["tasks", "audit", "TASKS", "--trajectories", "WAYS"],
    "checkpoint inspect": ["checkpoint", "inspect", "CHECKPOINT"],
    "checkpoint verify": ["checkpoint", "verify", "CHECKPOINT"],
    "checkpoint diff": ["checkpoint", "diff", "CHECKPOINT", "CHECKPOINT"],
    "tools": ["tools", "--domain", "hr"],
    "tasks list": ["tasks", "list"],
    "tasks show": ["tasks", "show", "hr-2"],
}
"""Verbs that only read and tell, in words or with --json."""

ASKING = {
    f"checkpoint {verb}": ["checkpoint", verb, *given, "--url", "http://127.0.0.1:1"]
    for verb, given in {
        "status": [],
        "take": ["c", "/d", "--episodes", "KEYS"],
        "prepare": ["c"],
        "commit": ["c", "/d", "--episodes", "KEYS"],
        "renew": ["c"],
        "resume": ["c"],
        "restore": ["c", "/d", "--episodes", "KEYS"],
        "retire": ["c", "--episodes", "KEYS"],
        "forget": ["c", "r"],
    }.items()
}
"""Verbs that ask servers, of which there are none here."""

WRITERS: dict[str, list[str]] = {
    "call": [*READERS["call"], "-o", "OUT"],
    "report": ["report", "ROLLOUTS", "-o", "OUT"],
    "tasks generate": ["tasks", "generate", "--count", "2", "-o", "OUT"],
}
"""Verbs that write one file."""

NAMING = {**READERS, "report": WRITERS["report"], "secret": ["secret", "OUT"]}
"""Verbs that name their files in what they say."""

LONG = {
    "secret",
    "run",
    "report",
    "demo",
    "serve",
    "deploy",
    "gym init",
    "gym serve",
    "tasks generate",
    "checkpoint migrate",
}
"""Verbs that have a test of their own below, or make files and directories only."""


@pytest.fixture
def inputs(
    tmp_path: Path, stored: list[dict[str, Any]], checkpoint: Path
) -> dict[str, Path]:
    """Write what the verbs read, hostile where a stranger writes it."""
    rollout = json.loads(json.dumps(stored[0]))
    rollout["environment"]["messages"][:0] = [{"from": HOSTILE, HOSTILE: HOSTILE}]
    for item in rollout["response"]["output"]:
        if "output" in item:
            item["output"] = HOSTILE
    task = builtin.rows()[0]
    row = json.loads(task.to_json())
    row["injection"]["attack_strategy"] = HOSTILE
    world = {"patients": {HOSTILE: {"name": HOSTILE, "patient_id": HOSTILE}}}
    other = {"patients": {HOSTILE: {"name": "b", HOSTILE: [HOSTILE]}}}
    ways = next(one for one in builtin.trajectories() if one.row == 0)
    contents = {
        "WORLD": encode_(world),
        "OTHER": encode_(other),
        "ROLLOUTS": encode_(rollout) + b"\n",
        "TASKS": encode_(row) + b"\n",
        "WAYS": ways.to_json() + b"\n",
        "KEYS": b"ipi-7\nipi-8-a1\n",
        "TOKEN": b"secret\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    return {"CHECKPOINT": checkpoint, **{one: tmp_path / one for one in contents}}


def encode_(value: object) -> bytes:
    """Write JSON as it is, without escapes that could be left out."""
    return json.dumps(value, ensure_ascii=False).encode()


def invoke(arguments: list[str], named: dict[str, str], **options: Any) -> Result:
    """Run a verb, its inputs replaced by their names."""
    words = [named.get(one, one) for one in arguments]
    return CliRunner(**options).invoke(cli, words)


def names_of(inputs: dict[str, Path]) -> dict[str, str]:
    """Return the inputs' names as they stand on a command line."""
    return {name: str(path) for name, path in inputs.items()}


@contextmanager
def pipe_from(path: Path) -> Iterator[str]:
    """Give the name of a pipe that a file is written to."""
    read, write = os.pipe()

    def fill() -> None:
        with os.fdopen(write, "wb") as file:
            file.write(path.read_bytes())

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield f"/dev/fd/{read}"
    finally:
        os.close(read)
        thread.join()


def leaves(group: click.Group, *path: str) -> Iterator[str]:
    """Name every verb of the command line."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from leaves(command, *path, name)
        else:
            yield " ".join((*path, name))


def test_every_verb_is_tried() -> None:
    """A21, A22, B11: the tables here name every verb that there is."""
    assert {*leaves(cli)} == {*READERS, *ASKING, *LONG} - {"verify effects"}


@pytest.mark.parametrize("verb", [*READERS])
def test_a21_inputs_may_be_pipes(inputs: dict[str, Path], verb: str) -> None:
    """A21: a verb says the same of a pipe as of a file."""
    arguments = READERS[verb]
    used = [one for one in inputs if one in arguments and one != "CHECKPOINT"]
    whole = invoke(arguments, names_of(inputs))
    for name in used:
        with pipe_from(inputs[name]) as pipe:
            piped = invoke(arguments, names_of(inputs) | {name: pipe})
        said = piped.stdout.replace(pipe, str(inputs[name]))

        assert (whole.exit_code, whole.stdout) == (piped.exit_code, said), piped.stderr


@pytest.mark.parametrize("verb", [*ASKING])
def test_a21_episodes_and_tokens_may_be_pipes(
    inputs: dict[str, Path], verb: str
) -> None:
    """A21: what is wrong is that no server answers, and not the pipe."""
    arguments = [*ASKING[verb], "--token-file", "TOKEN"]
    with pipe_from(inputs["KEYS"]) as keys, pipe_from(inputs["TOKEN"]) as token:
        result = invoke(arguments, {"KEYS": keys, "TOKEN": token})

    assert 1 == result.exit_code
    assert "unreachable" in result.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a21_a_report_reads_pipes(inputs: dict[str, Path], processes: str) -> None:
    """A21: each process gets the task rows, though a pipe can be read once."""
    arguments = ["report", "ROLLOUTS", "--tasks", "TASKS", "--json"]
    arguments += ["--processes", processes]
    with pipe_from(inputs["ROLLOUTS"]) as rollouts, pipe_from(inputs["TASKS"]) as tasks:
        named = {"ROLLOUTS": rollouts, "TASKS": tasks}
        result = invoke(arguments, named)

    assert (0, 1) == (result.exit_code, len(json.loads(result.stdout)["runs"]))


def test_a21_a_run_reads_pipes(
    inputs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A21: task rows and trajectories may be pipes; the rows are those of files."""
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    arguments = ["run", "--tasks", "TASKS", "--trajectories", "WAYS"]
    arguments += ["--policy", "careful", "-o", str(tmp_path / "rows.jsonl"), "--json"]
    with pipe_from(inputs["TASKS"]) as tasks, pipe_from(inputs["WAYS"]) as ways:
        result = invoke(arguments, {"TASKS": tasks, "WAYS": ways})
    again = invoke([*arguments, "--resume"], names_of(inputs))

    assert (0, 1) == (result.exit_code, json.loads(result.stdout)["done"])
    assert (0, 1) == (again.exit_code, json.loads(again.stdout)["earlier"])
    assert [] == [*(tmp_path / "copies").iterdir()]


@pytest.mark.parametrize("verb", [*WRITERS])
def test_a21_outputs_may_be_pipes(inputs: dict[str, Path], verb: str) -> None:
    """A21: what is written to a pipe is what a file would get."""
    file = inputs["WORLD"].with_name("out")
    invoke(WRITERS[verb], {**names_of(inputs), "OUT": str(file)})
    read, write = os.pipe()
    taken: list[bytes] = []

    def drain() -> None:
        with os.fdopen(read, "rb") as pipe:
            taken.append(pipe.read())

    thread = threading.Thread(target=drain)
    thread.start()
    result = invoke(WRITERS[verb], {**names_of(inputs), "OUT": f"/dev/fd/{write}"})
    os.close(write)
    thread.join()

    assert 0 == result.exit_code, result.stderr
    assert [file.read_bytes()] == taken


def test_a21_rows_of_a_run_are_a_file(inputs: dict[str, Path]) -> None:
    """A21: a pipe cannot be resumed from, so it is refused as an output."""
    arguments = ["run", "--tasks", "TASKS", "--policy", "random", "-o", "/dev/null"]
    result = invoke(arguments, names_of(inputs))

    assert 3 == result.exit_code
    assert "a pipe is no file" in result.stderr


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1"])
@pytest.mark.parametrize("verb", [*READERS])
def test_a22_any_encoding_of_the_output(
    inputs: dict[str, Path], verb: str, encoding: str
) -> None:
    """A22: exit code and JSON are those of UTF-8; what is lacking is an escape."""
    named = names_of(inputs)
    utf8 = invoke(READERS[verb], named)
    other = invoke(READERS[verb], named, charset=encoding)
    document = invoke([*READERS[verb], "--json"], named, charset=encoding)

    assert utf8.exit_code == other.exit_code
    assert other.exception is None or isinstance(other.exception, SystemExit)
    assert utf8.exit_code == document.exit_code
    assert json.loads(document.stdout_bytes)


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
@pytest.mark.parametrize("verb", ["diff", "tasks stats"])
def test_a22_in_a_process(
    inputs: dict[str, Path], verb: str, variables: dict[str, str]
) -> None:
    """A22: no traceback, and exit code 1 of a diff still means that they differ."""
    words = [str(inputs.get(one, one)) for one in READERS[verb]]
    done = subprocess.run(
        [sys.executable, "-m", "ipistate", *words],
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
    )

    assert (verb == "diff", b"") == (done.returncode == 1, done.stderr)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("verb", [*READERS])
def test_b11_hostile_texts_are_escaped(
    inputs: dict[str, Path], verb: str, as_json: bool
) -> None:
    """B11: nothing that a terminal obeys reaches it, and no text has its own line."""
    result = invoke([*READERS[verb], *["--json"] * as_json], names_of(inputs))

    assert not OBEYED.findall(result.stdout.replace("\n", ""))
    assert not OBEYED.findall(result.stderr)
    assert not [one for one in result.stdout.splitlines() if one.startswith("Evil")]


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    ("verb", "place"),
    [
        (verb, place)
        for verb, arguments in NAMING.items()
        for place in (
            "WORLD",
            "OTHER",
            "ROLLOUTS",
            "TASKS",
            "WAYS",
            "CHECKPOINT",
            "OUT",
        )
        if place in arguments
    ],
)
def test_b11_hostile_file_names(
    inputs: dict[str, Path], verb: str, place: str, exists: bool
) -> None:
    """B11: a file name is shown in one line and without what a terminal obeys."""
    name = inputs["WORLD"].with_name(HOSTILE)
    if exists:
        name.write_bytes(b'{"a": "no row of any kind"}\n')
    arguments = NAMING[verb]
    named = {"OUT": "/dev/null", **names_of(inputs), place: str(name)}
    result = invoke(arguments, named)

    assert not OBEYED.findall(result.output.replace("\n", ""))
    assert not [one for one in result.output.splitlines() if one.startswith("Evil")]
    assert 0 <= result.exit_code <= 3


@pytest.mark.parametrize("verb", [*READERS, *ASKING])
def test_b11_hostile_usage(verb: str) -> None:
    """B11: a wrong option, argument or verb is told without raw controls."""
    words = (READERS | ASKING)[verb]
    for wrong in (
        [*words, f"--{HOSTILE}"],
        [*words[:1], HOSTILE],
        [*words, *[HOSTILE] * 3],
    ):
        result = invoke(wrong, {})

        assert 0 < result.exit_code <= 3
        assert not OBEYED.findall(result.output.replace("\n", ""))


def test_b11_json_keeps_its_value() -> None:
    """B11: escapes in a JSON text stand for the same characters."""
    value = decode(json.dumps({HOSTILE: [HOSTILE, "\u2028\x7f\u061c"]}))
    text = plain_json(encode(value))

    assert identical(value, decode(text))
    assert not OBEYED.findall(text.decode())


@pytest.mark.parametrize(
    ("count", "line"), [(10_000, b""), (10_000, b"{"), (3_000, b"<a>")]
)
def test_b11_many_lines_are_written_together(
    write: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    line: bytes,
) -> None:
    """B11: findings are written a thousand at a time, however many there are."""
    calls: list[object] = []
    echo = click.echo

    def counted(*given: Any, **options: Any) -> None:
        calls.append(given)
        echo(*given, **options)

    monkeypatch.setattr("click.echo", counted)
    file = write("many.jsonl", b'{"a": 1}', *[line] * count)
    result = CliRunner().invoke(cli, ["tasks", "check", str(file)])

    assert len(result.stdout.splitlines()) > count
    assert len(calls) < count / 100


def test_texts_are_escaped_once() -> None:
    """What was made plain stays as it is."""
    once = one_line(HOSTILE)

    assert once == one_line(once) == plain(once)
