"""``ipistate serve``: options become settings; the server itself is tested elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipistate.cli import serve


@pytest.fixture
def served(run, monkeypatch):
    """Return a function that runs the verb and gives what the server was called with."""

    def invoke(*options):
        calls = []
        monkeypatch.setattr(
            serve, "run", lambda *given, **named: calls.append((*given, named))
        )
        result = run("serve", *options)
        assert result.exit_code == 0, result.stderr
        (call,) = calls
        return call

    return invoke


def test_defaults_have_no_control_plane(served):
    """Without options: loopback, port 8000, no checkpoint token."""
    settings, host, port, named = served()

    assert ("127.0.0.1", 8000, {"workers": 1}) == (host, port, named)
    assert settings.checkpoint_token is None


def test_token_file(served, tmp_path):
    """The token is the file's text without the spaces around it."""
    (tmp_path / "token").write_text("secret\n")
    settings, *_ = served("--checkpoint-token-file", tmp_path / "token")

    assert str(settings.checkpoint_token) == "secret"


def test_token_variable(served, monkeypatch):
    """The token may come from an environment variable that is named."""
    monkeypatch.setenv("IPI_TOKEN", "secret")
    settings, *_ = served("--checkpoint-token-env", "IPI_TOKEN")

    assert str(settings.checkpoint_token) == "secret"


def test_every_option(served, tmp_path):
    """Each option reaches the setting of its name."""
    for name in ("token", "secret"):
        (tmp_path / name).write_text(name)
    settings, host, port, _ = served(
        *["--host", "0.0.0.0", "--port", "0", "--instance-name", "x"],
        *["--checkpoint-token-file", tmp_path / "token"],
        *["--checkpoint-root", tmp_path, "--lease-grace", "5"],
        *["--cookie-secret-file", tmp_path / "secret", "--max-body", "10"],
        *["--max-metrics-body", "20", "--seed-pool", "30"],
    )

    assert ("0.0.0.0", 0, "x") == (host, port, settings.instance_name)
    assert (Path(tmp_path), 5.0) == (
        settings.checkpoint_root,
        settings.lease_grace_seconds,
    )
    assert str(settings.cookie_secret) == "secret"
    assert (10, 20, 30) == (
        settings.max_body_bytes,
        settings.max_metrics_bytes,
        settings.seed_pool_bytes,
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--workers", "2"),
        ("--port", "70000"),
        ("--instance-name", "a/b"),
        ("--max-body", "0"),
        ("--checkpoint-root", "."),
        ("--checkpoint-token-file", "a", "--checkpoint-token-env", "B"),
    ],
)
def test_usage(run, options):
    """Options that cannot be meant are usage errors."""
    assert run("serve", *options).exit_code == 2


def test_token_that_is_not_there(run, tmp_path, monkeypatch):
    """An empty or missing token is refused: there is no default."""
    monkeypatch.delenv("NO_TOKEN", raising=False)
    (tmp_path / "empty").write_text("\n")

    assert run("serve", "--checkpoint-token-env", "NO_TOKEN").exit_code == 3
    assert run("serve", "--checkpoint-token-file", tmp_path / "empty").exit_code == 3
    assert run("serve", "--checkpoint-token-file", tmp_path / "none").exit_code == 3


def test_port_in_use(run, monkeypatch):
    """A server that cannot listen ends with exit code 3 and says where."""

    def fails(*_, **__):
        raise SystemExit(1)

    monkeypatch.setattr(serve, "run", fails)
    result = run("serve", "--port", "8123")

    assert result.exit_code == 3
    assert "cannot listen on 127.0.0.1:8123" in result.stderr
