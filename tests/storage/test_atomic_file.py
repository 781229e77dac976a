"""Files that appear when they are complete, or not at all."""

from __future__ import annotations

import stat

from pathlib import Path
from typing import NoReturn

import pytest

from ipistate.storage.atomic_file import AtomicFile, write_atomically


def names(directory: Path) -> list[str]:
    """Return what is in a directory."""
    return sorted(one.name for one in directory.iterdir())


def test_the_older_file_stays_until_the_new_one_is_published(tmp_path: Path) -> None:
    """Before ``publish`` a reader finds the older content, afterwards the new one."""
    path = tmp_path / "page"
    path.write_bytes(b"old")
    file = AtomicFile(path)
    file.write(b"new")
    before = path.read_bytes()
    file.publish()

    assert (b"old", b"new") == (before, path.read_bytes())
    assert ["page"] == names(tmp_path)


def test_discarding_leaves_nothing(tmp_path: Path) -> None:
    """What was not published is gone; what was published stays."""
    (tmp_path / "page").write_bytes(b"old")
    file = AtomicFile(tmp_path / "page")
    file.write(b"new")
    file.discard()
    write_atomically(tmp_path / "other", b"whole")

    assert ["other", "page"] == names(tmp_path)
    assert b"old" == (tmp_path / "page").read_bytes()
    assert b"whole" == (tmp_path / "other").read_bytes()


def test_the_content_is_on_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced, then renamed, then the directory is synced."""
    steps: list[str] = []
    monkeypatch.setattr("os.fsync", lambda _: steps.append("sync"))
    monkeypatch.setattr(
        Path, "replace", lambda *_: steps.append("rename"), raising=True
    )
    write_atomically(tmp_path / "page", b"new")

    assert ["sync", "rename", "sync"] == steps


def test_a_failure_keeps_the_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the content is brought to it changes nothing."""

    def full(_: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    (tmp_path / "page").write_bytes(b"old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "page", b"new")

    assert b"old" == (tmp_path / "page").read_bytes()
    assert ["page"] == names(tmp_path)


def test_a_closed_directory_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file has its name even where its directory cannot be synced by us."""

    def closed(_: Path) -> NoReturn:
        raise PermissionError

    monkeypatch.setattr("ipistate.storage.atomic_file.sync_directory", closed)
    write_atomically(tmp_path / "page", b"new")

    assert b"new" == (tmp_path / "page").read_bytes()


def test_links_are_followed(tmp_path: Path) -> None:
    """A symbolic link stays one, and its target has the new content."""
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", b"new")

    assert (tmp_path / "link").is_symlink()
    assert b"new" == (tmp_path / "target").read_bytes()


def test_a_device_is_written_to(tmp_path: Path) -> None:
    """A device is never replaced, not even behind a link, and not removed."""
    (tmp_path / "null").symlink_to("/dev/null")
    write_atomically(tmp_path / "null", b"gone")
    with pytest.raises(OSError, match="No space left"):
        write_atomically(Path("/dev/full"), b"1")

    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """A directory cannot be replaced by a file."""
    with pytest.raises(IsADirectoryError):
        AtomicFile(tmp_path)

    assert [] == names(tmp_path)
