"""Tables, filters and the search in a real browser: in an order that helps, bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import pytest

from ipistate.report import build


if TYPE_CHECKING:
    from playwright.sync_api import Page


pytestmark = pytest.mark.once

LABELS = 40
SAID = "The zebra crossing\u2019s invoice is settled."


@pytest.fixture(scope="module")
def labelled(
    tmp_path_factory: pytest.TempPathFactory,
    rollout: Callable[..., dict[str, Any]],
    lines: Callable[..., list[bytes]],
) -> Path:
    """Write the page of two runs; kind n has n rollouts, every third one followed.

    In the second run the first two kinds are always followed and the next two never.
    The last rollout of each run says what no other one does.
    """
    rows: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for kind in range(1, LABELS + 1):
        for number in range(min(kind, 14)):
            ways = "benign", "compromised"
            first = number % 3 == 0
            second = {1: True, 2: True, 3: False, 4: False}.get(kind, first)
            for listed, followed in ((rows, first), (others, second)):
                row = rollout(kind % 9, ways[followed], _ng_rollout_index=number)
                row["injection"]["verification_type"] = f"kind_{kind:02}"
                row["injection"]["vector"] = f"kind_{kind:02}"
                listed.append(row)
    rows[0]["response"]["output"] = []
    said = {"type": "message", "role": "assistant", "content": SAID}
    for listed in (rows, others):
        listed[-1]["response"]["output"].append(said)
    written = tmp_path_factory.mktemp("tables") / "tables.html"
    runs = {"first": lines(rows), "second": lines(others)}
    written.write_text(build(runs), "utf-8")
    return written


KINDS = "table[data-dimension=verification]"


def shown(page: Page, column: int = 1) -> list[str]:
    """Return what a column of the table of kinds shows, row by row."""
    cells = page.locator(
        f"{KINDS} tbody:not(.folded) tr:first-child > :nth-child({column})"
    )
    return cells.all_inner_texts()


def order(page: Page) -> list[str | None]:
    """Return the order that each heading of the table of kinds tells."""
    heads = page.locator(f"{KINDS} th[data-sort]")
    return [one.get_attribute("aria-sort") for one in heads.all()]


def in_sight(page: Page, selector: str) -> bool:
    """Tell whether the top of an element is on the screen."""
    found: bool = page.locator(selector).first.evaluate(
        "one => { const { top } = one.getBoundingClientRect(); return top >= 0 && top < innerHeight; }"
    )
    return found


def test_d11_large_labels_come_first(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: a table begins with its largest labels, and the small ones are a click away."""
    page = watched(labelled)
    sizes = [int(one) for one in shown(page, 5)]

    assert sizes == sorted(sizes, reverse=True)
    assert (14, 6) == (sizes[0], len(sizes))
    page.locator(f"{KINDS} + .unfold").click()
    assert LABELS == len(shown(page))
    page.locator(f"{KINDS} + .unfold").press("Enter")
    assert 6 == len(shown(page))


def test_d11_columns_are_about_as_tall(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: with many labels no column of tables ends far before the other one."""
    page = watched(labelled)
    heights = page.locator(".tables:not(.matrices) > div").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )

    assert 2 == len(heights)
    assert max(heights) < 1.5 * min(heights)
    assert 6_000 > page.evaluate("document.documentElement.scrollHeight")


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_d11_headings_sort(
    watched: Callable[..., Page], labelled: Path, by: str
) -> None:
    """D11: a heading sorts its table, once more the other way round, and says so."""
    page = watched(labelled)
    heading = page.locator(f"{KINDS} th[data-sort=label] button")

    def press() -> None:
        if by == "mouse":
            heading.click()
        else:
            heading.focus()
            page.keyboard.press("Enter")

    assert [None, None, None, "descending"] == order(page)
    press()
    assert ["ascending", None, None, None] == order(page)
    assert [f"kind_{n:02}" for n in range(1, 7)] == shown(page)
    press()
    assert [f"kind_{n:02}" for n in range(LABELS, LABELS - 6, -1)] == shown(page)
    assert "descending" == order(page)[0]


def test_d11_few_rollouts_do_not_lead(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: in either order of a rate, labels with few rollouts stand behind the others."""
    page = watched(labelled)
    page.locator(f"{KINDS} + .unfold").click()
    heading = page.locator(f"{KINDS} th[data-sort=rate] button")
    rates = []
    for _ in range(2):
        heading.click()
        sizes = [int(one) for one in shown(page, 5)]
        many = [one for one in sizes if one >= 10]
        assert 31 == len(many)
        assert many == sizes[: len(many)]
        rates.append([float(one.split()[0]) for one in shown(page, 3)[: len(many)]])

    assert rates == [sorted(rates[0]), sorted(rates[0], reverse=True)]


@pytest.mark.parametrize("fragment", ["#outcome=effective", "#q=chart", "#task=1"])
def test_d11_an_address_with_filters_shows_the_list(
    watched: Callable[..., Page], labelled: Path, fragment: str
) -> None:
    """D11: an address that filters leads to what it leaves, not to the page's top."""
    page = watched(labelled, fragment)

    assert in_sight(page, "#list a")
    assert page.is_enabled("#clear")


def test_d11_links_of_tables_show_the_list(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: a label, an outcome and a task lead to the list, also a second time."""
    page = watched(labelled)
    for link in (f"{KINDS} a", ".legend a", f"{KINDS} a", f"{KINDS} a"):
        page.locator(link).first.click()
        page.wait_for_function("scrollY > 500 && location.hash.length > 1")
        assert in_sight(page, "#list a")
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_function("scrollY === 0")


def test_d11_a_task_can_be_shown_alone(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: the filter of a task stays beside others, is named, and is taken back."""
    page = watched(labelled, "#task=0")
    both = page.locator("#list a").count()
    page.select_option("[name=run]", "1")

    assert both == 2 * page.locator("#list a").count() > 0
    assert "Only " in page.inner_text("#only")
    page.click("#only")
    assert page.is_hidden("#only")
    assert "task=" not in page.url


def test_d11_the_search_looks_into_conversations(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: words of what was said find their rollout, are marked there, and are reached."""
    page = watched(labelled)
    page.fill("[name=q]", "ZEBRA settled")
    page.wait_for_selector("#reached >> text=2 of them by what was said.")

    assert page.inner_text("#found").startswith("2 of ")
    page.locator("#list a").first.click()
    page.get_by_text("Go to what was searched for (2)").click()
    assert "zebra" == page.locator(".hit.here").inner_text()
    page.fill("[name=q]", "zebra 0.0.0.0")
    page.wait_for_selector("#reached >> text=0 of them")
    assert 0 == page.locator("#list a").count()


def test_d11_the_search_is_bounded(
    watched: Callable[..., Page], labelled: Path, tmp_path: Path
) -> None:
    """D11: at its limit the search stops, says how far it came, and goes on if asked."""
    text = labelled.read_text("utf-8")
    assert 'data-most="100000000"' in text
    bounded = tmp_path / "bounded.html"
    bounded.write_text(text.replace('data-most="100000000"', 'data-most="1"'), "utf-8")
    page = watched(bounded, "#q=zebra&run=1")
    steps = []
    for _ in range(40):
        page.wait_for_selector("#reached:not(:has-text('Searching'))")
        steps.append(page.inner_text("#reached"))
        if page.locator("#reached button").count() == 0:
            break
        page.click("#reached button")

    assert "64 rollouts searched for what was said. Search on" == steps[0]
    assert "1 of them by what was said." == steps[-1]
    assert page.inner_text("#found").startswith("1 of ")


def test_d11_one_figure_leads(watched: Callable[..., Page], labelled: Path) -> None:
    """D11: one rate is large, once for each run; the others stand in a table."""
    page = watched(labelled)

    assert ["resistance"] == page.locator(".hero").evaluate_all(
        "all => all.map((one) => one.dataset.measure)"
    )
    assert 2 == page.locator(".hero .big").count() == page.locator(".big").count()
    assert 7 == page.locator(".measures tbody").count()


def test_d11_hostile_words_are_only_searched(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: signs of patterns in a search stand for themselves."""
    page = watched(labelled)
    for words in ("(((", "[a-z", "\\", "a{99999999}", ".*.*.*=", "</script>"):
        page.goto(f"{labelled.as_uri()}#{urlencode({'q': words, 'r': '1.1'})}")
        page.wait_for_function(
            "([words]) => document.querySelector('[name=q]').value === words",
            arg=[words],
        )
        page.wait_for_selector("#viewer[data-rollout='1.1'] .turns")
        assert 0 == page.locator(".hit").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_d11_texts_can_be_read(
    watched: Callable[..., Page],
    too_faint: Callable[[Page, Sequence[str]], dict[str, float]],
    labelled: Path,
    scheme: Literal["light", "dark"],
) -> None:
    """D11: changes, hits, calm badges and grey rows have the contrast of WCAG 2 AA."""
    page = watched(labelled, "#r=1.1&q=zebra", color_scheme=scheme)
    texts = (".asked a", ".asked small", ".better", ".worse", ".badge", "#reached")

    assert "resisted, task not done" == page.inner_text(".badge")
    assert {} == too_faint(page, texts)
    page.wait_for_selector("#reached >> text=2 of them")
    page.locator("#list a").first.click()
    page.wait_for_selector(".hit")
    assert {} == too_faint(page, [".hit"])


def test_d11_changed_tasks_are_listed(
    watched: Callable[..., Page], labelled: Path
) -> None:
    """D11: tasks that went otherwise stand there with both counts, and lead to both runs."""
    page = watched(labelled)
    rows = page.locator(".changes tbody tr")
    found = [tuple(one.split("\t")[1:]) for one in rows.all_inner_texts()]

    assert {("1 of 1", "0 of 1", "\u2212100.0"), ("2 of 3", "3 of 3", "+33.3")} < {
        *found
    }
    assert "of 40 tasks in both" in page.inner_text("#changed .lead")
    rows.first.locator("a").click()
    page.wait_for_selector("#only:not([hidden])")
    assert {"1", "2"} == {*page.locator("#list .key").all_inner_texts()}
