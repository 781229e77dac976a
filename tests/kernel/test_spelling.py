"""The text that ids and checkpoints are made of: a table, whatever writes it."""

from __future__ import annotations

import json

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    EncodeError,
    Environment,
    IPICheckpointState,
    JsonObject,
    JsonValue,
    Session,
    call_tool,
    decode,
    encode,
    freeze,
    identical,
    session_to_json,
)
from ipistate.kernel import MAX_DEPTH, spelling, trusted_array
from ipistate.kernel.codec import encode_checked
from ipistate.testing import json_values


TABLE = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "golden_texts.jsonl")
    .read_text("ascii")
    .splitlines()
]
NON_FINITE = pytest.mark.parametrize("number", [float("nan"), float("inf"), -1e400])


def number_of(written: str) -> int | float:
    """Read a number of the table, exact in any version: both kinds are hexadecimal."""
    is_float = "." in written or "p" in written
    return float.fromhex(written) if is_float else int(written, 16)


def value_of(row: dict[str, Any]) -> JsonValue:
    """Return the value that a row of the table is about."""
    if "points" in row:
        return freeze("".join(map(chr, row["points"])))
    return number_of(row["hex"])


def rows(*kinds: str) -> list[dict[str, Any]]:
    """Return the rows of some kinds."""
    return [row for row in TABLE if row["kind"] in kinds]


def whole_table() -> Environment:
    """Return a world with all values of the table."""
    numbers = [value_of(row) for row in rows("float", "integer")]
    return Environment.of(
        {"numbers": numbers, "strings": [value_of(row) for row in rows("string")]}
    )


@pytest.fixture
def without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write everything without the fast writer."""
    monkeypatch.setattr("ipistate.kernel.codec.dumps", spelling.spelled)
    monkeypatch.setattr("ipistate.kernel.rendering.dumps", spelling.spelled)


def test_table_is_long() -> None:
    """The table has numbers on both sides of each border, and every kind of row."""
    assert len(rows("float")) >= 150
    assert len(rows("integer")) >= 10
    assert {row["kind"] for row in TABLE} == {
        "float",
        "integer",
        "string",
        "id",
        "state",
    }


@pytest.mark.parametrize("write", [encode, spelling.spelled])
def test_b2_each_value_has_the_text_of_the_table(
    write: Callable[[JsonValue], bytes],
) -> None:
    """B2: a number or a text is written as the table says, by either writer, and read."""
    for row in rows("float", "integer", "string"):
        text = row["text"].encode()

        assert text == write(value_of(row)), row
        assert identical(value_of(row), decode(text)), row


def check_ids() -> None:
    """Compare the ids of the table with those that a tool gives."""
    for row in rows("id"):
        arguments = {
            "address": "1 Elm Street",
            "price": number_of(row["price"]),
            "bedrooms": 2,
            "bathrooms": 1.5,
        }
        done = call_tool(Environment.of({}), "create_property", arguments)

        assert [row["id"]] == list(at(done.environment.document, "property_listings"))


def check_state() -> None:
    """Compare the digest of the table with that of a stored state."""
    (row,) = rows("state")
    state = IPICheckpointState(whole_table()).to_json()

    assert row["sha256"] == sha256(state).hexdigest()


def test_b2_ids_are_those_of_the_table() -> None:
    """B2: an id that a number has gone into is the same with every dependency."""
    check_ids()


def test_b2_a_state_is_that_of_the_table() -> None:
    """B2: the bytes of a checkpoint are the same with every dependency."""
    check_state()


def test_b2_nothing_depends_on_the_fast_writer(without_orjson: None) -> None:
    """B2: ids and states are the same if the fast writer is not trusted."""
    check_ids()
    check_state()


@pytest.mark.parametrize(
    ("opened", "closed"),
    [('{"a":', "}"), ("[", "]"), ('{"a":[', "]}"), ('[1,{"a":"b","c":', "}]")],
)
def test_b1_a_value_of_any_depth_is_written(opened: str, closed: str) -> None:
    """B1: each depth is written whole; old versions of orjson corrupt memory here."""
    levels = opened.count("[") + opened.count("{")

    for times in range(MAX_DEPTH // levels):
        text = f"{opened * times}{{}}{closed * times}".encode()

        assert text == encode(decode(text))


@given(json_values())
def test_both_writers_agree(value: JsonValue) -> None:
    """The fast writer, where it can write a value, writes what the slow one does."""
    assert encode(value) == spelling.spelled(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_those_of_the_fast_writer(number: float) -> None:
    """Any float has the text that the installed orjson gives it."""
    assert orjson.dumps(number).decode() == spelling.spelled_float(number)


def test_b2_another_spelling_is_not_trusted() -> None:
    """B2: a fast writer of another text is found at once."""

    def shorter(value: object) -> bytes:
        return orjson.dumps(value).replace(b"e+", b"e")

    assert not spelling.agrees(shorter)


def test_b2_the_installed_writer_is_trusted() -> None:
    """B2: the versions of orjson that are allowed write the text of this project."""
    assert spelling.agrees(orjson.dumps)
    assert spelling.dumps is orjson.dumps


def forced(value: Any, *beside: object) -> JsonObject:
    """Return an object with a value that its immutability would refuse."""
    inner = JsonObject({"kept": None})
    dict.__setitem__(inner, "forced", value)
    return JsonObject({"t": {"r": [1.5, *beside, inner]}})


@NON_FINITE
def test_a24_a_forced_number_is_not_written_as_null(number: float) -> None:
    """A24: a number that is not finite is refused with its path, not written as null."""
    world = Environment(forced(number))

    for path, write in (
        ("$.t.r[1].forced", world.to_json),
        ("$.t.r[1].forced", IPICheckpointState(world).to_json),
        ("$.environment.t.r[1].forced", lambda: session_to_json(Session(world))),
    ):
        with pytest.raises(EncodeError) as caught:
            write()
        assert (caught.value.code, caught.value.path) == ("not_finite", path)


@NON_FINITE
def test_a24_the_slow_writer_refuses_too(number: float) -> None:
    """A24: beside an integer that only the slow writer knows, the refusal is the same."""
    with pytest.raises(EncodeError) as caught:
        encode(forced(number, 2**70))

    assert (caught.value.code, caught.value.path) == ("not_finite", "$.t.r[2].forced")


@pytest.mark.parametrize("foreign", [{1, 2}, 1j, object()])
def test_what_is_not_json_is_refused_with_its_path(foreign: object) -> None:
    """A forced value of another kind is refused like a plain one."""
    with pytest.raises(EncodeError) as caught:
        encode(forced(foreign))

    found = caught.value.code, caught.value.path
    assert found == ("unsupported_type", "$.t.r[1].forced")


def test_the_slow_writer_refuses_a_tuple() -> None:
    """What could be frozen, but has not been, is refused by the slow writer, too."""
    with pytest.raises(EncodeError, match="unsupported_type"):
        encode(forced((1, 2), 2**70))


def test_a_forced_name_is_refused() -> None:
    """A name that is no text is refused like a plain one."""
    value, name = JsonObject({"a": 1}), cast("Any", 5)
    dict.__setitem__(value, name, 1)

    with pytest.raises(EncodeError, match="key_not_string"):
        encode(value)


@given(json_values())
def test_checked_text_is_the_text(value: JsonValue) -> None:
    """Looking at a value changes nothing of its text, whether or not it has a null."""
    for array in (trusted_array([value]), trusted_array([value, None, 1.5])):
        assert encode_checked(array) == encode(array)
