"""Runs against a server of sessions that somebody else has started."""

from __future__ import annotations

import subprocess
import sys

from collections.abc import Iterator
from pathlib import Path

import pytest

from killing import Site, repeated, wait_until, wait_until_it_plays


TOKEN = "a-token-for-tests"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Return the URL of a server that outlives its runners."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    command = [sys.executable, "-m", "ipistate", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--checkpoint-token-file", token], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    yield process.stderr.readline().split()[-1], token
    process.kill()
    process.wait()
    process.stderr.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a run that takes some seconds."""
    (tmp_path / "site").mkdir()
    site = Site(root=tmp_path / "site", seconds=0.04, repeats=2, every="0.1s")
    yield site
    site.clear()


def test_a_run_goes_on_with_a_server_that_lives(
    site: Site, served: tuple[str, Path]
) -> None:
    """What a killed runner has left in the server is freed; its turns are not repeated."""
    url, token = served
    options = ("--url", url, "--token-file", token)
    killed: list[dict[str, int]] = []
    for more in ((), ("--resume",)):
        before = len(site.calls())
        process = site.start(*options, *more)
        wait_until_it_plays(site, process)
        wait_until(lambda: bool(site.turns_held()) and len(site.calls()) > before + 40)  # noqa: B023
        process.kill()
        process.wait()
        killed.append(site.turns_held())
    process = site.start(*options, "--resume")

    assert process.wait(60) == 0, (site.root / "stderr").read_text()
    assert all(killed)
    assert 0 == repeated(site.calls(), process.pid, killed[-1])
    assert 54 == len(site.rows())


def test_checkpoints_need_the_token(site: Site, served: tuple[str, Path]) -> None:
    """Without the server's token there are no checkpoints, which is said at once."""
    url, _ = served
    process = site.start("--url", url)

    assert 2 == process.wait(30)
    assert "--token-file or --token-env" in (site.root / "stderr").read_text()


def test_a_wrong_token_is_refused(
    site: Site, served: tuple[str, Path], tmp_path: Path
) -> None:
    """A server that does not accept the token is told from one that is not there."""
    url, _ = served
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    process = site.start("--url", url, "--token-file", wrong)

    assert 3 == process.wait(30)
    assert "401" in (site.root / "stderr").read_text()
