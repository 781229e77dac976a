"""``ipistate gym``: NeMo Gym's launcher starts this server."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.cli import serve
from ipistate.cli.exits import RefusedInputError
from ipistate.cli.gym_configuration import DOCUMENT, NAME, gym_server
from ipistate.server import ServerSettings


if TYPE_CHECKING:
    from click.testing import Result

OWN = "ipi_resources_server"
DEPLOYMENT: dict[str, Any] = {
    OWN: {
        "resources_servers": {
            "ipi": {
                "entrypoint": "app.py",
                "description": "a: b",
                "host": "127.0.0.1",
                "port": 11094,
            }
        }
    },
    "ipi_simple_agent": {"responses_api_agents": {"simple_agent": {"port": 5}}},
    "secrets": {"of": {"control": "s3cret"}},
}
BLOCK = """\
# a comment
ipi_resources_server:
  resources_servers:
    ipi:
      entrypoint: app.py
      description: Resistance to injections that goes on
        host: in the next line
      tags:
      - name: host
        port: 1
      host: '127.0.0.1'
      port: 11094

"other: one":
  host: 0.0.0.0
secrets:
  of:
    control: "s3\\"cret"
"""


def place(text: str, name: str = OWN, **more: str) -> dict[str, str]:
    """The environment that a launcher gives to a server."""
    return {DOCUMENT: text, NAME: name, **more}


@pytest.mark.parametrize("text", [json.dumps(DEPLOYMENT), BLOCK])
def test_c1_the_launchers_variables_say_where_to_listen(text: str) -> None:
    """C1: host, port and name, from YAML as it is dumped and from JSON."""
    server = gym_server(place(text))

    assert [
        *("--host", "127.0.0.1", "--port", "11094"),
        *("--instance-name", OWN),
    ] == server.options
    assert server.token is None


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("plain", "plain"),
        ("'it''s'", "it's"),
        ('"a\\u0062"', "ab"),
        ("${oc.env:CONTROL}", "from outside"),
        ("${oc.env:NONE,given}", "given"),
        ("${secrets.of.control}", 's3"cret'),
        ("a-${oc.env:CONTROL}-${secrets.of.control}", 'a-from outside-s3"cret'),
    ],
)
def test_c1_the_checkpoint_block_is_passed_on(token: str, expected: str) -> None:
    """C1: its token and its lease, references in them followed."""
    more = f"checkpoint:\n  enabled: true\n  control_auth_token: {token}\n"
    given = place(f"{BLOCK}{more}  lease_grace_seconds: 30\n", CONTROL="from outside")
    server = gym_server(given)

    assert expected == server.token
    assert ["--lease-grace", "30"] == server.options[-2:]
    assert expected not in repr(server)


@pytest.mark.parametrize(
    "state", ["enabled: false", "enabled: null", "enabled:", "x: 1"]
)
def test_c1_checkpoints_are_off_unless_they_are_enabled(state: str) -> None:
    """C1: a token alone starts no control plane."""
    more = f"checkpoint:\n  {state}\n  control_auth_token: t\n"

    assert gym_server(place(BLOCK + more)).token is None


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({NAME: OWN}, "no NEMO_GYM_CONFIG_DICT"),
        ({DOCUMENT: BLOCK}, "no NEMO_GYM_CONFIG_PATH"),
        (place(BLOCK, "secrets"), "no resources server 'secrets'"),
        (place("", OWN), "no resources server"),
        (place("[1]", OWN), "no resources server"),
        (place(json.dumps({OWN: {"resources_servers": {"a": {}, "b": {}}}})), "no res"),
        (place(BLOCK.replace("port: 11094", "port: null")), "ipi.port"),
        (place(BLOCK + "checkpoint:\n  enabled: true\n"), "control_auth_token"),
        (place(BLOCK + "checkpoint:\n  enabled: ${checkpoint.enabled}\n"), "itself"),
        (
            place(BLOCK + 'checkpoint:\n  enabled: true\n  control_auth_token: ""\n'),
            "control_auth_token",
        ),
    ],
)
def test_c1_what_is_missing_is_named(environ: dict[str, str], words: str) -> None:
    """C1: a message that says which member, or which variable."""
    with pytest.raises(RefusedInputError, match=words):
        gym_server(environ)


def test_c1_broken_texts_are_taken_as_they_are() -> None:
    """C1: what no dumper writes is no reason for a traceback."""
    text = BLOCK.replace("'127.0.0.1'", '"\\x"')

    assert '"\\x"' == gym_server(place(text)).host


def test_c1_gym_serve_is_serve(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1: further options are those of serve; the token is no argument of a process."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(serve, "run", lambda *given, **_: calls.append(given))
    more = "checkpoint:\n  enabled: true\n  control_auth_token: s3cret\n"
    for name, value in place(BLOCK + more).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("IPISTATE_CHECKPOINT_TOKEN", "")
    result = run("gym", "serve", "--export-scope-only", "--max-sessions", "7")
    ((settings, host, port),) = calls

    assert (0, "127.0.0.1", 11094) == (result.exit_code, host, port)
    assert isinstance(settings, ServerSettings)
    assert ("s3cret", OWN) == (str(settings.checkpoint_token), settings.instance_name)
    assert settings.export_scope_only
    assert 7 == settings.max_sessions


def test_c1_the_folder_that_init_writes(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """C1: a short program, no requirements, and a configuration with an entrypoint."""
    folder = tmp_path / "resources_servers" / "ipi"
    result = run("gym", "init", folder)
    configuration = folder / "configs" / "ipi.yaml"

    assert 0 == result.exit_code
    assert [
        str(folder / "app.py"),
        str(folder / "requirements.txt"),
        str(configuration),
    ] == result.stdout.splitlines()
    assert "" == (folder / "requirements.txt").read_text()
    assert 12 > len((folder / "app.py").read_text().splitlines())
    text = configuration.read_text().replace(
        "entrypoint: app.py\n      domain", "host: h\n      port: 1\n      domain"
    )
    assert ("h", "1") == (
        (server := gym_server(place(text))).host,
        server.port,
    )


def test_c1_init_overwrites_nothing_unless_told(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """C1: options that were written into app.py stay."""
    run("gym", "init", tmp_path / "ipi")
    (tmp_path / "ipi" / "app.py").write_text("mine")
    refused = run("gym", "init", tmp_path / "ipi")
    assert (3, "mine") == (
        refused.exit_code,
        (tmp_path / "ipi" / "app.py").read_text(),
    )
    assert "--force" in refused.stderr

    assert 0 == run("gym", "init", tmp_path / "ipi", "--force").exit_code
    assert "mine" != (tmp_path / "ipi" / "app.py").read_text()


@pytest.mark.parametrize("name", ["a b", "7", "x.y", "ä"])
def test_c1_a_folder_has_a_name_for_configurations(
    run: Callable[..., Result], tmp_path: Path, name: str
) -> None:
    """C1: it becomes the name of the server."""
    result = run("gym", "init", tmp_path / name)

    assert 2 == result.exit_code
    assert not (tmp_path / name).exists()


def test_c1_app_py_serves(run: Callable[..., Result], tmp_path: Path) -> None:
    """C1: started as the launcher starts it, the process becomes the server."""
    run("gym", "init", tmp_path / "ipi")
    text = BLOCK.replace("port: 11094", "port: 0")
    process = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=tmp_path / "ipi",
        env={**os.environ, **place(text)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
    finally:
        process.terminate()
        process.communicate()

    assert line.startswith("ipistate: serving on http://127.0.0.1:")
