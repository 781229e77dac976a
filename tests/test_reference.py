"""The reference of tools and of the control plane matches the code that cites it."""

from __future__ import annotations

import re

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ipistate.scoring.injection import STRICT_KEYS
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    name: (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")
    for name in ("tools", "control-plane")
}

# A section is "9.3" or "A"; a citation names one or several.
SECTION = r"(?:[A-D]|\d{1,2}(?:\.\d+)*)"
CITATION = re.compile(
    rf"(?<=reference/)(tools|control-plane)\.md, (?:sections? |[Aa]ppendix )?"
    rf"({SECTION}(?:(?:, | and | to ){SECTION})*)\b"
)


def cited(page: str) -> Iterator[tuple[str, str]]:
    """Yield each place of the sources and tests that cites a section of a page."""
    for path in (*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py")):
        text = re.sub(r"\s*\n\s*(?:# )?", " ", path.read_text("utf-8"))
        for name, sections in CITATION.findall(text):
            if name == page:
                for section in re.findall(SECTION, sections):
                    yield section, path.name


@pytest.mark.parametrize("page", PAGES)
def test_cited_sections_exist(page: str) -> None:
    """Every section that a docstring or a comment cites is a heading of the page."""
    headings = rf"^#+ (?:Appendix )?({SECTION})\b"
    sections = set(re.findall(headings, PAGES[page], re.MULTILINE))
    places = list(cited(page))

    assert places
    assert [] == [place for place in places if place[0] not in sections]


def test_tools_are_those_of_the_registry() -> None:
    """Each tool of one domain has a row with its parameters and defaults."""
    rows = re.findall(r"^\| `(\w+)` \(([^)]*)\) \|", PAGES["tools"], re.MULTILINE)
    shown = {name: re.sub(r"=`[^`]*`", "", written) for name, written in rows}
    shared = {name for name, tool in TOOLS.items() if len(tool.domains) > 1}
    declared = {
        name: ", ".join(
            [*(one if one in tool.needed else f"{one}?" for one in tool.names)]
            + ["extras ignored"] * tool.ignores_unknown
        )
        for name, tool in TOOLS.items()
        if name not in shared
    }

    assert {"send_message", "get_messages"} == shared
    assert declared == shown


def test_strict_keys_are_those_of_the_verifier() -> None:
    """The table of verification types has exactly the keys that the verifier uses."""
    rows = re.findall(r"^\| `(check_\w+)` \| (.*) \|$", PAGES["tools"], re.MULTILINE)
    shown = {name: tuple(re.findall(r"`(\w+)`", keys)) for name, keys in rows}

    assert dict(STRICT_KEYS) == shown
