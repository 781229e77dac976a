"""Record lines and the manifest: exact text, strict and lossless reading."""

from __future__ import annotations

import hashlib
import json

from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.errors import DecodeError, SchemaError
from ipistate.kernel.environment import Environment
from ipistate.protocol.episode import MAX_SESSION_ID, EpisodeId
from ipistate.protocol.records import (
    EncodedStates,
    Manifest,
    SessionRecord,
    read_manifest,
    read_record,
    record_line,
)
from ipistate.sessions.state import EnvironmentCodec


CODEC = EnvironmentCodec()
SESSION = "3f0c4f1e-6f0e-4b7c-9a55-0c2f6d1f7a10"
STATE = {"schema_version": 1, "environment": {"a": 1}}

MANIFEST = """{
 "checkpoint_id": "step-120",
 "instance": "ipi",
 "kind": "resources",
 "record_count": 2,
 "records_file": "records-0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086.jsonl",
 "records_sha256": "0885372a7acfca090079e60f66f12715f801d42a33bc1780647904e502a30086",
 "schema_version": 1
}"""

worlds = st.dictionaries(
    st.text(max_size=6),
    st.text(st.characters(), max_size=6) | st.integers() | st.floats(-1e300, 1e300),
    max_size=3,
)


session_ids = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='"\\'),
    min_size=1,
    max_size=MAX_SESSION_ID,
)


def line_of(**members: Any) -> bytes:
    """Write a record's line with some members changed."""
    envelope = {
        "episode_id": {"rollout_id": "ipi-7"},
        "session_id": "s",
        "state": STATE,
    }
    return json.dumps(envelope | members).encode() + b"\n"


def kept(line: bytes) -> SessionRecord:
    """Read a line that is in the scope."""
    record = read_record(line, CODEC, None)
    assert record is not None
    return record


def world_of(record: SessionRecord) -> Environment:
    """Return the state of a record, which is a world here."""
    assert isinstance(record.state, Environment)
    return record.state


def refused(line: bytes, scope: frozenset[Any] | None = None) -> list[tuple[str, str]]:
    """Return code and path of every problem of a line."""
    with pytest.raises(SchemaError) as caught:
        read_record(line, CODEC, scope)
    return [(problem.code, problem.path) for problem in caught.value.problems]


def test_a_line_is_compact_json_around_the_encoded_state() -> None:
    """The state's bytes stand in the line as they are."""
    record = SessionRecord(EpisodeId("ipi-7"), SESSION, Environment.of({"a": 2.0}))
    state = CODEC.encode(world_of(record))

    line = record_line(record, state)

    expected = (
        b'{"episode_id":{"rollout_id":"ipi-7","attempt":0},"session_id":"%b","state":'
        b'{"schema_version":1,"environment":{"a":2.0}}}\n' % SESSION.encode()
    )
    assert expected == line


@given(session_ids, worlds, st.integers(0, 3))
def test_reading_a_line_gives_back_the_record(
    session: str, world: dict[str, Any], attempt: int
) -> None:
    """Any session id and any world survive, in either spacing of JSON."""
    record = SessionRecord(EpisodeId("r", attempt), session, Environment.of(world))
    line = record_line(record, CODEC.encode(world_of(record)))
    spaced = json.dumps(json.loads(line)).encode() + b"\n"

    for text in (line, spaced):
        read = read_record(text, CODEC, None)

        assert read is not None
        assert (record.episode_id, session) == (read.episode_id, read.session_id)
        assert world_of(record).to_json() == world_of(read).to_json()


@given(worlds)
def test_c9_a_records_file_has_its_lines_for_every_reader(
    world: dict[str, Any],
) -> None:
    """C9: ``str.splitlines`` finds the lines that were written; unescaped ones are read."""
    world = {**world, "note": "a\x85b\u2028c\u2029d"}
    records = [
        SessionRecord(EpisodeId(f"r{n}"), f"s{n}", Environment.of(world))
        for n in range(2)
    ]
    lines = [*EncodedStates(CODEC).lines(records)]
    earlier = record_line(records[0], CODEC.encode(world_of(records[0])))

    assert 2 == len(b"".join(lines).decode().splitlines())
    for text in (lines[0], earlier):
        read = read_record(text, CODEC, None)
        assert read is not None
        assert world_of(records[0]).to_json() == world_of(read).to_json()


@given(st.permutations(["episode_id", "session_id", "state", "owner"]))
def test_members_may_stand_in_any_order(names: list[str]) -> None:
    """A record is an object: its own members have no order."""
    members = {
        "episode_id": {"attempt": 2, "rollout_id": "ipi-7"},
        "session_id": "s%C3#~",
        "state": STATE,
        "owner": "w",
    }
    line = json.dumps({name: members[name] for name in names}).encode()

    record = read_record(line, CODEC, None)

    assert record is not None
    assert (EpisodeId("ipi-7", 2), "s%C3#~") == (record.episode_id, record.session_id)
    assert b'{"a":1}' == world_of(record).to_json()


@pytest.mark.parametrize("owner", [None, "worker"])
def test_an_owner_is_accepted_and_ignored(owner: str | None) -> None:
    """Servers with several workers write an owner; it means nothing here."""
    assert kept(line_of(owner=owner)).session_id == "s"


def test_records_outside_the_scope_are_not_built() -> None:
    """Only the scope's records are kept; the others need a valid episode alone."""
    scope = frozenset({EpisodeId("ipi-9")})

    assert read_record(line_of(), CODEC, scope) is None
    assert read_record(line_of(state=None, extra=1), CODEC, scope) is None
    assert read_record(line_of(), CODEC, frozenset({EpisodeId("ipi-7")})) is not None


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"revison": 7}, [("unknown_member", "$.revison")]),
        ({"session_id": 3}, [("wrong_type", "$.session_id")]),
        ({"owner": 3}, [("wrong_type", "$.owner")]),
        ({"state": []}, [("wrong_type", "$.state")]),
        ({"state": {"schema_version": 1}}, [("missing_member", "$.state.environment")]),
        (
            {"episode_id": {"rollout_id": "x-a1"}},
            [("invalid_rollout_id", "$.episode_id.rollout_id")],
        ),
        (
            {"episode_id": {"rollout_id": "x", "attempt": -1}},
            [("invalid_attempt", "$.episode_id.attempt")],
        ),
        ({"episode_id": "ipi-7"}, [("wrong_type", "$.episode_id")]),
    ],
)
def test_records_are_closed_and_strict(
    members: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Every fault of a record in the scope is named with its path."""
    assert expected == refused(line_of(**members))


@pytest.mark.parametrize(
    "session_id", ["", "a b", "x" * 97, "x" * 200, 'a"b', "a\\b", "a\n", "é"]
)
def test_a_session_that_no_cookie_can_name_is_refused(session_id: str) -> None:
    """It could never be continued, in either spelling of a line."""
    line = line_of(session_id=session_id)
    spaced = json.dumps(json.loads(line), ensure_ascii=False).encode()

    assert [("invalid_session_id", "$.session_id")] == refused(line)
    assert [("invalid_session_id", "$.session_id")] == refused(spaced)
    assert read_record(line, CODEC, frozenset()) is None


def test_the_longest_session_id_is_read() -> None:
    """All characters that a cookie carries unquoted may stand in an id."""
    longest = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"\\')
    longest += "x" * (MAX_SESSION_ID - len(longest))

    assert longest == kept(line_of(session_id=longest)).session_id


def test_faults_in_the_usual_form_are_named_alike() -> None:
    """The shape that our own writer gives is checked as strictly."""
    attempt = (
        b'{"episode_id":{"rollout_id":"x-a1","attempt":0},"session_id":"s","state":{}}'
    )
    state = b'{"episode_id":{"rollout_id":"x","attempt":0},"session_id":"s","state":{"schema_version":2}}'

    assert [("invalid_rollout_id", "$.episode_id.rollout_id")] == refused(attempt)
    assert [("unsupported_version", "$.state.schema_version")] == refused(state)


@pytest.mark.parametrize("line", [b"[]\n", b"3\n", b'"x"', b"null"])
def test_a_line_is_an_object(line: bytes) -> None:
    """Other JSON is no record."""
    assert [("wrong_type", "$")] == refused(line)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{\n",
        b'{"episode_id":{"rollout_id":"r","attempt":0},"session_id":"s","state":}',
        b'{"episode_id":{"rollout_id":"r","attempt":0},"session_id":"s","state":{"schema_version":1,"environment":{"a":NaN}}}',
    ],
)
@pytest.mark.parametrize("scope", [None, frozenset()])
def test_a_line_is_json(line: bytes, scope: frozenset[Any] | None) -> None:
    """What does not parse is refused, in the scope or not."""
    with pytest.raises(DecodeError):
        read_record(line, CODEC, scope)


@pytest.mark.parametrize("levels", [250, 2000])
def test_b16_a_state_too_deep_to_write_is_not_read(levels: int) -> None:
    """What a later commit could not write is refused by the restore."""
    line = (
        b'{"episode_id":{"rollout_id":"r","attempt":0},"session_id":"s","state":'
        b'{"schema_version":1,"environment":{"a":%b%b}}}\n'
    )

    with pytest.raises(DecodeError, match="too_deep"):
        read_record(line % (b"[" * levels, b"]" * levels), CODEC, None)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (b'{"session_id": "s", "state": {"a": 1}, "state": {}}', "$.state"),
        (line_of()[:-2] + b',"state":{}}', "$.state"),
        (line_of()[:-2] + b',"st\\u0061te":{}}', "$.state"),
        (line_of()[:-2] + b',"session_id":"other"}', "$.session_id"),
        (
            b'{"episode_id":{"rollout_id":"r","attempt":0},"session_id":"s","state":{},"state":{}}',
            "$.state",
        ),
        (
            b'{"episode_id":{"rollout_id":"r","rollout_id":"q"},"session_id":"s","state":{}}',
            "$.episode_id.rollout_id",
        ),
    ],
)
@pytest.mark.parametrize("scope", [None, frozenset()])
def test_b14_duplicate_members_are_refused_and_named(
    line: bytes, path: str, scope: frozenset[Any] | None
) -> None:
    """A second member of one name silently replaces nothing."""
    assert [("duplicate_member", path)] == refused(line, scope)


def test_b14_inside_the_opaque_state_the_last_value_counts() -> None:
    """Below the envelope the rule of the codec holds: the last value."""
    line = b'{"episode_id":{"rollout_id":"r","attempt":0},"session_id":"s","state":{"schema_version":1,"environment":{"a":1,"a":2}}}'

    assert b'{"a":2}' == world_of(kept(line)).to_json()


class CountingCodec(EnvironmentCodec):
    """A codec that notes what it encodes."""

    def encode(self, state: Environment) -> bytes:
        """Note and encode."""
        calls.append(state)
        return super().encode(state)


calls: Any = []


def test_an_unchanged_state_is_encoded_once() -> None:
    """The next commit reuses the text of every world that is the same object."""
    states, same = EncodedStates(CountingCodec()), Environment.of({"a": 1})
    old, new = Environment.of({"b": 1}), Environment.of({"b": 2})
    calls.clear()

    def lines(*worlds: Environment) -> list[dict[str, int]]:
        records = [
            SessionRecord(EpisodeId(f"r{n}"), f"s{n}", world)
            for n, world in enumerate(worlds)
        ]
        return [
            json.loads(line)["state"]["environment"] for line in states.lines(records)
        ]

    assert [{"a": 1}, {"b": 1}] == lines(same, old)
    assert [{"a": 1}, {"b": 2}] == lines(same, new)
    assert [same, old, new] == calls


def test_the_text_of_a_session_that_is_gone_is_forgotten() -> None:
    """Only what the last commit wrote is remembered."""
    states, world = EncodedStates(CountingCodec()), Environment.of({})
    record = SessionRecord(EpisodeId("r"), "s", world)
    calls.clear()

    for batch in ([record], [], [record]):
        list(states.lines(batch))

    assert [world, world] == calls


def manifest(**changes: Any) -> bytes:
    """Write a manifest with some members changed."""
    digest = hashlib.sha256(b"").hexdigest()
    members = {
        "schema_version": 1,
        "kind": "resources",
        "instance": "ipi",
        "checkpoint_id": "c",
        "records_file": f"records-{digest}.jsonl",
        "records_sha256": digest,
        "record_count": 0,
    }
    return json.dumps(members | changes).encode()


def test_the_manifest_of_the_specification_is_written_byte_for_byte() -> None:
    """Sorted, indented by one space, no newline at the end."""
    read = read_manifest(MANIFEST.encode(), "resources", "ipi")

    assert MANIFEST.encode() == read.to_json()
    assert list(read.to_document()) == [
        "schema_version",
        "kind",
        "instance",
        "checkpoint_id",
        "records_file",
        "records_sha256",
        "record_count",
    ]


def test_extra_members_of_a_manifest_are_ignored() -> None:
    """Other participants write members of their own."""
    data = manifest(session_owners=["w"], note={"a": 1})

    assert isinstance(read_manifest(data, "resources", "ipi"), Manifest)


def test_the_fixed_file_name_of_old_is_accepted() -> None:
    """Before digests were in names there was one name."""
    read = read_manifest(manifest(records_file="records.jsonl"), "resources", "ipi")

    assert "records.jsonl" == read.records_file


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"schema_version": 2}, "$.schema_version"),
        ({"schema_version": True}, "$.schema_version"),
        ({"schema_version": 1.0}, "$.schema_version"),
        ({"schema_version": None}, "$.schema_version"),
        ({"kind": "agent"}, "$.kind"),
        ({"instance": "other"}, "$.instance"),
        ({"checkpoint_id": 7}, "$.checkpoint_id"),
        ({"records_file": "../../etc/passwd"}, "$.records_file"),
        ({"records_file": "records-abc.jsonl"}, "$.records_file"),
        ({"records_file": "records.jsonl\n"}, "$.records_file"),
        ({"records_file": None}, "$.records_file"),
        ({"records_sha256": 7}, "$.records_sha256"),
        ({"record_count": "0"}, "$.record_count"),
        ({"record_count": True}, "$.record_count"),
    ],
)
def test_manifests_are_checked_in_order(changes: dict[str, Any], path: str) -> None:
    """Checks 4 to 7: the first one that fails is named."""
    with pytest.raises(SchemaError) as caught:
        read_manifest(manifest(**changes), "resources", "ipi")

    assert path == caught.value.path


@pytest.mark.parametrize("data", [b"[]", b"null", b'"x"'])
def test_a_manifest_is_an_object(data: bytes) -> None:
    """Check 3: other JSON is no manifest."""
    with pytest.raises(SchemaError, match="expected an object"):
        read_manifest(data, "resources", "ipi")


def test_b14_duplicate_members_of_a_manifest_are_refused() -> None:
    """A manifest that says two things says nothing."""
    data = manifest()[:-1] + b', "record_count": 5}'

    with pytest.raises(SchemaError, match="record_count"):
        read_manifest(data, "resources", "ipi")
