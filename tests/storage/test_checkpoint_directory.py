"""Checkpoint directories: whole or not there, whatever fails (section 4)."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat

from collections.abc import Callable, Iterator
from io import BufferedWriter
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, Literal, Self

import pytest

from ipistate.errors import CheckpointError
from ipistate.kernel.environment import Environment
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import (
    EncodedStates,
    Manifest,
    Restorable,
    SessionRecord,
)
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


CODEC = EnvironmentCodec()

EXAMPLE_DIGEST = "0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086"
EXAMPLE_RECORDS = (
    '{"episode_id": {"rollout_id": "ipi-7", "attempt": 0}, "session_id": "3f0c4f1e-6f0e-4b7c-9a55-0c2f6d1f7a10", "state": {"schema_version": 1, "environment": {"patients": {"P-7742": {"name": "R. Osei", "chart_notes": "Stable."}}, "messages": []}}}\n'
    '{"episode_id": {"rollout_id": "ipi-9", "attempt": 1}, "session_id": "b7a1c9de-2f4b-4d0e-8b61-5a9d3e8c2f44", "state": {"schema_version": 1, "environment": {"candidates": {"C-4552": {"status": "Applied"}}, "note": "caf\\u00e9"}}}\n'
)
EXAMPLE_MANIFEST = f"""{{
 "checkpoint_id": "step-120",
 "instance": "ipi",
 "kind": "resources",
 "record_count": 2,
 "records_file": "records-{EXAMPLE_DIGEST}.jsonl",
 "records_sha256": "{EXAMPLE_DIGEST}",
 "schema_version": 1
}}"""


def records_of(*worlds: dict[str, Any]) -> list[SessionRecord]:
    """Make one record for each world."""
    return [
        SessionRecord(EpisodeId(f"r{n}"), f"s{n}", Environment.of(world))
        for n, world in enumerate(worlds)
    ]


RECORDS = records_of({"a": 1}, {"b": "a\u2028b\u0085c"}, {"c": -0.0})


def lines_of(records: list[SessionRecord]) -> Iterator[Any]:
    """Write the lines of records."""
    return EncodedStates(CODEC).lines(records)


@pytest.fixture
def directory(tmp_path: Path) -> CheckpointDirectory:
    """Return the participant's directory below a temporary one."""
    return CheckpointDirectory(tmp_path, "ipi")


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that lists the participant's files."""

    def listed() -> list[str]:
        path = tmp_path / "gym" / "resources" / "ipi"
        return sorted(p.name for p in path.iterdir()) if path.exists() else []

    return listed


def write(
    directory: CheckpointDirectory,
    records: list[SessionRecord] = RECORDS,
    checkpoint_id: str = "c1",
    stop: StopFlag | None = None,
) -> Manifest:
    """Write a checkpoint."""
    return directory.write(checkpoint_id, lines_of(records), stop or StopFlag())


def world_of(record: SessionRecord) -> Environment:
    """Return the state of a record, which is a world here."""
    assert isinstance(record.state, Environment)
    return record.state


def refusal(call: Callable[..., Any], *arguments: object, **options: object) -> str:
    """Call, and return the message of the refusal."""
    with pytest.raises(CheckpointError) as caught:
        call(*arguments, **options)
    assert "invalid_checkpoint_state" == caught.value.code
    return caught.value.message


def texts(restorable: Restorable[SessionRecord]) -> list[bytes]:
    """Write what was read as lines again."""
    return [*lines_of([*restorable.records])]


def place_example(
    tmp_path: Path, name: str = f"records-{EXAMPLE_DIGEST}.jsonl"
) -> Path:
    """Write the specification's example literally."""
    path = tmp_path / "gym" / "resources" / "ipi"
    path.mkdir(parents=True)
    (path / name).write_bytes(EXAMPLE_RECORDS.encode())
    (path / "manifest.json").write_text(EXAMPLE_MANIFEST)
    return path


def test_the_example_of_the_specification_is_read(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """The example of section 4, written literally, restores."""
    place_example(tmp_path)

    assert 471 == len(EXAMPLE_RECORDS.encode())
    assert EXAMPLE_DIGEST == hashlib.sha256(EXAMPLE_RECORDS.encode()).hexdigest()
    found = directory.read(CODEC)
    assert EXAMPLE_MANIFEST.encode() == found.manifest.to_json()
    assert [EpisodeId("ipi-7"), EpisodeId("ipi-9", 1)] == [
        record.episode_id for record in found.records
    ]
    note = '{"candidates":{"C-4552":{"status":"Applied"}},"note":"café"}'
    assert note.encode() == world_of(found.records[1]).to_json()


def test_the_scope_filters_what_is_kept(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """Only records of the scope are kept; an episode without one is no error."""
    place_example(tmp_path)

    scope = [EpisodeId("ipi-9", 1), EpisodeId("ipi-7", 1), EpisodeId("unknown")]
    found = directory.read(CODEC, scope)

    assert [EpisodeId("ipi-9", 1)] == [record.episode_id for record in found.records]
    assert () == directory.read(CODEC, []).records


def test_b25_what_was_written_is_read_back(directory: CheckpointDirectory) -> None:
    """Line separators inside strings cut no record."""
    manifest = write(directory)

    found = directory.read(CODEC)

    assert manifest == found.manifest
    assert list(lines_of(RECORDS)) == texts(found)


def test_the_files_have_their_names_modes_and_digest(
    directory: CheckpointDirectory, tmp_path: Path, files: Callable[..., list[str]]
) -> None:
    """The records file is named by its digest; both files are the owner's alone."""
    manifest = write(directory)

    assert ["manifest.json", manifest.records_file] == files()
    path = tmp_path / "gym" / "resources" / "ipi"
    data = (path / manifest.records_file).read_bytes()
    assert f"records-{hashlib.sha256(data).hexdigest()}.jsonl" == manifest.records_file
    assert manifest.to_json() == (path / "manifest.json").read_bytes()
    assert {0o600} == {stat.S_IMODE((path / name).stat().st_mode) for name in files()}


def test_a_reader_of_lines_and_json_alone_understands_the_file(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """The format needs no code of ours: lines of JSON, a digest, a count."""
    manifest = write(directory)

    path = tmp_path / "gym" / "resources" / "ipi" / manifest.records_file
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    assert manifest.record_count == len(rows)
    assert {"rollout_id": "r1", "attempt": 0} == rows[1]["episode_id"]
    assert {"b": "a\u2028b\u0085c"} == rows[1]["state"]["environment"]


def test_a_checkpoint_without_records_is_a_checkpoint(
    directory: CheckpointDirectory,
) -> None:
    """A participant with nothing to store writes an empty file."""
    manifest = write(directory, [])

    name = (
        "records-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.jsonl"
    )
    assert (name, 0) == (manifest.records_file, manifest.record_count)
    assert () == directory.read(CODEC).records


def test_the_same_commit_again_changes_nothing(
    directory: CheckpointDirectory, tmp_path: Path, files: Callable[..., list[str]]
) -> None:
    """Writing what is published already is answered with the published manifest."""
    path = tmp_path / "gym" / "resources" / "ipi" / "manifest.json"
    manifest = write(directory)
    before = path.stat()

    assert manifest == write(directory)
    assert before.st_ino == path.stat().st_ino
    assert ["manifest.json", manifest.records_file] == files()


@pytest.mark.parametrize(
    ("checkpoint_id", "records"), [("c2", RECORDS), ("c1", RECORDS[:1]), ("c2", [])]
)
def test_another_commit_leaves_the_published_one_alone(
    directory: CheckpointDirectory,
    files: Callable[..., list[str]],
    checkpoint_id: str,
    records: list[SessionRecord],
) -> None:
    """A published manifest is never replaced, nor is the file it names removed."""
    manifest = write(directory)

    message = refusal(write, directory, records, checkpoint_id)

    assert "belongs to another checkpoint" in message
    assert ["manifest.json", manifest.records_file] == files()
    assert list(lines_of(RECORDS)) == texts(directory.read(CODEC))


@pytest.mark.parametrize("published", [b"{", b"[]", b"{}"])
def test_an_unreadable_manifest_is_not_replaced_either(
    directory: CheckpointDirectory,
    tmp_path: Path,
    files: Callable[..., list[str]],
    published: bytes,
) -> None:
    """Whatever stands under the name stays there."""
    path = tmp_path / "gym" / "resources" / "ipi"
    path.mkdir(parents=True)
    (path / "manifest.json").write_bytes(published)

    refusal(write, directory)

    assert ["manifest.json"] == files()
    assert published == (path / "manifest.json").read_bytes()


@pytest.mark.parametrize("racers", [4])
def test_of_racing_writers_exactly_one_publishes(
    directory: CheckpointDirectory, files: Callable[..., list[str]], racers: int
) -> None:
    """Writers of different checkpoints at one moment: one manifest, whole."""
    barrier, won, lost = Barrier(racers), [], []

    def race(number: int) -> None:
        barrier.wait()
        try:
            won.append(write(directory, RECORDS[:number], f"c{number}"))
        except CheckpointError:
            lost.append(number)

    threads = [Thread(target=race, args=(number,)) for number in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (1, racers - 1) == (len(won), len(lost))
    assert won == [directory.read(CODEC).manifest]
    assert ["manifest.json", won[0].records_file] == files()


def test_a_writer_that_is_overtaken_at_the_last_moment_gives_way(
    directory: CheckpointDirectory,
    files: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the check and the link another writer may publish."""
    link = os.link

    def overtaken(*names: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        write(directory, RECORDS[:1], "faster")
        link(*names)

    monkeypatch.setattr(os, "link", overtaken)

    refusal(write, directory)

    manifest = directory.read(CODEC).manifest
    assert "faster" == manifest.checkpoint_id
    assert ["manifest.json", manifest.records_file] == files()


# -- faults -----------------------------------------------------------------------


def test_every_sync_is_a_named_step(
    directory: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four parents of directories, the records, their name, the manifest, its name."""
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    write(directory)

    assert 8 == len(synced)


def noting(steps: list[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that notes its name before it is called."""

    def noted(*arguments: object) -> Any:
        steps.append(name)
        return real(*arguments)

    return noted


def test_records_are_synced_before_the_manifest_is_linked(
    directory: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No manifest is visible whose records could be lost."""
    steps: list[str] = []
    for owner, name in ((os, "fsync"), (Path, "replace"), (os, "link")):
        real = getattr(owner, name)
        monkeypatch.setattr(
            owner,
            name,
            noting(steps, name, real),
        )

    write(directory)

    assert ["fsync", "replace", "fsync", "fsync", "link", "fsync"] == steps[4:]


class FullDisk:
    """A file on a disk that fills up."""

    def __init__(self, file: BufferedWriter, room: int) -> None:
        """Wrap a file, leaving so much room."""
        self.file, self.room = file, room

    def __enter__(self) -> Self:
        """Open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.file.close()

    def write(self, data: bytes) -> int:
        """Write while there is room."""
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Be a file otherwise."""
        member: Callable[..., Any] = getattr(self.file, name)
        return member


@pytest.mark.parametrize("room", [0, 10, 150, 400])
def test_b40_a_full_disk_leaves_nothing_behind(
    directory: CheckpointDirectory,
    files: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    room: int,
) -> None:
    """ENOSPC in records or manifest: refused, no manifest, no temporary file."""
    real, left = os.fdopen, [room]

    def fdopen(descriptor: int, mode: Literal["wb"]) -> FullDisk:
        disk = FullDisk(real(descriptor, mode), left[0])
        left[0] = 0
        return disk

    monkeypatch.setattr(os, "fdopen", fdopen)

    assert "No space left" in refusal(write, directory)
    assert "manifest.json" not in files()
    assert [] == [file for file in files() if file.startswith(".")]
    monkeypatch.undo()
    assert write(directory) == directory.read(CODEC).manifest


def test_an_operating_system_error_names_its_file(tmp_path: Path) -> None:
    """A checkpoint directory that is a file is refused by name."""
    (tmp_path / "file").write_text("x")
    directory = CheckpointDirectory(tmp_path / "file", "ipi")

    assert f"Not a directory ({tmp_path}/file" in refusal(write, directory)
    assert "no checkpoint here" in refusal(directory.read, CODEC)


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """The last part of the path must be a directory, too."""
    (tmp_path / "gym" / "resources").mkdir(parents=True)
    (tmp_path / "gym" / "resources" / "ipi").write_text("x")

    assert "not a directory" in refusal(write, CheckpointDirectory(tmp_path, "ipi"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_refused(tmp_path: Path) -> None:
    """Without the right to write there is no checkpoint and no trace."""
    tmp_path.chmod(0o500)
    try:
        message = refusal(write, CheckpointDirectory(tmp_path, "ipi"))
    finally:
        tmp_path.chmod(0o700)

    assert "Permission denied" in message


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_paths_the_system_cannot_be_asked_for_are_refused(
    tmp_path: Path, name: str
) -> None:
    """A path with a null character is a refusal like any other."""
    directory = CheckpointDirectory(tmp_path / name, "ipi")

    refusal(write, directory)
    refusal(directory.read, CODEC)


def test_a_record_that_cannot_be_written_refuses_the_commit(
    directory: CheckpointDirectory, files: Callable[..., list[str]]
) -> None:
    """A state outside JSON fails the commit and leaves nothing."""

    class Broken(EnvironmentCodec):
        def encode(self, state: Environment) -> bytes:
            return Environment.of({"a": state, "b": object()}).to_json()

    lines = EncodedStates(Broken()).lines(RECORDS)

    assert "cannot carry" in refusal(directory.write, "c1", lines, StopFlag())
    assert [] == files()


@pytest.mark.parametrize("kind", ["../x", "", "a/b", "a\n", ".."])
def test_unsafe_names_touch_no_file(tmp_path: Path, kind: str) -> None:
    """Check 1: kind and instance are names, never paths."""
    for directory in (
        CheckpointDirectory(tmp_path, "ipi", kind),
        CheckpointDirectory(tmp_path, kind),
    ):
        assert "cannot name a participant" in refusal(write, directory)
        assert "cannot name a participant" in refusal(directory.read, CODEC)
    assert [] == list(tmp_path.iterdir())


# -- stopping ---------------------------------------------------------------------


@pytest.mark.parametrize("after", range(len(RECORDS) + 1))
def test_a_write_stopped_at_any_record_publishes_nothing(
    directory: CheckpointDirectory, files: Callable[..., list[str]], after: int
) -> None:
    """The flag is looked at before each record and before the publication."""
    stop = StopFlag()

    def lines() -> Iterator[bytes]:
        for number, line in enumerate(lines_of(RECORDS)):
            if number == after:
                stop.stop()
            yield line
        stop.stop()

    assert "stopped" in refusal(directory.write, "c1", lines(), stop)
    assert [] == files()
    assert write(directory) == directory.read(CODEC).manifest


def test_a_stop_waits_for_a_publication_that_is_running(
    directory: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the rename to the manifest the flag cannot be set."""
    stop, held, link = StopFlag(), [], os.link

    def linking(*names: Path) -> None:
        held.append(stop._lock.acquire(blocking=False))
        link(*names)

    monkeypatch.setattr(os, "link", linking)

    manifest = write(directory, stop=stop)
    stop.stop()

    assert [False] == held
    assert manifest == directory.read(CODEC).manifest
    assert "stopped" in refusal(stop.check)


# -- reading ----------------------------------------------------------------------


def change_manifest(**changes: Any) -> Callable[..., None]:
    """Change members of the manifest."""

    def change(path: Path) -> None:
        file = path / "manifest.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def rewrite(replace: Callable[..., bytes]) -> Callable[..., None]:
    """Change the records file and give it a matching manifest."""

    def change(path: Path) -> None:
        file = path / f"records-{EXAMPLE_DIGEST}.jsonl"
        data = replace(file.read_bytes())
        file.write_bytes(data)
        digest, count = hashlib.sha256(data).hexdigest(), data.count(b"\n")
        change_manifest(records_sha256=digest, record_count=count)(path)

    return change


def damage(replace: Callable[..., bytes]) -> Callable[..., None]:
    """Change the records file alone."""

    def change(path: Path) -> None:
        file = path / f"records-{EXAMPLE_DIGEST}.jsonl"
        file.write_bytes(replace(file.read_bytes()))

    return change


def unlink(name: str) -> Callable[..., None]:
    """Remove a file."""
    return lambda path: (path / name).unlink()


def put(data: bytes) -> Callable[..., int]:
    """Write another manifest."""
    return lambda path: (path / "manifest.json").write_bytes(data)


CHECKS = {
    "2 no manifest": (unlink("manifest.json"), "no checkpoint here"),
    "3 manifest is not JSON": (put(b"{"), "manifest.json: $: "),
    "3 manifest is not UTF-8": (put(b"\xff"), "UTF-8"),
    "3 manifest is an array": (put(b"[]"), "expected an object"),
    "4 another version": (change_manifest(schema_version=2), "$.schema_version"),
    "5 a foreign kind": (change_manifest(kind="agent"), "$.kind"),
    "5 a foreign instance": (change_manifest(instance="other"), "$.instance"),
    "6 no checkpoint id": (change_manifest(checkpoint_id=None), "$.checkpoint_id"),
    "7 a path as file": (change_manifest(records_file="../x"), "$.records_file"),
    "8 no records file": (
        change_manifest(records_file="records.jsonl"),
        "records.jsonl: No such file",
    ),
    "9 a line is not JSON": (rewrite(lambda d: d[:-4] + b"\n"), "line 2: "),
    "9 an empty line": (rewrite(lambda d: d + b"\n"), "line 3: "),
    "9 no episode": (
        rewrite(lambda d: d.replace(b"episode_id", b"episode", 1)),
        "line 1: $.episode_id",
    ),
    "9 a bad state": (
        rewrite(lambda d: d.replace(b'"environment": {"c', b'"world": {"c', 1)),
        "line 2: $.state.environment",
    ),
    "9 a session twice": (
        rewrite(lambda d: d + d[: d.index(b"\n") + 1]),
        "line 3: session",
    ),
    "10 a tampered byte": (
        damage(lambda d: d.replace(b"Stable", b"stable")),
        "SHA-256",
    ),
    "10 another digest": (change_manifest(records_sha256="0" * 64), "SHA-256"),
    "11 another count": (change_manifest(record_count=3), "it has 2 lines, not 3"),
}


@pytest.mark.parametrize(("change", "part"), CHECKS.values(), ids=CHECKS)
def test_each_check_of_the_reader_names_what_failed(
    directory: CheckpointDirectory,
    tmp_path: Path,
    change: Callable[..., int | None],
    part: str,
) -> None:
    """Section 4.6: every damaged checkpoint is refused, saying where and why."""
    change(place_example(tmp_path))

    assert part in refusal(directory.read, CODEC)


def test_checks_of_the_whole_file_hold_outside_the_scope(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """A foreign record must parse and name its episode; the digest covers all."""
    rewrite(lambda d: d.replace(b'"ipi-9"', b'"-"'))(place_example(tmp_path))

    assert "line 2: $.episode_id" in refusal(directory.read, CODEC, [])


def test_an_invalid_state_outside_the_scope_is_not_looked_at(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """Only what is restored is validated as a state."""
    change, _ = CHECKS["9 a bad state"]
    change(place_example(tmp_path))

    found = directory.read(CODEC, [EpisodeId("ipi-7")])

    assert 1 == len(found.records)


@pytest.mark.parametrize("cut", [1, 10, 200, 400])
def test_b38_a_truncated_file_is_refused_by_its_digest(
    directory: CheckpointDirectory, tmp_path: Path, cut: int
) -> None:
    """However the file was cut, the refusal names it and the digest."""
    damage(lambda data: data[:-cut])(place_example(tmp_path))

    message = refusal(directory.read, CODEC)

    assert f"records-{EXAMPLE_DIGEST}.jsonl" in message
    assert "SHA-256" in message


def test_temporary_files_are_not_mistaken_for_data(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """What a killed writer left is no checkpoint, and a later commit may use it."""
    path = tmp_path / "gym" / "resources" / "ipi"
    path.mkdir(parents=True)
    (path / ".records.jsonl.abc").write_text("{")
    (path / ".manifest.json.abc").write_text(EXAMPLE_MANIFEST)

    assert "no checkpoint here" in refusal(directory.read, CODEC)
    assert write(directory) == directory.read(CODEC).manifest


def test_an_unreadable_disk_is_a_refusal(
    directory: CheckpointDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check 12: an error of the system becomes a refusal, not a crash."""
    place_example(tmp_path)

    real = os.open

    for suffix in (".json", ".jsonl"):

        def broken(path: Path, *arguments: int, suffix: str = suffix) -> int:
            if Path(path).suffix == suffix:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(path, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", broken)

            assert f"{suffix}: Input/output error" in refusal(directory.read, CODEC)


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")],
    ids=["fifo", "directory", "device without an end"],
)
@pytest.mark.parametrize("name", ["manifest.json", f"records-{EXAMPLE_DIGEST}.jsonl"])
def test_what_is_no_regular_file_is_refused_at_once(
    directory: CheckpointDirectory,
    tmp_path: Path,
    name: str,
    make: Callable[..., Any],
) -> None:
    """Nothing waits for the writer of a fifo or reads a device; nothing stays open."""
    file = place_example(tmp_path) / name
    file.unlink()
    make(file)
    before = len([*Path("/dev/fd").iterdir()])

    assert f"{name} is not a regular file" in refusal(directory.read, CODEC)
    assert before == len([*Path("/dev/fd").iterdir()])


def test_a_huge_manifest_is_not_read(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """A file that is far larger than any manifest is refused before it is read."""
    path = tmp_path / "gym" / "resources" / "ipi"
    path.mkdir(parents=True)
    with (path / "manifest.json").open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(CheckpointError, match="longer than"):
        directory.read_manifest()


def test_a_fifo_in_the_manifest_s_place_refuses_a_commit(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """A writer that finds a manifest reads it, and does not wait for a fifo's writer."""
    path = tmp_path / "gym" / "resources" / "ipi"
    path.mkdir(parents=True)
    os.mkfifo(path / "manifest.json")

    assert "not a regular file" in refusal(write, directory)


def test_a_file_that_grows_while_it_is_read_is_refused(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """No more is read than the size that the file had, and the digest tells."""
    records = place_example(tmp_path) / f"records-{EXAMPLE_DIGEST}.jsonl"

    class Growing(EnvironmentCodec):
        """A codec during whose work somebody appends to the file."""

        def decode(
            self, tree: dict[str, Any], adopt: Callable[..., Any]
        ) -> Environment:
            """Append a line without an end."""
            with records.open("ab") as file:
                file.write(b"x" * 100_000)
            return EnvironmentCodec.decode(self, tree, adopt)

    message = refusal(directory.read, Growing())

    assert "SHA-256" in message
    assert "line 3: $: Expecting value" in message


def test_b37_one_invalid_record_refuses_the_batch(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """A valid state first does not save a batch with an invalid one."""
    rewrite(
        lambda data: data.replace(
            b'{"candidates": {"C-4552": {"status": "Applied"}}', b"["
        ).replace(b', "note": "caf\\u00e9"}', b"]")
    )(place_example(tmp_path))

    message = refusal(directory.read, CODEC)

    assert "line 2: $.state.environment" in message


def test_b14_a_second_state_in_a_record_refuses_the_file(
    directory: CheckpointDirectory, tmp_path: Path
) -> None:
    """With a matching digest, too: the duplicate is named."""
    line = b'{"session_id": "s", "state": {"a": 1}, "state": {}}\n'
    rewrite(lambda _: line)(place_example(tmp_path))

    assert "line 1: $.state: member 'state' stands there" in refusal(
        directory.read, CODEC
    )


def test_b6_equal_worlds_are_one_object_after_a_restore(tmp_path: Path) -> None:
    """What sessions shared they share again, and so do parts of what they changed."""
    table = {f"P-{n}": {"name": f"N {n}"} for n in range(5)}
    worlds = [
        {"patients": table},
        {"patients": table},
        {"patients": {**table, "x": {}}},
    ]
    directory = CheckpointDirectory(tmp_path, "ipi")
    lines = EncodedStates(CODEC).lines(records_of(*worlds))
    directory.write("c", lines, StopFlag())
    first, second, third = (r.state for r in directory.read(CODEC).records)

    assert first is second
    assert isinstance(first, Environment)
    assert isinstance(third, Environment)
    assert first != third
    assert all(
        first.document["patients"][name] is third.document["patients"][name]  # type: ignore[call-overload, index]
        for name in table
    )
