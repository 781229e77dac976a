"""The page: closed to every network, hostile texts stay texts, figures are there."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipistate import SchemaError
from ipistate.kernel.diff import diff
from ipistate.kernel.environment import Environment
from ipistate.report import build
from ipistate.report.rollout import DIMENSIONS
from ipistate.report.texts import spelled
from ipistate.tools.transition import call_tool


if TYPE_CHECKING:
    from tests.report.conftest import Parsed


HOSTILE = [
    "</script><script>window.pwned=1</script>",
    "<!--<script>",
    '"><img src=x onerror="window.pwned=1">',
    "{{ 7 * 7 }}{% raw %}",
    "\u202egpj.exe\u202c",
    "\u200b\u2060hidden",
    "\ud800",
    "]]>&lt;&#0;\x00",
]


def test_nothing_is_loaded(html: str, parsed: type[Parsed]) -> None:
    """No element names anything to load but the empty icon; the policy forbids it too."""
    page = parsed(html)
    loading = {"src", "srcset", "action", "data", "poster", "background", "ping"}
    links = [attrs["href"] for tag, attrs in page.elements if "href" in attrs]

    assert [] == [one for one in page.elements if loading & one[1].keys()]
    assert {"data:,"} == {link for link in links if not link.startswith("#")}
    assert not re.search(r"url\(|@import|https?://", html)


def test_policy_names_the_page_s_own_script_and_style(
    html: str, parsed: type[Parsed]
) -> None:
    """Script and style are allowed by their hashes, and nothing else is."""
    page = parsed(html)
    policy = next(
        attrs["content"] for _, attrs in page.elements if "http-equiv" in attrs
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    bodies = {
        "script-src": re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[0],
        "style-src": re.findall(r"<style>(.*?)</style>", html, re.DOTALL)[0],
    }

    assert "'none'" == rules["default-src"] == rules["base-uri"] == rules["form-action"]
    assert "'script'" == rules["require-trusted-types-for"]
    for name, body in bodies.items():
        digest = hashlib.sha256(body.encode()).digest()
        assert f"'sha256-{base64.b64encode(digest).decode()}'" == rules[name]
    assert not any("style" in attrs for _, attrs in page.elements)
    assert not any(
        name.startswith("on") for _, attrs in page.elements for name in attrs
    )


def test_script_only_makes_text(html: str) -> None:
    """The script has no way to turn data into markup or code."""
    script = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[0]

    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\("
        r"|DOMParser|createContextualFragment|fetch\(|XMLHttp|WebSocket|sendBeacon",
        script,
    )


def poisoned(row: dict[str, Any], text: str) -> dict[str, Any]:
    """Put a text wherever a page shows one."""
    row = json.loads(json.dumps(row))
    injection = row["injection"]
    for name in ("attack_strategy", "attack_difficulty", "vector", "category", "goal"):
        injection[name] += text
    injection["verification_type"] += text
    row["domain"] += text
    row["_ng_rollout_id"] = text
    row["responses_create_params"]["input"][1]["content"] += text
    row["response"]["model"] = text
    message = {"type": "message", "role": text, "content": text}
    row["response"]["output"] += [message, {"type": text, "content": [text]}]
    return row


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=30))
def test_no_text_leaves_its_element(
    rollout: Callable[..., dict[str, Any]],
    lines: Callable[..., list[bytes]],
    parsed: type[Parsed],
    text: str,
) -> None:
    """The elements of a page do not depend on any text that it shows."""
    harmless = parsed(build({"run": lines([poisoned(rollout(0, "benign"), "x")])}))
    row = poisoned(rollout(0, "benign"), text)
    page = parsed(build({text or "run": lines([row])}, title=text))
    kinds = [
        [tag for tag, attrs in one.elements if tag not in {"span", "wbr"}]
        for one in (harmless, page)
    ]

    assert kinds[0] == kinds[1]
    assert spelled(text) == "".join(said for tag, said in page.texts if tag == "title")


@pytest.mark.parametrize("text", HOSTILE)
def test_data_arrives_as_it_was(
    rollout: Callable[..., dict[str, Any]],
    lines: Callable[..., list[bytes]],
    parsed: type[Parsed],
    text: str,
) -> None:
    """The viewer gets every text exactly, half characters included."""
    row = poisoned(rollout(0, "benign"), text)
    chunk = parsed(build({"run": lines([row])})).block("chunk-0")
    view = chunk["rollouts"][0]

    assert [row["injection"]["goal"]] == chunk["texts"][view["injection"]["goal"]]
    assert [text] == chunk["texts"][view["items"][-2]["text"]]
    assert text == view["items"][-2]["role"] == view["about"]["model"]


def test_huge_texts_are_cut(
    rollout: Callable[..., dict[str, Any]],
    lines: Callable[..., list[bytes]],
    parsed: type[Parsed],
) -> None:
    """A text of 5 MB takes bounded space, says what is left out, keeps the injection."""
    row = rollout(0, "benign")
    injected = row["injection"]["injection_text"]
    huge = "x" * 4_000_000 + injected + "y" * 1_000_000
    row["response"]["output"].insert(
        0, {"type": "message", "content": huge, "role": "a"}
    )
    page = build({"run": lines([row])})
    chunk = parsed(page).block("chunk-0")
    pieces = chunk["texts"][chunk["rollouts"][0]["items"][0]["text"]]

    assert len(page) < 200_000
    assert len(huge) == sum(one if isinstance(one, int) else len(one) for one in pieces)
    assert any(injected in one for one in pieces if isinstance(one, str))


def test_each_call_has_its_diff(
    rows: list[dict[str, Any]], lines: Callable[..., list[bytes]], parsed: type[Parsed]
) -> None:
    """After every call of every rollout the view has what the call changed."""
    chunks = parsed(build({"run": lines(rows)})).block("chunk-0")
    compared = 0
    for row, view in zip(rows, chunks["rollouts"], strict=True):
        world = Environment.of(row["environment"])
        for call in (one for one in view["items"] if one["kind"] == "call"):
            arguments = json.loads(chunks["texts"][call["arguments"]][0])
            after = call_tool(world, call["tool"], arguments).environment
            expected = [one.op for one in diff(world, after).operations]
            assert expected == [one["op"] for one in call["diff"]]
            assert len(expected) == call["changes"]
            compared += len(expected)
            world = after

    assert compared > len(rows)


def test_injections_are_found_where_they_were_read(
    rows: list[dict[str, Any]], lines: Callable[..., list[bytes]], parsed: type[Parsed]
) -> None:
    """A call is marked exactly if its reply, as text or inside JSON, has the injection."""
    chunks = parsed(build({"run": lines(rows)})).block("chunk-0")
    marked = 0
    for row, view in zip(rows, chunks["rollouts"], strict=True):
        injected = row["injection"]["injection_text"]
        for call in (one for one in view["items"] if one["kind"] == "call"):
            reply = "".join(chunks["texts"][call["reply"]])
            there = injected in reply or json.dumps(injected)[1:-1] in reply
            assert there == call["read"]
            marked += there

    assert marked >= len(rows)


def test_every_label_has_a_row_that_leads_to_its_rollouts(
    html: str, rows: list[dict[str, Any]], parsed: type[Parsed]
) -> None:
    """Each label of each dimension is a link; its address is the label."""
    page = parsed(html)
    links = {attrs["href"] for tag, attrs in page.elements if tag == "a"}
    index = page.block("index")

    for dimension in DIMENSIONS:
        labels = index["tables"][dimension]
        assert labels
        assert {f"#{dimension}={label}" for label in labels} <= links
    assert len(rows) == len(index["columns"]["line"])


def test_runs_are_compared(
    rows: list[dict[str, Any]], lines: Callable[..., list[bytes]]
) -> None:
    """Several runs stand side by side, with the difference to the first one."""
    benign, followed = rows[::2], rows[1::2]
    page = build({"before": lines(followed), "after": lines(benign)})

    assert page.count('data-measure="resistance"') == 1
    assert re.search(r"<b>\+100\.0</b> <small>\+\d\d\.\d to \+100\.0</small>", page)


def test_without_worlds_the_page_says_why(
    rows: list[dict[str, Any]], lines: Callable[..., list[bytes]]
) -> None:
    """Rollouts without environment are named, and what would help."""
    bare = [{k: v for k, v in row.items() if k != "environment"} for row in rows[:2]]
    page = build({"run": lines(bare)})

    assert "carry no environment" in page
    assert "--tasks" in page


def test_the_same_rollouts_give_the_same_page(
    rows: list[dict[str, Any]], lines: Callable[..., list[bytes]]
) -> None:
    """Nothing of a page depends on a clock or on chance."""
    assert build({"run": lines(rows[:4])}) == build({"run": lines(rows[:4])})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 2"),
        (b"[]", "a rollout is an object"),
        (b'{"prompt": "hello"}', "no_trace"),
        (b'{"response": {"output": []}, "injection": {}}', "$.injection"),
        (b'{"response": {"output": []}, "environment": []}', "$.environment"),
    ],
)
def test_lines_that_are_no_rollouts(
    rollout: Callable[..., dict[str, Any]],
    lines: Callable[..., list[bytes]],
    line: bytes,
    words: str,
) -> None:
    """What cannot be read is refused with its line and what is wrong with it."""
    good = lines([rollout(0, "benign")])
    with pytest.raises(SchemaError, match="line 2") as refused:
        build({"run": [*good, line]})

    assert words in str(refused.value)


def test_a_rollout_without_injection_is_shown(
    lines: Callable[..., list[bytes]], parsed: type[Parsed]
) -> None:
    """What says nothing of an injection is no error, and is judged by nothing."""
    row = {"messages": [{"role": "user", "content": "Hello"}], "mask_sample": False}
    index = parsed(build({"run": lines([row])})).block("index")

    assert ["not_assessed"] == [*index["tables"]["status"]]
    assert ["unknown"] == [*index["tables"]["domain"]]
    assert ["Hello"] == [*index["tables"]["title"]]


def test_no_rollouts_no_page() -> None:
    """A run without rollouts and a report without runs are refused."""
    with pytest.raises(SchemaError, match="no_rollouts"):
        build({"run": []})
    with pytest.raises(ValueError, match="one run"):
        build({})
