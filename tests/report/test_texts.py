"""Texts: bounded, with what matters kept; what is unseen is named."""

from __future__ import annotations

import unicodedata

from html.parser import HTMLParser

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.report.texts import Texts, clipped, is_invisible, spelled, visible


@given(st.text(max_size=300), st.integers(2, 40))
def test_clipping_is_bounded_and_honest(text: str, limit: int) -> None:
    """Pieces and gaps add up to the text; the pieces stay within the limit."""
    pieces = clipped(text, limit=limit)
    kept = "".join(piece for piece in pieces if isinstance(piece, str))
    gaps = sum(piece for piece in pieces if isinstance(piece, int))

    assert len(kept) <= limit
    assert len(text) == len(kept) + gaps
    assert text.startswith(str(pieces[0]))


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_what_matters_is_kept(before: int, after: int) -> None:
    """The first place that matters survives a cut, wherever it is."""
    text = "a" * before + "NEEDLE" + "b" * after
    pieces = clipped(text, ["NEEDLE"], limit=200)

    assert any("NEEDLE" in piece for piece in pieces if isinstance(piece, str))


def test_equal_texts_are_kept_once() -> None:
    """The same text has the same number."""
    texts = Texts()
    numbers = [texts.add(text) for text in ("a", "b", "a")]

    assert [0, 1, 0] == numbers
    assert [["a"], ["b"]] == texts.kept


class _Read(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(
    st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=40)
)
def test_visible_texts_are_themselves(text: str) -> None:
    """A text without anything unseen reads the same, and adds no elements."""
    shown = "".join(one for one in text if not is_invisible(one))
    read = _Read(str(visible(shown)))

    assert shown == read.text
    assert {"bdi"} == {*read.tags} - {"wbr"}


@given(st.text(st.characters(), max_size=40))
def test_no_text_leaves_its_element(text: str) -> None:
    """Whatever a text is, its markup has only our elements, and can be encoded."""
    markup = str(visible(text))
    read = _Read(markup)

    assert {*read.tags} <= {"bdi", "span", "wbr"}
    assert markup.encode()
    assert not any(is_invisible(one) for one in read.text)


UNSEEN = (
    *("\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\ud800", "\x00", "\x1b"),
    *("\u00ad", "\u00a0", "\u3164", "\u2800", "\ufe0f", "\U000e0041", "\U000e0100"),
    "\u2028",
)


@pytest.mark.parametrize("character", UNSEEN)
def test_unseen_characters_are_named(character: str) -> None:
    """Direction controls, zero widths, fillers and half characters are written out."""
    name = f"U+{ord(character):04X}"

    assert name in str(visible(f"a{character}b"))
    assert f"a[{name}]b" == spelled(f"a{character}b")


def test_runs_are_counted() -> None:
    """A flood of one unseen character is one mark with a number."""
    assert 1 == str(visible("\u200b" * 10_000)).count("unseen")
    assert "\u00d710000" in str(visible("\u200b" * 10_000))


def test_scripts_of_the_world_are_left_alone() -> None:
    """Letters, marks, digits and punctuation of any script are no unseen characters."""
    text = "Grüße, 你好, مرحبا, שלום, नमस्ते, привет, €5, 1\u20442, n\u0131\u0308"

    assert text == spelled(text), [unicodedata.name(one) for one in text]
