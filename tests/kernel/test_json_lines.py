"""A line of JSON is one line for every reader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ipistate import decode, encode, freeze, identical
from ipistate.kernel import json_line


ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
TEXTS = st.text(st.sampled_from(f'{ENDS}aé{chr(0x2027)}\u202a\ud800\U0001f600\\"'))
DOCUMENTS = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@given(DOCUMENTS)
def test_c9_readers_that_split_at_every_line_end_find_one_line(
    document: object,
) -> None:
    """C9: nothing in it is an end of a line to ``str.splitlines``, and it says the same."""
    value = freeze(document)
    line = json_line(encode(value))

    assert [line.decode()] == line.decode().splitlines()
    assert identical(value, decode(line))


@given(DOCUMENTS)
def test_c9_other_texts_keep_their_bytes(document: object) -> None:
    """C9: only these characters are written in another way."""
    text = encode(freeze(document))
    plain = not any(end in text.decode() for end in "\x85\u2028\u2029")

    assert plain == (text == json_line(text))
