"""Records of environments and agents: golden lines, and what is refused."""

from __future__ import annotations

import json

from pathlib import Path
from typing import Any

import pytest

from hypothesis import given

from ipistate.errors import DecodeError, SchemaError
from ipistate.kernel import MAX_DEPTH, JsonObject, JsonValue, identical, unstructure
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.steps.agent_run import RUN_BOUNDARIES, RunBoundary, RunReturn
from ipistate.protocol.steps.episode_records import (
    AgentSessionRecord,
    AgentSessionRecords,
    EnvironmentRecord,
    EnvironmentRecords,
)
from ipistate.protocol.steps.turn_boundaries import (
    TURN_BOUNDARIES,
    SessionHandles,
    TurnBoundary,
    TurnClose,
    TurnVerify,
)
from ipistate.testing import json_objects, json_values


ENVIRONMENTS = EnvironmentRecords(TURN_BOUNDARIES)
AGENTS = AgentSessionRecords(RUN_BOUNDARIES)


def lines_of(data: Path, name: str) -> list[bytes]:
    """Return the golden lines of a file."""
    return (data / name).read_bytes().splitlines(keepends=True)


def test_golden_lines_of_an_environment(data: Path) -> None:
    """Every boundary of version 1 is read and written byte for byte."""
    lines = lines_of(data, "environment_records.jsonl")
    found = [ENVIRONMENTS.reader(None)(line) for line in lines]
    records = [record for record in found if record is not None]

    assert lines == [*ENVIRONMENTS.lines(records)]
    kinds = {type(record.boundary) for record in records}
    assert kinds == {type(None), *TURN_BOUNDARIES.kinds.values()}
    assert "ipi-5-a2" in map(ENVIRONMENTS.key, records)


def test_golden_lines_of_an_agent(data: Path) -> None:
    """Every boundary of version 1 is read and written byte for byte."""
    lines = lines_of(data, "agent_records.jsonl")
    found = [AGENTS.reader(None)(line) for line in lines]
    records = [record for record in found if record is not None]

    assert lines == [*AGENTS.lines(records)]
    kinds = {type(record.episode) for record in records}
    assert kinds == {type(None), *RUN_BOUNDARIES.kinds.values()}
    assert {"run:ipi-1", "run:ipi-2"} < {*map(AGENTS.key, records)}


@pytest.mark.parametrize(
    ("codec", "name", "inside"),
    [
        (ENVIRONMENTS, "environment_records.jsonl", EpisodeId("ipi-5", 2)),
        (AGENTS, "agent_records.jsonl", EpisodeId("ipi-6", 3)),
    ],
)
def test_an_episode_outside_the_scope_is_passed_over(
    data: Path, codec: Any, name: str, inside: EpisodeId
) -> None:
    """Only the records of the scope are made; of the others the episode is read."""
    read = codec.reader({inside})
    found = [read(line) for line in lines_of(data, name)]

    assert [inside] == [one.episode_id for one in found if one is not None]


HANDLES = SessionHandles.of("0" * 32, "f" * 32)


@given(json_objects(), json_values())
def test_what_an_environment_records_comes_back(
    response: JsonObject, observed: JsonValue
) -> None:
    """Order, numbers and depth of what is opaque included."""
    boundary: TurnBoundary = TurnVerify(
        handles=HANDLES, response=response, observations=observed
    )
    record = EnvironmentRecord[TurnBoundary](
        episode_id=EpisodeId("r", 1), task_digest="a" * 64, boundary=boundary
    )
    (line,) = ENVIRONMENTS.lines([record])
    again = ENVIRONMENTS.reader(None)(line)

    assert again is not None
    assert isinstance(again.boundary, TurnVerify)
    assert identical(response, again.boundary.response)
    assert identical(observed, again.boundary.observations)
    assert [line] == [*ENVIRONMENTS.lines([again])]
    assert line.count(b"\n") == 1


@given(json_objects(), json_objects(), json_objects())
def test_what_an_agent_records_comes_back(
    session: JsonObject, loop: JsonObject, response: JsonObject
) -> None:
    """Order, numbers and depth of what is opaque included."""
    episode: RunBoundary = RunReturn(response=response, result=loop)
    record = AgentSessionRecord[RunBoundary](
        episode_id=EpisodeId("r"),
        session_key="run:r",
        session=session,
        boundary=loop,
        episode=episode,
    )
    (line,) = AGENTS.lines([record])
    again = AGENTS.reader(None)(line)

    assert again is not None
    assert again.boundary is not None
    assert identical(session, again.session)
    assert identical(loop, again.boundary)
    assert [line] == [*AGENTS.lines([again])]


def test_an_opaque_part_may_be_as_deep_as_any_document() -> None:
    """What a model has sent is stored, whatever stands around it."""
    deep: Any = {}
    for _ in range(MAX_DEPTH - 1):
        deep = {"a": deep}
    response = JsonObject(deep)
    record = EnvironmentRecord[TurnBoundary](
        episode_id=EpisodeId("r"),
        task_digest="a" * 64,
        boundary=TurnClose(handles=HANDLES, response=response),
    )
    (line,) = ENVIRONMENTS.lines([record])

    assert record == ENVIRONMENTS.reader(None)(line)


# -- what is refused

RECORD = {
    "episode_id": {"rollout_id": "r"},
    "task_digest": "a" * 64,
    "boundary": None,
}
SEED = {"next": "seed", "handles": unstructure(HANDLES)}
SESSION = {
    "episode_id": {"rollout_id": "r", "attempt": 1},
    "session_key": "run:r",
    "session": {},
    "boundary": None,
    "episode": None,
}


def problem(codec: Any, document: object) -> tuple[str, str]:
    """Return code and path of the error that a line causes."""
    with pytest.raises(SchemaError) as caught:
        codec.reader(None)(json.dumps(document).encode())
    return caught.value.code, caught.value.path


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a document that lacks a member."""
    return {key: member for key, member in document.items() if key != name}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([], ("wrong_type", "$")),
        (without(RECORD, "episode_id"), ("missing_member", "$.episode_id")),
        (without(RECORD, "task_digest"), ("missing_member", "$.task_digest")),
        (without(RECORD, "boundary"), ("missing_member", "$.boundary")),
        ({**RECORD, "state": {}}, ("unknown_member", "$.state")),
        ({**RECORD, "task_digest": "A" * 64}, ("invalid_digest", "$.task_digest")),
        ({**RECORD, "task_digest": 7}, ("wrong_type", "$.task_digest")),
        ({**RECORD, "boundary": []}, ("wrong_type", "$.boundary")),
        ({**RECORD, "boundary": {}}, ("missing_member", "$.boundary.next")),
        (
            {**RECORD, "boundary": {**SEED, "next": "verfy"}},
            ("unknown_boundary", "$.boundary.next"),
        ),
        (
            {**RECORD, "boundary": {"next": "seed"}},
            ("missing_member", "$.boundary.handles"),
        ),
        ({**RECORD, "schema_version": 2}, ("unsupported_version", "$.schema_version")),
        ({**RECORD, "schema_version": True}, ("wrong_type", "$.schema_version")),
        ({**RECORD, "schema_version": 1}, ("unknown_member", "$.schema_version")),
        (SESSION, ("missing_member", "$.task_digest")),
    ],
)
def test_bad_environment_records(document: Any, expected: tuple[str, str]) -> None:
    """Each has a code and the path of what is wrong."""
    assert expected == problem(ENVIRONMENTS, document)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (without(SESSION, "session"), ("missing_member", "$.session")),
        (without(SESSION, "boundary"), ("missing_member", "$.boundary")),
        (without(SESSION, "episode"), ("missing_member", "$.episode")),
        ({**SESSION, "session": None}, ("wrong_type", "$.session")),
        ({**SESSION, "boundary": 1}, ("wrong_type", "$.boundary")),
        ({**SESSION, "session_key": "run:q"}, ("invalid_session_key", "$.session_key")),
        ({**SESSION, "session_key": ""}, ("invalid_session_key", "$.session_key")),
        ({**SESSION, "session_key": "a b"}, ("invalid_session_key", "$.session_key")),
        ({**SESSION, "owner": 1}, ("wrong_type", "$.owner")),
        ({**SESSION, "schema_version": 2}, ("unsupported_version", "$.schema_version")),
        (
            {**SESSION, "episode": {"next": "invoke_agent"}},
            ("unknown_boundary", "$.episode.next"),
        ),
        (
            {**SESSION, "episode": {"next": "seed", "cookies": {}}},
            ("unknown_member", "$.episode.cookies"),
        ),
        (RECORD, ("missing_member", "$.session_key")),
    ],
)
def test_bad_agent_records(document: Any, expected: tuple[str, str]) -> None:
    """Each has a code and the path of what is wrong."""
    assert expected == problem(AGENTS, document)


def test_members_of_servers_with_several_workers_are_ignored() -> None:
    """Earlier agents wrote which worker had a session."""
    document = {**SESSION, "owner": "0" * 32, "session_id": None}

    assert AGENTS.reader(None)(json.dumps(document).encode()) is not None


@pytest.mark.parametrize(
    ("codec", "line", "path"),
    [
        (ENVIRONMENTS, b'{"boundary":null,"boundary":{}}', "$.boundary"),
        (ENVIRONMENTS, b'{"boundary":{"next":"a","next":"b"}}', "$.boundary.next"),
        (AGENTS, b'{"episode":{"next":"a","next":"b"}}', "$.episode.next"),
        (AGENTS, b'{"episode_id":{"attempt":0,"attempt":1}}', "$.episode_id.attempt"),
    ],
)
def test_no_member_stands_twice(codec: Any, line: bytes, path: str) -> None:
    """Two readers could take a record for two different ones."""
    with pytest.raises(SchemaError) as caught:
        codec.reader(None)(line)

    assert ("duplicate_member", path) == (caught.value.code, caught.value.path)


@pytest.mark.parametrize("line", [b"", b"{", b'{"boundary":NaN}'])
def test_a_line_that_is_no_json(line: bytes) -> None:
    """It is refused as text."""
    with pytest.raises(DecodeError):
        ENVIRONMENTS.reader(None)(line)
