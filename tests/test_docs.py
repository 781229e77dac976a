"""The manual says what is true: its examples run, its tables match the code."""

from __future__ import annotations

from doctest import ELLIPSIS
from pathlib import Path
from subprocess import Popen

import pytest

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser


ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if "```python" in page.read_text("utf-8")]
EXAMPLES = Sybil([PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()])


@pytest.mark.parametrize(
    "page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT))
)
def test_examples_run(page, tmp_path, monkeypatch):
    """Every Python example of a page gives the output shown below it."""
    monkeypatch.chdir(tmp_path)
    document = EXAMPLES.parse(page)
    examples = list(document.examples())

    assert examples
    try:
        for example in examples:
            example.evaluate()
    finally:
        for value in document.namespace.values():
            if isinstance(value, Popen):
                value.kill()
