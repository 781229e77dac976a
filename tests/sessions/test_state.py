"""The state's wire form: strict, versioned, the same bytes on the way back."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate.errors import DecodeError, EncodeError, SchemaError
from ipistate.kernel import MAX_DEPTH, JsonObject, freeze, identical
from ipistate.kernel.codec import decode, decode_as, encode
from ipistate.kernel.environment import Environment
from ipistate.kernel.migration import MigrationChain
from ipistate.sessions.state import EnvironmentCodec, IPICheckpointState


GOLDEN = Path(__file__).parent / "golden" / "ipi_state_v1.json"

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=8)
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)
worlds = st.dictionaries(st.text(max_size=6), json_values, max_size=4)


def problems(document: Any) -> list[tuple[str, str]]:
    """Return code and path of every problem."""
    with pytest.raises(SchemaError) as caught:
        IPICheckpointState.from_document(document)
    return [(problem.code, problem.path) for problem in caught.value.problems]


def messages(document: dict[str, Any]) -> list[str]:
    """Return the message of every problem."""
    with pytest.raises(SchemaError) as caught:
        IPICheckpointState.from_document(document)
    return [problem.message for problem in caught.value.problems]


def test_the_golden_state_of_version_1_is_read_and_written_byte_for_byte() -> None:
    """What version 1 wrote once is readable forever."""
    golden = GOLDEN.read_bytes()

    assert golden == IPICheckpointState.from_json(golden).to_json()


@given(worlds)
def test_decode_after_encode_is_the_identity(world: dict[str, Any]) -> None:
    """A state comes back with every value, type and key order."""
    state = IPICheckpointState(Environment.of(world))
    data = state.to_json()

    assert data == IPICheckpointState.from_json(data).to_json()
    assert data == IPICheckpointState.from_json(data.decode()).to_json()
    assert identical(state.to_document(), decode(data))
    assert data == encode(state.to_document())


@given(worlds)
def test_a_document_gives_the_same_state_as_its_text(world: dict[str, Any]) -> None:
    """``from_document`` reads plain and frozen data alike."""
    text = IPICheckpointState(Environment.of(world)).to_json()
    plain = {"schema_version": 1, "environment": world}

    assert text == IPICheckpointState.from_document(plain).to_json()
    assert text == IPICheckpointState.from_document(JsonObject(plain)).to_json()


def test_the_caller_keeps_no_part_of_the_state() -> None:
    """Changing the document afterwards does not reach the state."""
    plain: dict[str, Any] = {
        "schema_version": 1,
        "environment": {"patients": {"P-1": {}}},
    }
    state = IPICheckpointState.from_document(plain)
    plain["environment"]["patients"].clear()

    assert (
        b'{"schema_version":1,"environment":{"patients":{"P-1":{}}}}' == state.to_json()
    )


def test_a_shared_environment_is_not_copied() -> None:
    """Exporting is taking a reference."""
    environment = Environment.of({"a": {}})

    exported = IPICheckpointState(environment).to_document()

    assert exported["environment"] is environment.document


NO_WORLDS: tuple[Any, ...] = ([], '{"a": 1}', None, 3, True, 1.5)
NO_STATES: tuple[Any, ...] = ([], "{}", None, 1, True)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"environment": {}}, [("missing_member", "$.schema_version")]),
        ({"schema_version": 1}, [("missing_member", "$.environment")]),
        (
            {"schema_version": True, "environment": {}},
            [("wrong_type", "$.schema_version")],
        ),
        (
            {"schema_version": 1.0, "environment": {}},
            [("wrong_type", "$.schema_version")],
        ),
        (
            {"schema_version": 1, "environment": {}, "owner": None},
            [("unknown_member", "$.owner")],
        ),
        *(
            (
                {"schema_version": 1, "environment": world},
                [("wrong_type", "$.environment")],
            )
            for world in NO_WORLDS
        ),
        *((state, [("wrong_type", "$")]) for state in NO_STATES),
    ],
)
def test_validity_table_of_the_specification(
    document: Any, expected: list[tuple[str, str]]
) -> None:
    """Section 7.3: each invalid state has a code and a path of its own."""
    assert expected == problems(document)


def test_b28_every_problem_is_in_one_report() -> None:
    """Nothing is coerced; three findings are three entries with their paths."""
    document = {"schema_version": "1", "environment": None, "tags": "abc"}

    assert [
        ("wrong_type", "$.schema_version"),
        ("wrong_type", "$.environment"),
        ("unknown_member", "$.tags"),
    ] == problems(document)


def test_b29_a_misspelt_member_is_named() -> None:
    """An unknown member is refused by name, not dropped."""
    document = {"schema_version": 1, "environment": {}, "revison": 7}

    assert ["unknown member 'revison'"] == messages(document)


def test_b34_a_newer_version_is_refused_naming_both_versions() -> None:
    """A state of newer code is neither read nor taken for a known one."""
    (message,) = messages({"schema_version": 999, "environment": {}, "new": 1})

    assert "version 999 is newer than 1, the newest known here" == message
    assert [("unsupported_version", "$.schema_version")] == problems(
        {"schema_version": 999, "worlds": []}
    )


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("2", "wrong_type"),
        (None, "wrong_type"),
        (1.5, "wrong_type"),
        ([], "wrong_type"),
        (-1, "unsupported_version"),
        (0, "unsupported_version"),
    ],
)
def test_b35_missing_and_odd_versions_are_refused_each_with_its_message(
    version: Any, code: str
) -> None:
    """A version that is no version slips through no comparison."""
    document = {"schema_version": version, "environment": {}}

    assert [(code, "$.schema_version")] == problems(document)
    assert messages(document) != messages({"environment": {}})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"schema_version":1,"environment":{"a":NaN}}', "not_finite"),
        (b'{"schema_version":1,"environment":{"a":1e999}}', "not_finite"),
        (b'{"schema_version":1,"environment":{}', "syntax"),
        (b'{"schema_version":1,"environment":{"a":"\xff"}}', "not_utf8"),
    ],
)
def test_text_that_is_not_json_is_refused(text: bytes, code: str) -> None:
    """A state is read from JSON, not from what nearly is."""
    with pytest.raises(DecodeError) as caught:
        IPICheckpointState.from_json(text)

    assert code == caught.value.code


@pytest.mark.parametrize("value", [(1,), b"x", {1: 2}, float("nan"), object()])
def test_values_json_cannot_carry_are_refused(value: object) -> None:
    """In process, too, a state is JSON or it is nothing."""
    document = {"schema_version": 1, "environment": {"a": value}}
    if isinstance(value, tuple):
        assert b"[1]" in IPICheckpointState.from_document(document).to_json()
        return
    with pytest.raises(EncodeError):
        IPICheckpointState.from_document(document)


def nested(levels: int) -> Any:
    """Nest arrays to a depth."""
    return json.loads("[" * (levels - 1) + "]" * (levels - 1))


def test_the_deepest_environment_survives_the_wrapper() -> None:
    """The depth limit counts for the environment alone."""
    state = IPICheckpointState(Environment.of({"a": nested(MAX_DEPTH)}))

    assert state.to_json() == IPICheckpointState.from_json(state.to_json()).to_json()
    assert state.to_json() == encode(state.to_document())


def test_a_state_in_memory_has_the_newest_version() -> None:
    """The constructor accepts no other version and no other world."""
    environment = Environment.of({})
    for version in (2, True, 1.0):
        with pytest.raises(SchemaError) as caught:
            IPICheckpointState(environment, version)  # type: ignore[arg-type]

        assert "unsupported_version" == caught.value.code
    with pytest.raises(TypeError, match=r"write IPICheckpointState\(Environment.of\("):
        IPICheckpointState({})  # type: ignore[arg-type]


# A made-up history: version 2 renamed a table, version 3 added one.
def rename(document: JsonObject) -> JsonObject:
    """Lead from version 1 to 2."""
    world = dict(at(document, "environment"))
    world["charts"] = world.pop("patients")
    return JsonObject({"schema_version": 2, "environment": world})


def extend(document: JsonObject) -> JsonObject:
    """Lead from version 2 to 3."""
    world = {**at(document, "environment"), "orders": {}}
    return JsonObject({"schema_version": 3, "environment": world})


HISTORY = MigrationChain(3, {1: rename, 2: extend})


@pytest.mark.parametrize(
    ("version", "world"),
    [
        (1, {"patients": {"P": 1}}),
        (2, {"charts": {"P": 1}}),
        (3, {"charts": {"P": 1}, "orders": {}}),
    ],
)
def test_a_chain_brings_every_older_version_to_the_newest(
    version: int, world: dict[str, dict[str, int]]
) -> None:
    """Each step is applied in order, and none twice."""
    tree: Any = {"schema_version": version, "environment": world}
    text = encode(tree)

    environment = decode_as(text, EnvironmentCodec(HISTORY).decode)

    assert b'{"charts":{"P":1},"orders":{}}' == environment.to_json()
    assert text == encode(tree)


@pytest.mark.parametrize(
    ("version", "part"),
    [(4, "version 4 is newer than 3"), (0, "versions count from 1 to 3")],
)
def test_a_chain_refuses_versions_outside_of_it(version: int, part: str) -> None:
    """Only versions with a way to the newest are read."""
    with pytest.raises(SchemaError, match=part):
        HISTORY.upgrade(JsonObject({"schema_version": version}))


def test_a_gap_in_the_chain_is_named() -> None:
    """A version without a step is refused before any step runs."""
    chain = MigrationChain(3, {1: rename})

    with pytest.raises(SchemaError, match="no step leads from version 2 to 3"):
        chain.upgrade(JsonObject({"schema_version": 1}))


def test_a_step_that_ends_elsewhere_is_refused() -> None:
    """A step must lead to the next version."""
    chain = MigrationChain(2, {1: lambda document: document})

    with pytest.raises(SchemaError) as caught:
        chain.upgrade(JsonObject({"schema_version": 1}))

    assert "failed_migration" == caught.value.code


def refuse(document: JsonObject) -> NoReturn:
    """Refuse every document."""
    raise SchemaError("too_old", "nobody needs this any more")


@pytest.mark.parametrize(
    ("step", "code"), [(rename, "failed_migration"), (refuse, "too_old")]
)
def test_a_batch_is_migrated_fully_or_not_at_all(
    step: Callable[[JsonObject], JsonObject], code: str
) -> None:
    """One bad member refuses the batch; no document has changed."""
    codec = EnvironmentCodec(MigrationChain(2, {1: step}))
    good = JsonObject({"schema_version": 1, "environment": {"patients": {}}})
    bad = JsonObject({"schema_version": 1, "environment": []})
    before = [encode(good), encode(bad)]

    with pytest.raises(SchemaError) as caught:
        [codec.decode(document, freeze) for document in (good, bad)]

    assert code == caught.value.code
    assert before == [encode(good), encode(bad)]
