"""Comparison of texts by renaming: one map, one-to-one, nothing but minted ids."""

from __future__ import annotations

import json

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import freeze, render, thaw
from ipistate.kernel.values import JsonValue
from ipistate.scoring.renaming import MINTED, Renaming
from ipistate.testing import json_values


IDS = st.from_regex(r"(CL-|A|CASE-DOC-)[0-9A-F]{6}", fullmatch=True)
PIECES = st.lists(st.one_of(IDS, st.sampled_from(("x", '"', "é", "\n"))), max_size=8)


@pytest.mark.parametrize(
    ("pairs", "same"),
    [
        ([("CL-AAAAAA", "CL-BBBBBB")], True),
        ([("A123456", "A654321")], True),
        ([("CL-AAAAAA x", "CL-BBBBBB y")], False),
        ([("CL-AAAAAA", "PO-BBBBBB")], False),
        ([("CL-AAAAAA", "CL-")], False),
        ([("CL-AAAAAA", "CL-BBBBBB CL-CCCCCC")], False),
        ([("CL-AAAAAA", "CL-BBBBBB"), ("CL-CCCCCC", "CL-BBBBBB")], False),
        ([("CL-AAAAAA CL-AAAAAA", "CL-BBBBBB CL-CCCCCC")], False),
        ([("CL-AAAAAA", "CL-BBBBBB"), ("CL-AAAAAA", "CL-CCCCCC")], False),
        ([("CL-AAAAAA", "CL-AAAAAA"), ("CL-AAAAAA", "CL-CCCCCC")], False),
        ([("CL-AAAAAA", "CL-AAAAAA"), ("CL-CCCCCC", "CL-AAAAAA")], False),
        ([("CL-AAAAAA CL-BBBBBB", "CL-BBBBBB CL-AAAAAA")], True),
    ],
)
def test_renaming_is_one_to_one(pairs: list[tuple[str, str]], same: bool) -> None:
    """Texts agree only under one map of ids, and no two ids become one."""
    names: Renaming | None = Renaming()
    for recorded, executed in pairs:
        names = names and names.extended(recorded, executed)

    assert same == (names is not None)


@given(pieces=PIECES, new=st.data())
def test_texts_of_renamed_ids_agree(pieces: list[str], new: st.DataObject) -> None:
    """Renamed one-to-one, a text is found to be the same and can be written again."""
    recorded = " ".join(pieces)
    old = list(dict.fromkeys(match[0] for match in MINTED.finditer(recorded)))
    tails = new.draw(st.permutations([f"{number:06X}" for number in range(len(old))]))
    ids = {name: name[:-6] + tail for name, tail in zip(old, tails, strict=True)}
    executed = MINTED.sub(lambda match: ids[match[0]], recorded)
    names = Renaming().extended(recorded, executed)

    assert names is not None
    assert ids == names.ids
    assert executed == names.applied(recorded)
    assert {o: n for o, n in ids.items() if o != n} == names.differing


@pytest.mark.parametrize(
    "text",
    [
        *("CL-00BEEF", "CL-00BEEF.", "a CL-00BEEF", "é CL-00BEEF", "éCL-00BEEF"),
        *("a\nCL-00BEEF\n", "\u2028CL-00BEEF", '"CL-00BEEF"', "\x7fCL-00BEEF"),
    ],
)
def test_ids_in_json_text(text: str) -> None:
    """An id is found in a text and in its JSON text, also after an escape."""
    assert ["CL-00BEEF"] == [match[0] for match in MINTED.finditer(text)]
    assert ["CL-00BEEF"] == [match[0] for match in MINTED.finditer(json.dumps(text))]


@pytest.mark.parametrize(
    "text",
    ["aCL-00BEEF", "CL-00BEEFa", "CL-00BEEF1", "CL-00bEEF", "00BEEF", "CL00BEEF"],
)
def test_what_is_no_id(text: str) -> None:
    """Part of a longer word, lower case, and no prefix are no minted id."""
    assert MINTED.search(text) is None


@pytest.mark.parametrize("word", ["A-", "AB-", "A", r"\nA-"])
def test_ids_are_looked_for_in_hostile_texts(word: str) -> None:
    """A text made of beginnings of ids takes no longer than its length says."""
    assert [None] == [MINTED.search(word * 100_000)]


@given(value=json_values(max_depth=20))
def test_value_without_ids_stays(value: JsonValue) -> None:
    """A value is renamed wherever it has an id, and nowhere else."""
    names = Renaming({"CL-AAAAAA": "CL-BBBBBB"})
    around = freeze({"CL-AAAAAA": [value, "see CL-AAAAAA"]})

    assert render(names.renamed(around)) == render(
        freeze({"CL-BBBBBB": [thaw(value), "see CL-BBBBBB"]})
    )
