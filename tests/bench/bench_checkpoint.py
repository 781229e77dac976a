"""Snapshot, commit and restore of 60 and of 1,000 sessions with 50 kB each.

The garbage collector is set as the server sets it, for the floors as well.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import tempfile

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import orjson

from measure import compare, waiting
from report import Row, row
from worlds import clinic, compact

from ipistate import Environment
from ipistate.protocol import (
    ParticipantState,
    ResourcesPart,
    ResourcesState,
    Settings,
    handle,
)
from ipistate.protocol.actions import Export, Write
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import (
    ControlCalled,
    Exported,
    RequestArrived,
    RequestEnded,
)
from ipistate.protocol.operations import CommitBody, PrepareBody
from ipistate.protocol.records import EncodedStates, SessionRecord, read_record
from ipistate.server.operating.collector import paused, spare_the_old
from ipistate.sessions.state import EnvironmentCodec, SharingCodec, StateCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


SESSIONS = (60, 1_000)
_SIZE = 50_000
_FAR = 4e9


def rows() -> Iterator[Row]:
    """Measure each step of a checkpoint on its own, without a server."""
    for sessions in SESSIONS:
        yield from _steps(sessions)


def _steps(sessions: int) -> Iterator[Row]:
    spare_the_old()
    texts = [compact(clinic(_SIZE, seed)) for seed in range(sessions)]
    worlds = {f"s{n}": Environment.from_json(text) for n, text in enumerate(texts)}
    records = tuple(
        SessionRecord(EpisodeId(f"r{n}"), name, world)
        for n, (name, world) in enumerate(worlds.items())
    )
    yield _snapshot(worlds, [orjson.loads(text) for text in texts])
    with tempfile.TemporaryDirectory() as folder:
        yield from _commits(Path(folder), records)
        yield from _restore(Path(folder), records)


def _snapshot(worlds: dict[str, Environment], plain: list[Any]) -> Row:
    prepared = _prepared(worlds)
    body = CommitBody(checkpoint_id="c1", deadline_ts=_FAR, checkpoint_dir="c1")

    def cut() -> None:
        # The shell does this in one go: the machine asks, the worlds are handed over.
        asked, actions = handle(prepared, ControlCalled(2, body), 1.0)
        (export,) = (action for action in actions if isinstance(action, Export))
        held = {name: worlds[name] for name in export.keys if name in worlds}
        _, actions = handle(asked, Exported(export.write, held), 1.0)
        (write,) = (action for action in actions if isinstance(action, Write))
        assert len(write.records) == len(worlds)

    def round_trips() -> list[Any]:
        return [json.loads(json.dumps(world)) for world in plain]

    found = compare(waiting(cut), waiting(round_trips), rounds=5)
    work = f"snapshot of {len(worlds):,} x 50 kB"
    return row(work, "json round trip of each", found, 0.005)


def _prepared(worlds: dict[str, Environment]) -> ResourcesState:
    participant, numbers = (
        ParticipantState(Settings(instance="bench"), ResourcesPart()),
        count(1),
    )
    for name, number in zip(worlds, numbers, strict=False):
        episode = EpisodeId(f"r{number}")
        seed = RequestArrived(number, "/seed_session", name, episode)
        participant, _ = handle(participant, seed, 1.0)
        participant, _ = handle(participant, RequestEnded(number, 200, name), 1.0)
    body = PrepareBody(checkpoint_id="c1", deadline_ts=_FAR)
    participant, _ = handle(participant, ControlCalled(1, body), 1.0)
    return participant


def _commits(folder: Path, records: tuple[SessionRecord, ...]) -> Iterator[Row]:
    known = EncodedStates(EnvironmentCodec())
    lines = list(known.lines(records))
    numbers = count(1)
    floor_file = folder / "floor"

    def write(encoded: EncodedStates) -> Path:
        root = folder / f"c{next(numbers)}"
        directory = CheckpointDirectory(root, "bench")
        directory.write("c1", encoded.lines(records), StopFlag())
        return root

    def floor() -> None:
        digest = hashlib.sha256()
        with floor_file.open("wb") as file:
            for line in lines:
                file.write(line)
                digest.update(line)
            file.flush()
            os.fsync(file.fileno())

    name = "sha256 + write + fsync"
    plain = waiting(floor, lambda _: floor_file.unlink())
    new = waiting(lambda: write(EncodedStates(EnvironmentCodec())), rmtree)
    first = compare(new, plain, 9)
    yield row("durable commit of the same, first", name, first, 3)
    again = compare(waiting(lambda: write(known), rmtree), plain, 9)
    yield row("durable commit of the same, unchanged", name, again, 1.3)


def _restore(folder: Path, records: tuple[SessionRecord, ...]) -> Iterator[Row]:
    directory = CheckpointDirectory(folder / "restore", "bench")
    codec = EnvironmentCodec()
    lines = list(EncodedStates(codec).lines(records))
    directory.write("c1", lines, StopFlag())
    scope = [record.episode_id for record in records]
    gc.collect()

    def read() -> object:
        with paused():
            return directory.read(codec, scope)

    def load() -> object:
        with paused():
            return [orjson.loads(line) for line in lines]

    found = compare(waiting(read), waiting(load), rounds=7)
    yield row("restore of the same", "orjson.loads of the bytes", found, 3)

    def read_lines(codec: StateCodec[Any]) -> object:
        with paused():
            return [read_record(line, codec, None) for line in lines]

    shared = waiting(lambda: read_lines(SharingCodec(codec)))
    found = compare(shared, waiting(lambda: read_lines(codec)), rounds=7)
    note = "all worlds differ, so looking for equal parts finds none"
    yield row("reading records, equal parts shared", "not shared", found, 1.1, note)
