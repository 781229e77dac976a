"""The manual says what is true: its examples run, its tables match the code."""

from __future__ import annotations

import ast
import json
import re
import runpy

from collections.abc import Iterator
from doctest import ELLIPSIS
from pathlib import Path
from subprocess import Popen

import pytest

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

from ipistate import (
    Environment,
    IPICheckpointState,
    session_from_json,
    session_to_json,
)
from ipistate.cli.app import VERBS
from ipistate.protocol.actions import STATUS_OF
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.operations import OPERATIONS
from ipistate.protocol.records import (
    EncodedStates,
    SessionRecord,
    read_manifest,
    read_record,
)
from ipistate.server import ServerSettings
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if "```python" in page.read_text("utf-8")]
EXAMPLES = Sybil([PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()])

# A code is the first argument of an error, of a problem, or of a finding.
CODES = re.compile(
    r'(?:Error|Problem|cls|_Mismatch|refuse|refused|rule|_invalid)\(\s*"([a-z]\w+)"'
    r'|\bcode(?:, message)? ?= ?"([a-z]\w+)"'
    r'|(?:yield|,) "(?:error|warning)", "([a-z]\w+)"'
)


CITED_PAGE = re.compile(r"docs/[\w/-]+\.md")
_NUMBERS = r"[\d.]*\d(?:(?:,| and| to) [\d.]*\d)*"
CITED_SECTIONS = re.compile(
    rf"(?i:sections?|appendix)\s+({_NUMBERS}|[A-D]\b)|(?<=\.md), ({_NUMBERS})"
)
SECTION_NUMBER = re.compile(r"[\d.]*\d|[A-D]")
HEADING = re.compile(r"^#+ (?:Appendix )?([\d.]*\d|[A-D](?=:)) ?", re.MULTILINE)


def named(page: Path) -> str:
    """Name a page in the test report."""
    return str(page.relative_to(ROOT))


def read(name: str) -> str:
    """Return the text of a page."""
    return (DOCS / name).read_text("utf-8")


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a page that are marked with a language."""
    return re.findall(rf"```{language}\n(.*?)```", read(name), re.DOTALL)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=named)
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def docstrings() -> Iterator[tuple[str, str]]:
    """Visit the docstrings of the package, with the names of their files."""
    for source in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            value = node.value if isinstance(node, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield named(source), value.value


def test_d12_docstrings_cite_what_readers_have() -> None:
    """D12: a docstring that cites a section names its page, which has that section."""
    wrong: list[tuple[str, str]] = []
    for source, text in docstrings():
        pages = CITED_PAGE.findall(text)
        cited = {
            number
            for listed in CITED_SECTIONS.findall(text)
            for number in SECTION_NUMBER.findall("".join(listed))
        }
        missing = {page for page in pages if not (ROOT / page).exists()}
        texts = [(ROOT / page).read_text("utf-8") for page in {*pages} - missing]
        there = {number for one in texts for number in HEADING.findall(one)}
        wrong += [(source, what) for what in sorted(missing | (cited - there))]

    assert [] == wrong


@pytest.mark.parametrize("verb", VERBS)
def test_d12_every_verb_is_in_the_lists(verb: str) -> None:
    """D12: the page of the command line lists each verb, and has its section."""
    page = read("reference/cli.md")

    assert re.search(rf"^  {verb} ", page, re.MULTILINE)
    assert f"## ipistate {verb}\n" in page


def test_d12_the_demo_is_shown_with_both_tables() -> None:
    """D12: the README's transcript of the demo begins with its first table."""
    page = (ROOT / "README.md").read_text("utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0]

    assert shown.startswith("exported world ")
    assert "domain       rollouts  at checkpoint" in shown


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files(page: Path) -> None:
    """Every relative link of a page leads to a file of the repository."""
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
    targets = {target: page.parent / target for target in linked}

    assert [] == [name for name, path in targets.items() if not path.exists()]


def test_every_code_is_listed() -> None:
    """The page of error codes lists exactly the codes that the sources use."""
    sources = (ROOT / "src").rglob("*.py")
    found = [CODES.findall(source.read_text("utf-8")) for source in sources]
    used = {code for hits in found for hit in hits for code in hit if code}
    listed = set(
        re.findall(r"^\| `(\w+)` \|", read("reference/error-codes.md"), re.MULTILINE)
    )

    assert used | set(STATUS_OF) == listed


def test_statuses_are_those_of_the_code() -> None:
    """The status of each refused operation stands in the page of error codes."""
    table = re.findall(
        r"^\| `(\w+)` \| (\d{3}) \|", read("reference/error-codes.md"), re.MULTILINE
    )

    assert dict(STATUS_OF) == {code: int(status) for code, status in table}


def test_the_page_of_the_command_line_is_fresh() -> None:
    """The page says what the commands say: ``python docs/cli_reference.py`` wrote it."""
    generated = runpy.run_path(str(DOCS / "cli_reference.py"))["page"]()

    assert generated.split() == read("reference/cli.md").split()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_are_described(operation: str) -> None:
    """Each operation of the control plane has its route and its paragraph."""
    page = read("reference/http.md")

    assert f"`POST /{operation}`" in page
    assert f"**{operation}**" in page


def test_state_example_is_canonical() -> None:
    """The example of a state is the text that a state with its content has."""
    example = blocks("reference/file-formats.md", "json")[0].strip()

    assert example == IPICheckpointState.from_json(example).to_json().decode()


def test_session_example_is_canonical() -> None:
    """The example of a session is read, executed again, and written as it is."""
    example = blocks("reference/file-formats.md", "json")[1].strip()

    assert example == session_to_json(session_from_json(example)).decode()


def test_record_example_is_canonical(tmp_path: Path) -> None:
    """The example of a record is the line that is written for it."""
    example = blocks("reference/file-formats.md", "json")[2]
    record = read_record(example.encode(), EnvironmentCodec(), None)

    assert record is not None
    assert example.encode() == next(EncodedStates(EnvironmentCodec()).lines([record]))


def test_manifest_example_is_canonical() -> None:
    """The example of a manifest is the text that is written for it."""
    example = blocks("reference/file-formats.md", "json")[3].strip()
    manifest = read_manifest(example.encode(), "resources", "ipi")

    assert example == manifest.to_json().decode()


def test_reply_examples_are_json() -> None:
    """Every JSON example of the routes is JSON."""
    examples = blocks("reference/http.md", "json")

    assert examples
    assert [] == [text for text in examples if not isinstance(json.loads(text), dict)]


def test_limits_are_those_of_the_settings() -> None:
    """The sizes on the page of limits are the settings' defaults."""
    settings = ServerSettings()
    sizes = (
        settings.max_body_bytes,
        settings.max_metrics_bytes,
        settings.seed_pool_bytes,
    )
    page = read("limits.md")

    assert [] == [size for size in sizes if f"{size // 2**20} MiB" not in page]


def test_path_of_a_checkpoint_is_as_shown(tmp_path: Path) -> None:
    """A written checkpoint has the two files that the manual names."""
    record = SessionRecord(EpisodeId("ipi-7"), "s", Environment.of({}))
    lines = EncodedStates(EnvironmentCodec()).lines([record])
    manifest = CheckpointDirectory(tmp_path, "ipi").write("c", lines, StopFlag())
    shown = blocks("reference/file-formats.md", "text")[0]
    names = shown.replace("<directory>", ".").replace("<instance>", "ipi")
    expected = names.replace("<sha256>", manifest.records_sha256).split()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert sorted(Path(name) for name in expected) == sorted(
        path.relative_to(tmp_path) for path in written
    )
