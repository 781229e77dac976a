"""The limit of open files: what it allows, and what is said of one that is too low."""

from __future__ import annotations

import resource
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path

import pytest

from acting import rows_of
from hypothesis import given
from hypothesis import strategies as st

from ipistate.rollouts.descriptors import RESERVED, OpenFiles, needed


NUMBERS = st.integers(1, 2000)


@given(st.integers(0, 5000), NUMBERS, st.integers(0, 2000))
def test_a7_the_files_of_the_rollouts_fit(
    limit: int, concurrency: int, endpoint: int
) -> None:
    """A7: as many as were wanted, or as many as the limit allows, and not one less."""
    most = OpenFiles(limit).rollouts(concurrency, endpoint)

    assert most <= concurrency
    assert not most or needed(most, endpoint) <= limit
    assert most == concurrency or needed(most + 1, endpoint) > limit


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        ((256, 256), 256),
        ((256, 300), 300),
        ((256, 9999), RESERVED + 400),
        ((256, resource.RLIM_INFINITY), RESERVED + 400),
        ((5000, 9999), 5000),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), RESERVED + 400),
    ],
)
def test_a7_the_limit_is_raised_as_far_as_it_goes(
    limits: tuple[int, int], raised: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A7: the soft limit is ours to raise, up to the hard one, and only if it is needed."""
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: made.append(new))

    assert raised == OpenFiles.wanted(400, 0).limit
    assert made == ([] if limits[0] != 256 else [(raised, limits[1])])


def test_a7_a_limit_that_cannot_be_raised_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A7: where the system refuses, what is allowed is what was allowed before."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1000))
    monkeypatch.setattr(resource, "setrlimit", refuse)

    assert 256 == OpenFiles.wanted(400, 0).limit


@pytest.fixture
def limited(
    tmp_path: Path, task_file: Callable[..., Path]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that calls the verb with so many open files."""

    def run(limit: int, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ipistate", "run", "--policy", "random"]
        command += ["--tasks", str(task_file(3)), "-o", str(tmp_path / "rows.jsonl")]
        return subprocess.run(
            [*command, *options],
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (limit, limit)
            ),
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a7_a_low_limit_lowers_the_concurrency(
    limited: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """A7: with 96 open files and 300 rollouts at a time every rollout has its row."""
    done = limited(96, "--concurrency", "300", "--num-repeats", "40")

    assert 0 == done.returncode, done.stderr
    assert (
        "96 open files (ulimit -n), so --concurrency is 32 and not 300" in done.stderr
    )
    assert 120 == len(rows_of(tmp_path / "rows.jsonl"))


def test_a7_a_limit_that_is_too_low_is_refused(
    limited: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """A7: what no rollout can be played with is said at the start; nothing is written."""
    done = limited(60)

    assert 2 == done.returncode
    assert "60 open files (ulimit -n), and a run needs 65 at least" in done.stderr
    assert not [*tmp_path.glob("rows*")]
