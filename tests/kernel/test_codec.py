"""The codec: what it accepts, refuses and writes, by a list of texts and by laws."""

from __future__ import annotations

import json

from collections.abc import Callable, Iterator
from math import copysign
from pathlib import Path
from typing import Any, NoReturn

import orjson
import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    DecodeError,
    EncodeError,
    Environment,
    SchemaError,
    call_tool,
    decode,
    encode,
    freeze,
    identical,
    render,
    thaw,
)
from ipistate.errors import BottomlessError
from ipistate.kernel import MAX_DEPTH, JsonArray, JsonObject, JsonValue, depth
from ipistate.kernel.codec import decode_as
from ipistate.testing import (
    json_names,
    json_numbers,
    json_strings,
    json_values,
    plain_json,
)


def whole(text: str | list[Any]) -> str:
    """Write out the repetitions of a text in the list."""
    return "".join(p if isinstance(p, str) else p[0] * p[1] for p in text)


def listed() -> Iterator[tuple[str, str | bytes, str | bytes]]:
    """Read the list of texts: the text, and what comes of it."""
    path = Path(__file__).parents[1] / "data" / "json_texts.jsonl"
    for line in path.read_text("ascii").splitlines():
        row = json.loads(line)
        data = bytes.fromhex(row["hex"]) if "hex" in row else whole(row["text"])
        yield row["name"], data, row.get("code") or whole(row["encoded"]).encode()


TEXTS = {name: (data, expected) for name, data, expected in listed()}
OUTCOMES = pytest.mark.parametrize(("data", "expected"), TEXTS.values(), ids=TEXTS)


NUMBER = "-?(0|[1-9][0-9]{0,40})([.][0-9]{1,30})?([eE][+-]?[0-9]{1,3})?"


def outcome(data: str | bytes) -> str | bytes:
    """Return what decoding and encoding gives: the bytes, or the code of the error."""
    try:
        return encode(decode(data))
    except DecodeError as error:
        return error.code


@pytest.fixture
def exact_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close the fast way, so that every text takes the exact one."""

    def refuse(data: str | bytes) -> NoReturn:
        raise orjson.JSONDecodeError("closed", "", 0)

    monkeypatch.setattr("ipistate.kernel.codec.orjson.loads", refuse)


def test_list_is_long() -> None:
    """The list has at least 150 texts, accepted ones and refused ones."""
    accepted = [name for name, (_, found) in TEXTS.items() if isinstance(found, bytes)]

    assert len(TEXTS) >= 150
    assert 100 < len(accepted) < len(TEXTS) - 100


@OUTCOMES
def test_listed_text(data: str | bytes, expected: str | bytes) -> None:
    """Each text is written as listed, or refused with the listed code."""
    assert expected == outcome(data)


@OUTCOMES
def test_listed_text_exactly(
    data: str | bytes, expected: str | bytes, exact_only: None
) -> None:
    """The exact parser alone agrees with the list, and so with the fast one."""
    assert expected == outcome(data)


@OUTCOMES
def test_listed_text_inside(data: str | bytes, expected: str | bytes) -> None:
    """A text has the same fate as a member of a larger document."""
    bare = data.encode() if isinstance(data, str) else data
    found = outcome(b'{"a":[' + bare + b"]}")

    if not isinstance(expected, bytes):
        assert isinstance(found, str) or not bare.strip()
    elif depth(decode(expected)) + 2 > MAX_DEPTH:
        assert found == "too_deep"
    else:
        assert found == b'{"a":[' + expected + b"]}"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("text", ['{"a":[1,"é"]}', "[18446744073709551616]"])
def test_kinds_of_buffers(
    kind: type[bytearray | bytes | memoryview], text: str
) -> None:
    """Bytes of any kind are read like text."""
    assert text.encode() == encode(decode(kind(text.encode())))


def test_wrong_type_of_data_is_a_programming_error() -> None:
    """What is neither bytes nor text is refused as Python refuses it."""
    for data in (12, None, ["a"]):
        with pytest.raises(TypeError):
            decode(data)  # type: ignore[arg-type]


@given(json_values())
def test_decode_after_encode(value: JsonValue) -> None:
    """Decoding what was encoded gives the identical value and the same bytes."""
    text = encode(value)

    assert identical(value, decode(text))
    assert text == encode(decode(text))


@given(json_values())
def test_decode_after_render(value: float | JsonArray | JsonObject | None) -> None:
    """The text that a model reads means the same value."""
    assert identical(value, decode(render(value)))


@given(plain_json())
def test_render_is_json_dumps(value: Any) -> None:
    """Models read what json.dumps writes with its defaults, first and later times."""
    frozen = freeze(value)
    expected = json.dumps(thaw(frozen))

    assert expected == render(frozen)
    assert expected == render(frozen)


@given(plain_json())
def test_plain_data_is_written_as_frozen(value: Any) -> None:
    """Plain Python data is checked and then written as its frozen form."""
    assert encode(freeze(value)) == encode(value)
    assert render(freeze(value)) == render(value)


@given(json_values(max_depth=MAX_DEPTH - 2), json_names())
def test_text_of_a_part_stands_in_the_whole(part: JsonValue, name: str) -> None:
    """The text of a value does not depend on what stands around it."""
    whole_text = encode(freeze([part, {name: part}]))

    assert b"[%b,{%b:%b}]" % (encode(part), encode(name), encode(part)) == whole_text
    shown = f"[{render(part)}, {{{render(name)}: {render(part)}}}]"
    assert shown == render(freeze([part, {name: part}]))


@given(st.one_of(json_numbers(), json_strings()))
def test_scalars_are_read_as_json_reads_them(value: float | str) -> None:
    """Both parsers give the double, the integer and the text that json.loads gives."""
    text = json.dumps(value)

    assert identical(freeze(json.loads(text)), decode(text))


@given(st.from_regex(NUMBER, fullmatch=True))
def test_numbers_have_one_meaning(text: str) -> None:
    """A number is read exactly: int() and float() of its text, or it is refused."""
    integer = text.lstrip("-").isdigit()
    value = int(text) if integer else float(text)
    expected = value if abs(value) != float("inf") else "not_finite"
    found = outcome(text)

    assert found == (expected if isinstance(expected, str) else encode(expected))


@given(
    st.text(st.sampled_from('{}[],:"\\u0019eE+-. truefalsn\ud83d\ude00é\n'), max_size=9)
)
def test_both_parsers_agree(text: str) -> None:
    """A text of the characters of JSON has the same fate in both parsers."""
    with pytest.MonkeyPatch.context() as patch:
        fast = outcome(text)
        patch.setattr("ipistate.kernel.codec.orjson.loads", orjson_closed)

        assert outcome(text) == fast


def orjson_closed(data: str) -> NoReturn:
    """Refuse every text, so that the exact parser has to read it."""
    raise orjson.JSONDecodeError("closed", "", 0)


@pytest.mark.parametrize(
    ("text", "code", "path", "preview"),
    [
        ('{"a":[1,{"b c":NaN}]}', "not_finite", '$.a[1]["b c"]', "nan"),
        ('{"a":-1e999}', "not_finite", "$.a", "-inf"),
        (
            "[[" + "1" * 4301 + "]]",
            "integer_too_large",
            "$[0][0]",
            "int of ~4300 digits",
        ),
        ('{"a":}', "syntax", "$", "'}'"),
        ("x" * 99, "syntax", "$", f"'{'x' * 60}'…"),
        (b'["\xff\xfe"]', "not_utf8", "$", """b'\\xff\\xfe"]'"""),
        ("[" * 201 + "]" * 201, "too_deep", "$", None),
    ],
)
def test_errors_say_where(
    text: str | bytes, code: str, path: str, preview: str | None
) -> None:
    """An error names its cause and place and shows a bounded beginning of the value."""
    with pytest.raises(DecodeError) as caught:
        decode(text)

    error = caught.value
    assert (code, path, preview) == (error.code, error.path, error.preview)
    assert str(error).startswith(f"{path}: ")
    assert str(error).endswith(f"[{code}]")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[" * 1024 + "]" * 1024, DecodeError),
        ("[" * 1025 + "]" * 1025, BottomlessError),
        ('{"a":' * 1025, BottomlessError),
        (b"[[]," * 100_000, BottomlessError),
        ('["' + "[" * 2000 + '",' + "[" * 300 + "]" * 301, DecodeError),
    ],
)
def test_what_no_parser_follows_is_told_apart(
    text: str | bytes, kind: type[DecodeError]
) -> None:
    """More levels than the fast parser follows are an error of their own kind."""
    with pytest.raises(DecodeError, match="too_deep") as caught:
        decode(text)

    assert kind is type(caught.value)


def test_message_of_a_syntax_error_names_line_and_column() -> None:
    """A syntax error says what is expected, and at which line and column."""
    with pytest.raises(DecodeError, match=r"line 2 column 3 \(char 4\)"):
        decode('{\n  x"a":1}')


def test_message_of_invalid_utf8_names_the_byte() -> None:
    """An error about UTF-8 says at which byte."""
    with pytest.raises(DecodeError, match="invalid UTF-8 at byte 2 "):
        decode(b'["\xff"]')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[NaN]", "JSON has no NaN and no infinities"),
        ("[1e999]", "JSON has no NaN and no infinities"),
        ("1" * 4301, "over 4300 digits"),
        ("[" * 201 + "]" * 201, "more than 200 levels of nesting"),
        ("[" * 20_000, "more than 200 levels of nesting"),
    ],
)
def test_messages_name_the_limit(text: str, message: str) -> None:
    """A message says which limit of JSON or of this package was passed."""
    with pytest.raises(DecodeError) as caught:
        decode(text)

    assert message == caught.value.message


@pytest.mark.parametrize("write", [encode, render])
@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (float("nan"), "not_finite", "$"),
        ([float("-inf")], "not_finite", "$[0]"),
        ({"a": {1: 2}}, "key_not_string", "$.a"),
        ({"a": {1, 2}}, "unsupported_type", "$.a"),
        ([10**4300], "integer_too_large", "$[0]"),
        (b"bytes", "unsupported_type", "$"),
    ],
)
def test_plain_data_that_is_no_json(
    write: Callable[..., bytes | str], value: Any, code: str, path: str
) -> None:
    """Writing plain Python data that JSON cannot carry is refused with its path."""
    with pytest.raises(EncodeError) as caught:
        write(value)

    assert (code, path) == (caught.value.code, caught.value.path)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 2000])
@pytest.mark.parametrize(
    "end", ["", '"\\\n\x00\x1f', "\x7f", "é", "\u2028", "\ud83d", "😀"]
)
def test_long_texts_render_like_short_ones(size: int, end: str) -> None:
    """Whatever its length, alone or in a record, a text reads as json.dumps writes it."""
    text = "x" * size + end
    record = {"id": "P-1", "notes": text, "inner": {"deep": [text]}}

    assert json.dumps(text) == render(text)
    assert json.dumps(record) == render(freeze(record))
    assert json.dumps([record, text]) == render(freeze([record, text]))


def test_rendering_records_again() -> None:
    """A list of records reads the same the first, second and third time."""
    rows = [{"id": n, "notes": "é" * n} for n in range(3)]
    table = freeze({"rows": rows, "odd": [1, "a", None, [2], rows[0]]})
    expected = json.dumps(thaw(table))
    kept = at(table, "rows")

    assert json.dumps(rows) == render(kept)
    again = [render(freeze([row, *kept, 1, "a", [2]])) for row in kept for _ in (0, 1)]
    assert [
        json.dumps([row, *rows, 1, "a", [2]]) for row in rows for _ in (0, 1)
    ] == again
    assert expected == render(table)


@pytest.mark.parametrize("value", [{"a": "é"}, ["é"], [{"a": 1}], {"notes": "x" * 600}])
def test_texts_of_containers_are_made_once(
    value: Any,
) -> None:
    """The text of a frozen container is kept with it; that of plain data is not."""
    frozen = freeze(value)

    assert render(frozen) is render(frozen)
    assert render(value) is not render(value)


def test_texts_of_records_are_kept_from_the_second_search_on() -> None:
    """The first list leaves the text of its first record only, the second one of all."""
    rows = [freeze({"id": n, "notes": "n"}) for n in range(3)]
    render(freeze(rows))
    once = [hasattr(row, "text_memo") for row in rows]
    render(freeze([1, *rows]))
    odd = [hasattr(row, "text_memo") for row in rows]
    render(freeze(rows))
    twice = [hasattr(row, "text_memo") for row in rows]
    long = [freeze({"notes": "x" * 600}), freeze({"id": 1})]
    render(freeze(long))

    assert ([True, False, False], once) == (once, odd)
    assert [True, True, True] == twice
    assert all(hasattr(row, "text_memo") for row in long)


def test_build_gets_a_tree_of_its_own() -> None:
    """The builder sees the plain tree, freezes what it keeps, and may run twice."""
    seen = []

    def build(tree: dict[str, Any], adopt: Callable[..., JsonValue]) -> JsonValue:
        seen.append(type(tree))
        return adopt(tree["a"])

    assert '{"b":1}' == encode(decode_as('{"a":{"b":1},"c":[]}', build)).decode()
    assert [dict] == seen
    large = decode_as('{"a":18446744073709551616}', build)
    assert (18446744073709551616, [dict] * 3) == (large, seen)


def test_adopted_parts_have_the_full_depth_each() -> None:
    """The depth limit counts for each adopted part, not for the wrapper around it."""
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH

    assert deep == render(
        decode_as(f'{{"a":{deep}}}', lambda tree, adopt: adopt(tree["a"]))
    )


@pytest.mark.parametrize("scalar", ["1.5", "18446744073709551616", "null", '"a"'])
def test_adopted_scalars(scalar: str) -> None:
    """A scalar may be adopted, too; its digits are exact."""
    found = decode_as(f"[{scalar}]", lambda tree, adopt: adopt(tree[0]))

    assert scalar == render(found)


def test_b01_key_order_is_kept() -> None:
    """B01: seeding, reading and storing keep the order zeta, alpha, mid."""
    text = b'{"zeta":{"b":1,"aa":2},"alpha":{},"mid":[]}'
    restored = Environment.from_json(Environment.from_json(text).to_json())

    assert text == restored.to_json()
    assert ["zeta", "alpha", "mid"] == list(restored.document)


def test_b02_order_is_part_of_the_value() -> None:
    """B02: the same members in another order are another state; nothing is sorted."""
    one, other = b'{"a":1,"b":2}', b'{"b":2,"a":1}'
    first, second = decode(one), decode(other)

    assert (one, other) == (encode(first), encode(second))
    assert not identical(first, second)


def test_b04_integers_beyond_64_bits_keep_their_digits() -> None:
    """B04: the digits are the same when read by a tool, before and after a restore."""
    text = b'{"orders":{"O-1":{"order_id":"O-1","tracking":36893488147419103233}}}'
    world = Environment.from_json(text)
    again = Environment.from_json(world.to_json())
    reply = '{"order_id": "O-1", "tracking": 36893488147419103233}'

    for one in (world, again):
        assert reply == call_tool(one, "get_order_details", {"order_id": "O-1"}).output
    assert text == again.to_json()


def test_b05_integers_that_grow_beyond_64_bits_are_stored() -> None:
    """B05: a sum beyond 64 bits is exact and survives storage."""
    row = {"inventory_id": "I-1", "quantity": 18446744073709551615}
    world = Environment.of({"warehouse_inventories": {"I-1": row}})
    call = {"inventory_id": "I-1", "adjustment": 1}
    after = call_tool(world, "adjust_warehouse_quantity", call).environment

    assert b'"quantity":18446744073709551616' in after.to_json()
    assert identical(after.document, decode(after.to_json()))


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_b07_numbers_json_does_not_have(token: str) -> None:
    """B07: a number that JSON does not have is refused with its path, never null."""
    with pytest.raises(DecodeError) as caught:
        decode(f'{{"refund_id":"R-1","amount":{token}}}')

    assert ("not_finite", "$.amount") == (caught.value.code, caught.value.path)


def test_b10_lone_surrogates_travel_as_escapes() -> None:
    """B10: half of an emoji is kept and written as an escape, everywhere alike."""
    text = b'{"messages":[{"body":"hello \\ud83d"}]}'
    world = Environment.from_json(text)
    reply = call_tool(world, "get_messages", {}).output

    assert text == world.to_json()
    assert '[{"body": "hello \\ud83d"}]' == reply


def test_b10_halves_that_meet_become_one_character() -> None:
    """B10: halves that come to stand together are what their JSON text says they are."""
    stock = {"I-1": {"quantity": "\ud83d"}}
    world = Environment.of({"warehouse_inventories": stock, "a": "\ud83d\ude00"})
    call = {"inventory_id": "I-1", "adjustment": "\ude00"}
    after = call_tool(world, "adjust_warehouse_quantity", call).environment

    assert '"quantity":"😀"}},"a":"😀"}'.encode() in after.to_json()
    assert identical(after.document, decode(after.to_json()))


def test_b13_duplicate_argument_names() -> None:
    """B13: of duplicate names the last value acts, wherever the text is read."""
    text = '{"recipient":"ok@a.test","recipient":"evil@x.test"}'
    sent = call_tool(Environment.of({}), "send_message", decode(text))

    assert "Message sent to evil@x.test." == sent.output


def test_b16_too_deep_to_write_is_refused_when_read() -> None:
    """B16: what could be read but not written again is refused, naming the limit."""
    with pytest.raises(DecodeError, match="more than 200 levels"):
        Environment.from_json('{"a":' + "[" * 300 + "]" * 300 + "}")


def test_b17_depth_that_calls_add_up() -> None:
    """B17: a call whose result would be too deep is refused and changes nothing."""
    deep = freeze(json.loads("[" * 150 + "]" * 150))
    world = Environment.of({"patients": {"P-1": {"chart_notes": deep}}})
    call = {"patient_id": "P-1", "notes": deep}
    done = call_tool(world, "update_patient_chart", call)

    assert world is done.environment
    assert done.error is not None
    assert "TypeError" == done.error.type
    deeper = freeze(json.loads("[" * 199 + "]" * 199))
    done = call_tool(world, "send_message", {"body": deeper})
    assert world is done.environment
    assert done.error is not None
    assert "more than 200 levels of nesting" == done.error.message


def test_b19_float_spelling_of_replies() -> None:
    """B19: models read floats as json.dumps spells them, before and after a restore."""
    numbers = [1e-07, 0.00001, 1e16, 1e22]
    world = Environment.of({"patients": {"P-1": {"numbers": numbers}}})
    again = Environment.from_json(world.to_json())
    reply = json.dumps({"numbers": numbers})

    for one in (world, again):
        call = {"patient_id": "P-1"}
        assert reply == call_tool(one, "get_patient_record", call).output


def test_b20_sign_of_zero_and_kind_of_number() -> None:
    """B20: minus zero stays a float, 2.0 and 2 stay apart, -0 is the integer 0."""
    value = decode("[-0.0,2.0,2,-0]")

    assert "[-0.0, 2.0, 2, 0]" == render(decode(encode(value)))
    assert -1.0 == copysign(1, at(value, 0))


def test_b25_line_separators_in_strings() -> None:
    """B25: separators inside strings are kept, and a record has no raw line break."""
    value = freeze({"body": "a\u2028b\u0085c\u2029d\n\r\x0b\x1c"})
    line = encode(value)

    assert b"\n" not in line
    assert identical(value, decode(line + b"\n"))


def test_environments_are_objects() -> None:
    """JSON of another kind is no environment."""
    for text in ("[]", "null", '"{}"', "1"):
        with pytest.raises(SchemaError) as caught:
            Environment.from_json(text)

        assert "wrong_type" == caught.value.code


def taken(
    tree: dict[str, Any], adopt: Callable[..., Any]
) -> tuple[JsonValue, float | list[dict[str, float]]]:
    """Keep one part of a document and look at the others, as wrappers do."""
    return adopt(tree["part"]), tree["number"]


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**30])
def test_b04_numbers_outside_adopted_parts_are_exact(number: int) -> None:
    """B04: what a builder reads itself is as exact as what it adopts."""
    for text in (
        f'{{"part":[1],"number":{number}}}',
        f'{{"number":{number},"part":[1.5,"x"]}}',
        f'{{"part":{{}},"number":[{{"a":{number}}}]}}',
    ):
        _, found = decode_as(text, taken)

        assert json.loads(text)["number"] == found
        assert float is not type(found)


def test_b04_refusals_see_exact_numbers() -> None:
    """B04: a builder that refuses has seen the number that stands in the text."""

    def refuse(tree: dict[str, float], _: Callable[..., Any]) -> NoReturn:
        raise SchemaError("wrong", str(tree["number"]))

    with pytest.raises(SchemaError) as caught:
        decode_as('{"number":18446744073709551616}', refuse)

    assert "18446744073709551616" == caught.value.message


def test_large_floats_outside_adopted_parts() -> None:
    """A float literal stays a float, wherever it stands."""
    assert ([], 1e300) == decode_as('{"part":[],"number":1e300}', taken)
