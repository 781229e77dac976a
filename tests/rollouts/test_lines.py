"""Files that grow by lines lose none, whatever cuts them."""

from __future__ import annotations

import os
import resource
import signal

from pathlib import Path

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.rollouts.lines import LineFile, RunFileError, lines_of, write_whole


LINE = st.text(max_size=6).map(lambda text: f"[{text!r}, 'ü€😀']".encode())


@given(st.lists(LINE, max_size=4), st.data())
def test_a_torn_line_is_moved_aside(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    """Cut anywhere, also inside a character, whole lines stay and the rest is kept."""
    path = tmp_path_factory.mktemp("torn") / "rows.jsonl"
    whole = b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines)
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    end = whole[:cut].rfind(b"\n") + 1
    with LineFile(path) as file:
        aside = file.set_torn_aside()
        file.append(b"next")

    assert whole[:end] + b"next\n" == path.read_bytes()
    assert (aside is None) == (end == cut)
    if aside is not None:
        assert f"rows.jsonl.torn-{end}" == aside.name
        assert whole[end:cut] == aside.read_bytes()


def test_c9_a_row_is_one_line_for_every_reader(tmp_path: Path) -> None:
    """C9: ends of lines that JSON does not escape are escaped."""
    path = tmp_path / "rows.jsonl"
    with LineFile(path) as file:
        file.append('["a\u2028b\u2029c\x85ü"]'.encode())

    assert ['["a\\u2028b\\u2029c\\u0085ü"]'] == path.read_text("utf-8").splitlines()


def test_a_long_torn_line_is_found(tmp_path: Path) -> None:
    """A fragment that is longer than what is read at once is moved as a whole."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"{}\n" + b"x" * (3 * 2**20))
    with LineFile(path) as file:
        aside = file.set_torn_aside()

    assert b"{}\n" == path.read_bytes()
    assert aside is not None
    assert 3 * 2**20 == aside.stat().st_size


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """A line that has no room is not there in part, and what was there stays."""
    path, before = tmp_path / "rows.jsonl", signal.getsignal(signal.SIGXFSZ)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with LineFile(path) as file:
            file.append(b"x" * 600)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            with pytest.raises(RunFileError) as caught:
                file.append(b"y" * 600)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            file.append(b"z")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)

    assert "write_failed" == caught.value.code
    assert "--resume" in caught.value.message
    assert b"x" * 600 + b"\nz\n" == path.read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_no_space_is_said() -> None:
    """A device without room gives an error with the system's own words."""
    with LineFile(Path("/dev/full")) as file, pytest.raises(RunFileError) as caught:
        file.append(b"x")

    assert os.strerror(28) in caught.value.message


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    """A file that is written to is refused to a second writer, and free after the first."""
    path = tmp_path / "rows.jsonl"
    with LineFile(path), pytest.raises(RunFileError) as caught:
        LineFile(path)
    with LineFile(path) as file:
        file.append(b"x")

    assert "output_in_use" == caught.value.code
    assert [b"x"] == [line.text for line in lines_of(path)]


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """A path that cannot be opened is refused with its name."""
    with pytest.raises(RunFileError, match=tmp_path.name):
        LineFile(tmp_path)
    with pytest.raises(RunFileError) as caught:
        list(lines_of(tmp_path))

    assert "read_failed" == caught.value.code


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """A file that cannot be replaced stays what it is."""
    path = tmp_path / "run.json"
    write_whole(path, b"1")
    write_whole(path, b"2")
    (tmp_path / "sub").mkdir()
    with pytest.raises(RunFileError) as caught:
        write_whole(tmp_path / "sub", b"3")

    assert b"2" == path.read_bytes()
    assert "write_failed" == caught.value.code
    assert ["run.json", "sub"] == sorted(one.name for one in tmp_path.iterdir())
