"""``ipistate deploy``: servers start together, and stop together."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from click.testing import CliRunner, Result

from ipistate.cli.app import cli
from ipistate.demo.deployed import free_ports


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Write a deployment of two servers."""
    first, second = free_ports(2)
    path = tmp_path / "deployment.toml"
    path.write_text(
        f"""
        [servers.scripted]
        kind = "scripted"
        port = {first}
        [servers.policy_model]
        kind = "model"
        port = {second}
        upstream = "scripted"
        """
    )
    return path


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run the verb in this process."""
    return lambda *options: CliRunner().invoke(cli, ["deploy", *map(str, options)])


def test_check_starts_nothing(run: Callable[..., Result], plan: Path) -> None:
    """It shows who would be where, callees first."""
    result = run(plan, "--check")

    assert 0 == result.exit_code, result.output
    lines = result.stdout.splitlines()
    assert ["scripted", "policy_model"] == [line.split()[0] for line in lines[1:]]


BAD = {
    "two on one port": b'[servers.a]\nkind = "resources"\nport = 1\n'
    b'[servers.b]\nkind = "resources"\nport = 1\n',
    "no TOML": b"servers = ",
    "no JSON": b'{"servers": ',
    "no text": b"\xff",
    "no servers": b"",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_file_that_is_refused(
    run: Callable[..., Result], tmp_path: Path, data: bytes
) -> None:
    """The file is named, with a code; nothing starts."""
    file = tmp_path / "bad"
    file.write_bytes(data)
    result = run(file)

    assert 3 == result.exit_code
    assert result.stderr.startswith(f"Error: {file}: ")
    assert result.stderr.endswith("]\n")


def test_a_server_that_is_not_there(run: Callable[..., Result], plan: Path) -> None:
    """The names of those that are there are said."""
    result = run(plan, "--only", "agent")

    assert (2, True) == (result.exit_code, "scripted, policy_model" in result.stderr)


def test_one_server_needs_the_token(run: Callable[..., Result], plan: Path) -> None:
    """A secret of its own would be nobody else's."""
    result = run(plan, "--only", "policy_model")

    assert (2, True) == (result.exit_code, "--token-file" in result.stderr)


def test_a_llama_server_needs_its_engine(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served like every kind, and says what is missing."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    plan, token = tmp_path / "plan.toml", tmp_path / "token"
    plan.write_text('[servers.engine]\nkind = "llama"\nport = 1\nweights = "w.gguf"\n')
    token.write_text("a" * 32)
    token.chmod(0o600)
    result = run(plan, "--only", "engine", "--token-file", token)

    assert (3, True) == (result.exit_code, "[engine_missing]" in result.stderr)
    assert "pip install xllamacpp" in result.stderr


@contextmanager
def running(plan: Path, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a deployment, and wait until all answer."""
    command = [sys.executable, "-m", "ipistate", "deploy", str(plan)]
    with subprocess.Popen(
        [*command, "--directory", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "all answer" not in (line := process.stderr.readline()):
            assert line
        yield process


def test_a_port_that_is_taken(
    run: Callable[..., Result], plan: Path, tmp_path: Path
) -> None:
    """The server is named, and the others do not stay."""
    with running(plan, tmp_path / "a") as other:
        assert other.stderr is not None
        result = run(plan, "--directory", tmp_path / "b")
        other.send_signal(signal.SIGTERM)
        said = other.stderr.read()

    assert 3 == result.exit_code
    assert "did not become ready" in result.stderr
    assert "address already in use" in result.stderr
    assert (0, "deployment stopped\n") == (other.returncode, said)


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_a_deployment_lives_and_ends(plan: Path, tmp_path: Path) -> None:
    """It makes a private token, answers, and stops at a signal."""
    with running(plan, tmp_path / "d") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        shown = process.stdout.readline() + process.stdout.readline()
        url = shown.split()[-2]
        with urllib.request.urlopen(f"{url}/health") as answer:
            assert {"status": "ok"} == json.load(answer)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()

    assert (0, "deployment stopped\n") == (process.returncode, rest)
    token = tmp_path / "d" / "control-token"
    assert 0o600 == stat.S_IMODE(token.stat().st_mode)
