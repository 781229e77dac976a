"""Task files are checked before anything runs, and read row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipistate.generate import builtin
from ipistate.rollouts.lines import RunFileError
from ipistate.rollouts.tasks import open_tasks


def test_rows_are_where_they_stand(tmp_path: Path) -> None:
    """Empty lines, line ends of either kind and a missing last one change nothing."""
    lines = [task.to_json() for task in builtin.rows()[:3]]
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"\n".join((lines[0], b"", lines[1] + b"\r", b"  ", lines[2])))
    tasks = open_tasks(path)
    path.unlink()

    assert lines == [tasks.line(row) for row in range(len(tasks))]
    assert builtin.rows()[:3] == tuple(tasks.tasks())
    tasks.close()


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", "no_rows", "tasks generate"),
        (b"\n \n", "no_rows", "no rows"),
        (builtin.rows()[0].to_json() + b"\n" + b'{"a": 1}', "invalid_task", "line 2"),
        (builtin.rows()[0].to_json()[:-9], "invalid_task", "line 1"),
        (b"\x89PNG\r\n\x1a\n", "invalid_task", "line 1"),
    ],
)
def test_what_is_no_task_file(
    tmp_path: Path, content: bytes, code: str, said: str
) -> None:
    """Empty, foreign and torn files are refused with the line and what to do."""
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content)
    with pytest.raises(RunFileError, match=said) as caught:
        open_tasks(path)

    assert code == caught.value.code


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file and a directory are told by name."""
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(RunFileError, match=path.name) as caught:
            open_tasks(path)

        assert "read_failed" == caught.value.code
