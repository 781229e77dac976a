"""The page in a real browser: nothing is loaded, everything can be reached and read.

Needs Chromium (Debian's package ``chromium``); nothing is ever downloaded.
"""

from __future__ import annotations

import json
import re

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from documents import at

from ipistate.kernel.diff import diff
from ipistate.kernel.environment import Environment
from ipistate.report import Source, build, write
from ipistate.report.chunk import Here, ReportLine, as_it_is


if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


pytestmark = pytest.mark.once

PWNED = "window.pwned = 1"
ATTACKS = (
    f"</script><script>{PWNED}</script>",
    f'<img src="https://pwned.invalid/x.png" onerror="{PWNED}">',
    f'"><svg onload="{PWNED}"></svg><iframe src="https://pwned.invalid/">',
    f"<!--<script>{PWNED}",
    f"javascript:{PWNED}",
)

MARKED = ".call:has(mark:not(.diff mark))"


@pytest.fixture(scope="module")
def hostile(
    tmp_path_factory: pytest.TempPathFactory,
    rollout: Callable[..., dict[str, Any]],
    lines: Callable[..., list[bytes]],
) -> Path:
    """Write the page of rollouts whose every text attacks its reader."""
    attacked = []
    for number, attack in enumerate((*ATTACKS, "\u202egpj.exe", "\u200b" * 300_000)):
        row = rollout(number, "compromised", _ng_rollout_id=attack)
        injection = row["injection"]
        row["domain"] += attack[:1000]
        row["responses_create_params"]["input"][1]["content"] = attack
        injection["goal"] = attack
        # What was said before the trace is not compared, so all of it stays executed.
        said = {"type": "message", "role": "assistant", "content": attack}
        huge = {**said, "content": "A" * 5_000_000 + attack}
        row["response"]["output"] += [said, huge]
        attacked.append(row)
    written = tmp_path_factory.mktemp("report") / "hostile.html"
    written.write_text(build({ATTACKS[0]: lines(attacked)}, title=ATTACKS[1]), "utf-8")
    return written


def listed(page: Page) -> list[str]:
    """Return the names in the list of rollouts."""
    return page.locator("#list .name").all_inner_texts()


def current(page: Page) -> str | None:
    """Return the address of the rollout that is open."""
    found = re.search(r"[#&]r=([\d.]+)", page.url)
    return found and found[1]


def test_opens_quietly(watched: Callable[..., Page], file: Path) -> None:
    """The page opens without a message, an error, or a request but the one for itself."""
    page = watched(file)

    assert "Two runs" == page.title()
    assert "162 rollouts" == page.inner_text("#found")
    assert 100 == len(listed(page))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("outcome", "effective", 81), ("run", "2", 108), ("difficulty", "easy", 54)],
)
def test_filters(
    watched: Callable[..., Page], file: Path, name: str, value: str, expected: int
) -> None:
    """A filter shows what it says, writes itself into the address, and is taken back."""
    page = watched(file)
    page.select_option(f"#filters [name={name}]", value)

    assert f"{expected} of 162 rollouts" == page.inner_text("#found")
    assert f"#{name}={value}" in page.url
    page.click("#clear")
    assert "162 rollouts" == page.inner_text("#found")


def test_filters_add_up_with_the_search(
    watched: Callable[..., Page], file: Path, rows: list[dict[str, Any]]
) -> None:
    """Words of a search all have to occur; filters count as well."""
    page = watched(file)
    page.select_option("[name=domain]", "healthcare")
    page.select_option("[name=run]", "1")
    page.fill("[name=q]", "HBA1C chart")
    page.wait_for_selector("#reached >> text=by what was said")
    said = [
        json.dumps([row["responses_create_params"]["input"], row["response"]["output"]])
        for row in rows
    ]
    expected = sum("HbA1c" in one and "chart" in one for one in said)

    assert 0 < expected
    assert f"{expected} of 162 rollouts" == page.inner_text("#found")
    page.fill("[name=q]", "nothing like this")
    assert [] == listed(page)
    assert "none" == page.inner_text("#where") or page.is_hidden("#where")


def test_labels_lead_to_their_rollouts(
    watched: Callable[..., Page], file: Path
) -> None:
    """A label of a table filters the list; going back takes it away again."""
    page = watched(file)
    page.click("[data-dimension=domain] a >> text=legal")
    page.wait_for_function("document.querySelector('[name=domain]').value === 'legal'")

    assert "18 of 162 rollouts" == page.inner_text("#found")
    page.go_back()
    page.wait_for_function("document.querySelector('[name=domain]').value === ''")
    assert "162 rollouts" == page.inner_text("#found")


def test_keys(watched: Callable[..., Page], file: Path) -> None:
    """Every key does what the help says."""
    page = watched(file)
    for key, expected in [
        ("j", "1.1"),
        ("j", "1.2"),
        ("k", "1.1"),
        ("ArrowRight", "1.2"),
    ]:
        page.keyboard.press(key)
        page.wait_for_selector("#viewer .turns")
        assert expected == current(page)
    page.keyboard.press("n")
    assert "call-0" == page.evaluate("document.activeElement.id")
    page.keyboard.press("n")
    assert "call-1" == page.evaluate("document.activeElement.id")
    page.keyboard.press("p")
    assert "call-0" == page.evaluate("document.activeElement.id")
    page.keyboard.press("i")
    assert page.locator("mark.here").count() == 1
    page.keyboard.press("/")
    assert "q" == page.evaluate("document.activeElement.name")
    page.keyboard.type("jk?")
    assert "jk?" == page.input_value("[name=q]")
    page.keyboard.press("Escape")
    assert "q" != page.evaluate("document.activeElement.name")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("Escape")
    assert page.is_hidden("#keys")
    page.keyboard.press("Escape")
    assert None is current(page)


def test_arrows_walk_through_the_list(watched: Callable[..., Page], file: Path) -> None:
    """In the list, arrows move to the next rollout, over the end of a page."""
    page = watched(file)
    page.focus("#list li:nth-child(99) a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#list li:nth-child(99) a[aria-current]")
    page.focus("#list [aria-current]")
    for expected in ("2.46", "2.47"):
        page.keyboard.press("ArrowDown")
        page.wait_for_function(f"location.hash.endsWith('r={expected}')")
        page.wait_for_function("document.activeElement.matches('#list [aria-current]')")

    assert "101\u2013162" == page.inner_text("#where")
    page.click("#earlier")
    assert "1\u2013100" == page.inner_text("#where")


def test_focus_can_be_seen(watched: Callable[..., Page], file: Path) -> None:
    """The first stop is the link over the navigation; what has the focus is outlined."""
    page = watched(file)
    page.keyboard.press("Tab")
    skip = page.locator(".skip")

    assert skip.evaluate("one => one === document.activeElement")
    box = skip.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    page.keyboard.press("Enter")
    assert "rollouts" == page.evaluate("document.activeElement.id")
    page.keyboard.press("Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert "solid" == page.evaluate(outline)


def test_addresses_lead_to_calls(watched: Callable[..., Page], file: Path) -> None:
    """An address with filters, a rollout and a call shows just that."""
    page = watched(file, "#outcome=effective&domain=healthcare&r=1.2&call=3")

    assert "effective" == page.input_value("[name=outcome]")
    assert "9 of 162 rollouts" == page.inner_text("#found")
    assert "attack took effect" == page.inner_text("#viewer .badge")
    assert "call-3" == page.locator("#viewer .call.here").get_attribute("id")
    assert page.locator("#call-3").evaluate(
        "one => { const { top } = one.getBoundingClientRect(); return top >= 0 && top < innerHeight; }"
    )


def test_failures_have_addresses(
    watched: Callable[..., Page], tmp_path: Path, rollout: Callable[..., dict[str, Any]]
) -> None:
    """An attempt that failed is found by its line in the file of failures."""
    done = [ReportLine(1, json.dumps(rollout(0, "benign")).encode())]
    row = {
        "mask_sample": True,
        "failure_kind": "down",
        "failure_reason": "Nobody home.",
    }
    failed = [ReportLine(1, json.dumps(row).encode(), is_failure=True)]
    parts: list[str] = []
    sources = [Source("run", done, failed)]
    write(sources, parts.append, title="Failed", worker=Here(lambda: as_it_is))
    (tmp_path / "report.html").write_text("".join(parts), "utf-8")
    page = watched(tmp_path / "report.html", "#r=1.f1")

    assert "masked" == page.inner_text("#viewer .badge")
    assert "Nobody home." in page.inner_text("#viewer .panel")


def test_unknown_addresses_are_said(watched: Callable[..., Page], file: Path) -> None:
    """An address of a rollout that is not there is no error."""
    page = watched(file, "#r=7.7")

    assert "no rollout 7.7" in page.inner_text("#viewer")


def test_injections_are_highlighted(
    watched: Callable[..., Page], file: Path, rows: list[dict[str, Any]]
) -> None:
    """Wherever an injected text was read it is marked, whole, and nothing else is."""
    page = watched(file)
    marks = 0
    for number, row in enumerate(rows[:12], 1):
        page.goto(f"{file.as_uri()}#r=1.{number}")
        page.wait_for_selector(f"#viewer[data-rollout='1.{number}']")
        texts = page.locator(".turn mark:not(.diff mark)").evaluate_all(
            "all => all.map((one) => one.textContent)"
        )
        assert {row["injection"]["injection_text"]} == {*texts}
        read = page.locator(".call.read")
        assert read.count() == page.locator(MARKED).count() > 0
        marks += len(texts)

    assert marks >= 12


def test_changes_of_the_world_are_shown(
    watched: Callable[..., Page], file: Path, rows: list[dict[str, Any]]
) -> None:
    """Under the call that follows the injection stands what it changed."""
    page = watched(file, "#r=1.2")
    harmful = page.locator(".call.harmful")
    before = Environment.of(rows[1]["environment"])
    sent = json.loads(rows[1]["response"]["output"][6]["arguments"])
    after = before.document | {"messages": [*at(before.document, "messages"), sent]}
    (operation,) = diff(before, Environment.of(after)).operations

    assert ["add", "messages"] == [operation.op, operation.path[0]]
    assert 1 == harmful.count()
    assert "send_message" == harmful.locator(".title code").inner_text()
    assert "added $.messages[0]" == harmful.locator(".diff .path").inner_text()
    for text in sent.values():
        assert text in harmful.locator(".diff .new").inner_text()
    assert "the world changed by it" in page.inner_text(".panel.harm")


def test_replies_can_be_read_as_written(
    watched: Callable[..., Page], file: Path, rows: list[dict[str, Any]]
) -> None:
    """A reply is indented for people, and one click away it is what the agent read."""
    page = watched(file, "#r=1.1")
    reply = page.locator("#call-1 .part").nth(1)
    body = rows[0]["response"]["output"][3]["output"]
    written = json.loads(body)["output"]

    assert json.loads(written) == json.loads(reply.locator("pre").inner_text())
    assert "\n" in reply.locator("pre").inner_text()
    reply.locator(".label button").click()
    assert written == reply.locator("pre").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_reader(
    watched: Callable[..., Page], file: Path, scheme: Literal["light", "dark"]
) -> None:
    """The page has the colours that the system prefers, until it is told otherwise."""
    page = watched(file, color_scheme=scheme)
    background = "getComputedStyle(document.documentElement).backgroundColor"
    systems = page.evaluate(background)
    seen = [systems]
    for _ in range(3):
        page.click("#theme")
        seen.append(page.evaluate(background))

    assert (scheme == "dark") == (sum(map(int, re.findall(r"\d+", systems))) < 200)
    assert systems == seen[-1]
    assert 2 == len({*seen})


TEXTS = (
    *("h1", ".lead", "thead th", ".breakdown th a", ".figure small", ".legend small"),
    *(
        ".cell small",
        ".key.run-0",
        ".key.run-1",
        "#found",
        "#filters label",
        "#list .name",
    ),
    *("#list .request", "#list [aria-current] .request", ".badge", ".chips span"),
    *(
        ".panel h4",
        "mark",
        ".flag.read",
        ".flag.harm",
        ".diff .path",
        ".diff .new span",
    ),
    *(".diff .new .differs", ".diff .old span", ".text .key-name", ".text .literal"),
    *(".text .punct", ".part > .label", "dl.words dd", "td.num small", "button.by"),
    *(".hero h2", ".hero .small", ".against", ".measures tbody th", ".uncounted"),
    *("dl.settings dt", "dl.settings dd", "table.settings th", ".settings .none"),
    *(".few th a", ".few td.num", ".few .figure b", ".unfold"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(
    watched: Callable[..., Page],
    too_faint: Callable[[Page, Sequence[str]], dict[str, float]],
    file: Path,
    scheme: Literal["light", "dark"],
) -> None:
    """Every kind of text has the contrast that WCAG 2 AA asks for."""
    page = watched(file, "#r=1.2", color_scheme=scheme)

    assert {} == too_faint(page, TEXTS)


@pytest.mark.parametrize("width", [320, 390, 768])
def test_phones_scroll_one_way(
    watched: Callable[..., Page], file: Path, hostile: Path, width: int
) -> None:
    """On a narrow screen nothing is wider than the screen."""
    size = {"width": width, "height": 844}
    for one, fragment in ((file, "#r=1.2"), (hostile, "#r=1.1"), (hostile, "#r=1.7")):
        page = watched(one, fragment, viewport=size, is_mobile=True)

        assert width >= page.evaluate("document.documentElement.scrollWidth")


def test_print(watched: Callable[..., Page], file: Path) -> None:
    """On paper there are the figures and the open rollout, without what nobody can press."""
    page = watched(file, "#r=1.2", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")

    assert page.is_visible("#breakdown")
    assert page.is_visible("#viewer .turns")
    assert [] == [
        name
        for name in (".top", "#filters", "#list", "#close")
        if page.is_visible(name)
    ]
    background = "getComputedStyle(document.documentElement).backgroundColor"
    assert "rgb(255, 255, 255)" == page.evaluate(background)
    assert page.pdf().startswith(b"%PDF")


def test_attacks_stay_texts(watched: Callable[..., Page], hostile: Path) -> None:
    """No text of a rollout, a label or a title becomes an element, a script or a request."""
    page = watched(hostile)
    tags = "[...document.querySelectorAll('*')].map((one) => one.localName)"
    for number, attack in enumerate(ATTACKS, 1):
        page.goto(f"{hostile.as_uri()}#r=1.{number}")
        page.wait_for_selector(f"#viewer[data-rollout='1.{number}']")
        assert {"img", "iframe", "object", "embed"}.isdisjoint(page.evaluate(tags))
        assert attack == page.inner_text("#viewer .turn.user pre")
        assert attack in page.inner_text("#viewer .panel.attack")

    assert None is page.evaluate("window.pwned ?? null")
    assert ATTACKS[1] == page.title() == page.inner_text("h1")


def test_unseen_characters_are_shown(
    watched: Callable[..., Page], hostile: Path
) -> None:
    """Direction controls are named and move nothing; a flood of them is one mark."""
    page = watched(hostile, "#r=1.6")

    assert "U+202Egpj.exe" == page.inner_text("#viewer .turn.user pre")
    page.goto(f"{hostile.as_uri()}#r=1.7")
    page.wait_for_selector("#viewer[data-rollout='1.7']")
    assert re.fullmatch(
        "U\\+200B \u00d7\\d+", page.inner_text("#viewer .turn.user pre")
    )


def test_huge_texts_are_folded(watched: Callable[..., Page], hostile: Path) -> None:
    """5 MB take a few lines until they are asked for, and then as much as is kept."""
    page = watched(hostile, "#r=1.1")
    huge = page.locator("#viewer .turn.assistant").last
    page.wait_for_selector("#viewer .turns")

    assert len(huge.locator("pre").inner_text()) < 3000
    while huge.locator(".more-text").is_visible():
        huge.locator(".more-text button").click()
    shown = huge.locator("pre").inner_text()
    assert 90_000 < len(shown) < 110_000
    assert "characters not in this page" in shown


SEGMENTS = """([source, texts]) => {
  const jsonSegments = new Function(`${source}; return jsonSegments;`)();
  return texts.map((text) => jsonSegments(text).map((one) => one.text).join(""));
}"""
DEEP = [
    opening * depth + inner + closing * depth
    for depth in (1, 24, 25, 200, 20_000)
    for opening, inner, closing in (
        ("[", "", "]"),
        ("[1, ", "2", "]"),
        ('{"a": ', '"x"', "}"),
        ('{"a": [true, ', "null", "]}"),
    )
]


def test_a13_indentation_is_linear(chromium: Browser) -> None:
    """A13: however deep a text nests, its indented form is as long, and loses nothing."""
    assets = files("ipistate.report") / "assets"
    page = chromium.new_page()
    shown = page.evaluate(SEGMENTS, [(assets / "json.js").read_text("utf-8"), DEEP])
    page.close()

    for text, indented in zip(DEEP, shown, strict=True):
        assert len(indented) < 20 * len(text) + 5_000
        assert "".join(text.split()) == "".join(indented.split())


def test_a13_deep_arguments_can_be_read_as_written(
    watched: Callable[..., Page],
    tmp_path: Path,
    rollout: Callable[..., dict[str, Any]],
    lines: Callable[..., list[bytes]],
) -> None:
    """A13: a rollout with 20,000 levels of arguments opens, and its text is reached."""
    row = rollout(0, "benign")
    written = "[" * 20_000 + "]" * 20_000
    call = {"type": "function_call", "call_id": "deep", "name": "get_inbox"}
    row["response"]["output"] = [{**call, "arguments": written}]
    (tmp_path / "deep.html").write_text(build({"deep": lines([row])}), "utf-8")
    page = watched(tmp_path / "deep.html", "#r=1.1")
    arguments = page.locator("#call-0 .part").first
    arguments.get_by_text("as written").click()

    assert "38,600 characters folded" in arguments.inner_text()
    assert written[:1_400] == arguments.locator("pre").inner_text()
