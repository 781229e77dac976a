"""``ipistate serve``: options become settings; the server itself is tested elsewhere."""

from __future__ import annotations

import json
import logging
import os
import sys

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from starlette.datastructures import Secret

from ipistate.cli import serve
from ipistate.cli.groups import HELP
from ipistate.server import ServerSettings, described_settings
from ipistate.server.hosts import LOOPBACK, with_hosts
from ipistate.server.operating.logs import LogForm


if TYPE_CHECKING:
    from click.testing import Result

HARDENED = {"hardened": True, "cookie_secret": Secret("private")}


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    """Put the process's logging back as it was."""
    root, ours = logging.getLogger(), logging.getLogger("ipistate")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


@pytest.fixture
def served(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]]:
    """Return a function that runs the verb and gives what the server was called with."""

    def invoke(*options: str | Path) -> tuple[ServerSettings, str, int, dict[str, Any]]:
        calls: list[tuple[ServerSettings, str, int, dict[str, Any]]] = []
        monkeypatch.setattr(
            serve, "run", lambda *given, **named: calls.append((*given, named))
        )
        result = run("serve", *options)
        assert result.exit_code == 0, result.stderr
        (call,) = calls
        return call

    return invoke


def test_defaults_have_no_control_plane(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
) -> None:
    """Without options: loopback, port 8000, no checkpoint token."""
    settings, host, port, named = served()

    assert ("127.0.0.1", 8000) == (host, port)
    assert (1, LogForm.TEXT) == (named["workers"], named["log_form"])
    assert settings.checkpoint_token is None
    assert not settings.metrics


def test_sessions_are_kept_as_the_options_say(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
    tmp_path: Path,
) -> None:
    """Off and without limits by default; each option becomes its setting."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    plain, *_ = served()
    chosen, *_ = served(
        *("--checkpoint-token-file", str(token), "--extension"),
        *("--checkpoint-state-version", "2"),
        *("--idle-timeout", "90", "--max-sessions", "1000"),
    )

    def kept(settings: ServerSettings) -> tuple[bool, int, float | None, int | None]:
        return (
            settings.extension,
            settings.checkpoint_state_version,
            settings.idle_seconds,
            settings.max_sessions,
        )

    assert (False, 1, None, None) == kept(plain)
    assert (True, 2, 90.0, 1000) == kept(chosen)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--extension"], "needs a checkpoint token"),
        (["--checkpoint-state-version", "2"], "need the extension"),
        (["--checkpoint-state-version", "3"], "--checkpoint-state-version"),
        (["--idle-timeout", "0"], "--idle-timeout"),
        (["--idle-timeout", "inf"], "'inf' is not a finite number"),
        (["--max-sessions", "0"], "--max-sessions"),
    ],
)
def test_options_about_sessions_that_make_no_sense(
    run: Callable[..., Result], options: list[str], reason: str
) -> None:
    """They are usage errors, and nothing is served."""
    result = run("serve", *options)

    assert 2 == result.exit_code
    assert reason in result.stderr


def test_strict_arguments(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
) -> None:
    """The option gives the server strict tools; without it they take anything."""
    plain, *_ = served()
    strict, *_ = served("--strict-arguments")

    assert {0} == {len(one.checks) for one in plain.tools.values()}
    assert {1} == {len(one.checks) for one in strict.tools.values()}


def test_strict_arguments_need_their_extra(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without jsonschema the option says what to install."""
    monkeypatch.delitem(sys.modules, "ipistate.tools.strict", raising=False)
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    result = run("serve", "--strict-arguments")

    assert 2 == result.exit_code
    assert "pip install 'ipistate[strict]'" in result.stderr


def test_token_file(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
    tmp_path: Path,
) -> None:
    """The token is the file's text without the spaces around it."""
    (tmp_path / "token").write_text("secret\n")
    settings, *_ = served("--checkpoint-token-file", tmp_path / "token")

    assert str(settings.checkpoint_token) == "secret"


def test_token_variable(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The token may come from an environment variable that is named."""
    monkeypatch.setenv("IPI_TOKEN", "secret")
    settings, *_ = served("--checkpoint-token-env", "IPI_TOKEN")

    assert str(settings.checkpoint_token) == "secret"


def test_every_option(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
    tmp_path: Path,
) -> None:
    """Each option reaches the setting of its name."""
    for name in ("token", "secret"):
        (tmp_path / name).write_text(name)
    settings, host, port, _ = served(
        *["--host", "0.0.0.0", "--port", "0", "--instance-name", "x"],
        *["--checkpoint-token-file", tmp_path / "token"],
        *["--checkpoint-root", tmp_path, "--lease-grace", "5"],
        *["--cookie-secret-file", tmp_path / "secret", "--max-body", "10"],
        *["--max-metrics-body", "20", "--seed-pool", "30"],
        *["--max-control-body", "40", "--max-control-ids", "50", "--metrics"],
    )

    assert ("0.0.0.0", 0, "x") == (host, port, settings.instance_name)
    assert (Path(tmp_path), 5.0) == (
        settings.checkpoint_root,
        settings.lease_grace_seconds,
    )
    assert str(settings.cookie_secret) == "secret"
    assert (10, 20, 30, 40, 50, True) == (
        settings.max_body_bytes,
        settings.max_metrics_bytes,
        settings.seed_pool_bytes,
        settings.max_control_bytes,
        settings.max_control_ids,
        settings.metrics,
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--workers", "2"),
        ("--port", "70000"),
        ("--instance-name", "a/b"),
        ("--max-body", "0"),
        ("--lease-grace", "inf"),
        ("--lease-grace", "nan"),
        ("--checkpoint-root", "."),
        ("--checkpoint-root", "no-such-directory", "--checkpoint-token-env", "HOME"),
        ("--max-control-ids", "100001"),
        ("--log-level", "loud"),
        ("--checkpoint-token-file", "a", "--checkpoint-token-env", "B"),
    ],
)
def test_usage(run: Callable[..., Result], options: tuple[str, ...]) -> None:
    """Options that cannot be meant are usage errors."""
    assert run("serve", *options).exit_code == 2


def test_token_that_is_not_there(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty or missing token is refused: there is no default."""
    monkeypatch.delenv("NO_TOKEN", raising=False)
    (tmp_path / "empty").write_text("\n")

    assert run("serve", "--checkpoint-token-env", "NO_TOKEN").exit_code == 3
    assert run("serve", "--checkpoint-token-file", tmp_path / "empty").exit_code == 3
    assert run("serve", "--checkpoint-token-file", tmp_path / "none").exit_code == 3


def test_port_in_use(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that cannot listen ends with exit code 3 and says where."""

    def fails(*_: int | str | ServerSettings, **__: Any) -> NoReturn:
        raise SystemExit(1)

    monkeypatch.setattr(serve, "run", fails)
    result = run("serve", "--port", "8123")

    assert result.exit_code == 3
    assert "cannot listen on 127.0.0.1:8123" in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs permissions as POSIX has them")
@pytest.mark.parametrize(
    ("mode", "warnings"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1)]
)
@pytest.mark.parametrize("option", ["--checkpoint-token-file", "--cookie-secret-file"])
def test_a_secret_that_others_can_read_is_warned_about(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    mode: int,
    warnings: int,
    option: str,
) -> None:
    """The server starts all the same, and only then; the secret is not shown."""
    (tmp_path / "token").write_text("hidden\n")
    (tmp_path / "token").chmod(mode)
    *_, named = served(option, tmp_path / "token")
    logging.getLogger().addHandler(caplog.handler)
    named["started"]()

    assert warnings == caplog.text.count(f"has mode {mode:04o}")
    assert "hidden" not in caplog.text


def test_log_lines_as_json(
    served: Callable[..., tuple[ServerSettings, str, int, dict[str, Any]]],
    capsys: pytest.CaptureFixture[Any],
) -> None:
    """With the option every record of the package is an object on a line."""
    *_, named = served("--log-json", "--log-level", "info")
    handler = logging.getLogger().handlers[0]
    record = logging.makeLogRecord({"name": "ipistate.x", "msg": "hello"})

    assert LogForm.JSON == named["log_form"]
    assert "hello" == json.loads(handler.format(record))["message"]
    assert logging.INFO == logging.getLogger("ipistate").level


def test_metrics_need_their_library(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the flag is a usage error that says what to install."""
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    result = run("serve", "--metrics")

    assert 2 == result.exit_code
    assert "ipistate[metrics]" in result.stderr


def test_each_setting_has_its_option() -> None:
    """Every setting can be given; names, defaults and texts are those of the settings."""
    options = {one.name: one for one in serve.command.params}
    # click keeps the names of the help option that it sees first.
    given = serve.command.make_context("serve", [], None, **HELP).params
    for field, about in described_settings():
        if about.flag is None:
            assert field.name in serve._INSTEAD
        else:
            option = options[field.name]
            shown = (option.opts, option.help, option.metavar, given[field.name])

            assert ([about.flag], about.text, about.unit, field.default) == shown


def test_the_manual_describes_each_setting() -> None:
    """The class's docstring has a line for every setting, and still its errors."""
    text = ServerSettings.__doc__

    assert all(
        f"{field.name}: {about.text}" in str(text)
        for field, about in described_settings()
    )
    assert "ValueError: " in str(text)


@pytest.mark.parametrize(
    ("host", "options", "named"),
    [
        ("127.0.0.1", {}, []),
        ("localhost", {}, []),
        ("::1", {}, []),
        ("0.0.0.0", {}, ["--cookie-secret-file"]),
        ("::", {}, ["--cookie-secret-file"]),
        ("10.0.0.7", {}, ["--cookie-secret-file"]),
        ("::", {"cookie_secret": Secret("x")}, []),
        ("::1", {"checkpoint_token": Secret("x")}, ["--instance-name"]),
        ("::1", {"checkpoint_token": Secret("x"), "instance_name": "a"}, []),
    ],
)
def test_b9_a17_warnings_name_what_to_set(
    host: str, options: dict[str, Any], named: list[str]
) -> None:
    """A public secret where others reach it, and a name that another server may have."""
    texts = list(serve.warnings_of(ServerSettings(**options), host))

    assert len(named) == len(texts)
    assert all(name in text for name, text in zip(named, texts, strict=True))


def test_b2_a_writer_that_is_not_trusted_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B2: a version of orjson that cannot be used makes a server slow, so it says so."""
    monkeypatch.setattr(serve, "WRITES_FAST", False)

    (text,) = serve.warnings_of(ServerSettings(), "::1")

    assert "orjson" in text


@pytest.mark.parametrize(
    ("host", "options", "hosts"),
    [
        ("127.0.0.1", {}, (*LOOPBACK, "127.0.0.1")),
        ("127.0.0.9", {}, (*LOOPBACK, "127.0.0.9")),
        ("127.0.0.1", {"allowed_hosts": ("*",)}, ("*",)),
        ("10.0.0.7", {}, None),
        ("10.0.0.7", HARDENED, ("10.0.0.7",)),
        ("0.0.0.0", {**HARDENED, "allowed_hosts": ("a.b",)}, ("a.b",)),
    ],
)
def test_b9_hosts_that_are_allowed(
    host: str, options: dict[str, Any], hosts: tuple[str, ...] | None
) -> None:
    """On a loopback address its names, on any other what the operator says."""
    assert hosts == with_hosts(ServerSettings(**options), host).allowed_hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_hardened_server_everywhere_needs_its_names(
    run: Callable[..., Result], tmp_path: Path, host: str
) -> None:
    """Which those are, only the operator knows; exit 2."""
    secret = tmp_path / "secret"
    made = run("secret", secret)
    options = ["--hardened", "--cookie-secret-file", secret, "--host", host]
    result = run("serve", *options)

    assert (0, 2) == (made.exit_code, result.exit_code)
    assert "--allowed-host" in result.stderr


def test_secrets_are_random_and_only_their_owner_s(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """A file that exists is left as it is; no message shows the secret."""
    files = [tmp_path / "a", tmp_path / "b"]
    results = [run("secret", file) for file in (*files, files[0])]
    first, second = (file.read_text() for file in files)

    assert [0, 0, 3] == [result.exit_code for result in results]
    assert first != second
    assert 43 == len(first.strip())
    assert 0o600 == files[0].stat().st_mode & 0o777
    assert not any(first.strip() in r.stderr + r.stdout for r in results)
    assert 43 == len(run("secret", "-").stdout.strip())
