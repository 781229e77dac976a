"""Generated rows: what they depend on, how they vary, and what they do not show."""

from __future__ import annotations

import json
import re

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Any

import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate.errors import SchemaError
from ipistate.generate import (
    DIFFICULTIES,
    DOMAINS,
    LARGEST,
    SMALLEST,
    STRATEGIES,
    generate,
)
from ipistate.kernel.codec import encode
from ipistate.kernel.values import JsonObject, JsonValue
from ipistate.scoring.audit import audit
from ipistate.scoring.injection import STRICT_KEYS, Injection
from ipistate.scoring.task import Task
from ipistate.scoring.trajectories import Trajectories
from ipistate.tools import RECORDS


ALL = tuple(DOMAINS)
FIRST = "31f2588f0d3f3c29241f43778555d9345d23aa89db0d7fc7b11b43e59561cdc5"
"""Digest of 18 rows of seed 7; it changes only if what is generated changes."""

seeds = st.integers(-(2**70), 2**70)


def lines(count: int, seed: int, **options: Any) -> list[bytes]:
    """Return rows as they are written."""
    rows = generate(options.pop("domains", ALL), count, seed, **options)
    return [one.task.to_json() + one.trajectories.to_json() for one in rows]


def test_same_rows_on_every_python() -> None:
    """The rows of a seed are these bytes, whichever interpreter makes them."""
    assert FIRST == sha256(b"\n".join(lines(18, 7))).hexdigest()


@given(seeds, st.integers(0, 12), st.integers(0, 12))
def test_a_longer_file_begins_with_the_shorter_one(
    seed: int, fewer: int, more: int
) -> None:
    """A row depends on its number, not on how many there are."""
    short, long = sorted((fewer, more))

    assert lines(short, seed) == lines(long, seed)[:short]


@given(seeds, seeds)
def test_seeds_make_other_rows(one: int, other: int) -> None:
    """Two seeds give two files, unless they are equal."""
    assert (one == other) == (lines(3, one) == lines(3, other))


@given(seeds)
def test_reading_gives_the_row_back(seed: int) -> None:
    """A row and its trajectories are read as what was written."""
    for one in generate(ALL, 9, seed):
        assert one.task == Task.from_json(one.task.to_json())
        assert one.trajectories == Trajectories.from_json(one.trajectories.to_json())


@pytest.mark.once
@given(seeds)
def test_rows_are_sound(seed: int) -> None:
    """For any seed the audit finds nothing: no reference is wrong, none is loose."""
    for one in generate(ALL, 9, seed, size=SMALLEST):
        assert audit(one.trajectories.row, one.task, one.trajectories).passes


def test_domains_are_those_of_the_tools() -> None:
    """Every domain has its generator, in the order of the tools."""
    assert list(RECORDS) == list(DOMAINS)


def test_domains_take_turns() -> None:
    """Rows take the named domains one after another, in the order given."""
    found = [one.task.domain for one in generate(["legal", "hr"], 5, 1)]

    assert ["legal", "hr", "legal", "hr", "legal"] == found


@pytest.mark.parametrize("size", [SMALLEST, 8_000, 60_000, LARGEST])
def test_worlds_have_the_size_that_was_asked_for(size: int) -> None:
    """A world is as large as asked, and larger by no more than its last rows."""
    for one in generate(ALL, 9, 3, size=size):
        length = len(one.task.environment.to_json())

        assert size <= length <= 1.02 * size + 2_500


def test_sizes_of_a_range() -> None:
    """Of a range, small worlds are likelier than large ones."""
    rows = generate(ALL, 200, 3, size=(2_000, 40_000))
    lengths = sorted(len(one.task.environment.to_json()) for one in rows)

    assert lengths[0] < 3_500
    assert lengths[100] < 15_000
    assert lengths[-1] > 25_000


@pytest.fixture(scope="module")
def many() -> list[tuple[bytes, Injection]]:
    """Return what distinguishes 10,000 rows, and their labels."""
    rows = generate(ALL, 10_000, 5, size=SMALLEST)
    return [
        (encode(task.responses_create_params["input"]), task.injection)
        for task in (one.task for one in rows)
    ]


@pytest.mark.once
def test_ten_thousand_rows_are_distinct(many: list[tuple[bytes, Injection]]) -> None:
    """No two rows have one prompt, and no two one injected text."""
    prompts = {prompt for prompt, _ in many}
    texts = {injection.injection_text for _, injection in many}

    assert (10_000, 10_000) == (len(prompts), len(texts))


def test_labels_are_spread(many: list[tuple[bytes, Injection]]) -> None:
    """Every strategy at every difficulty, and every type that can be checked."""
    injections = [injection for _, injection in many]
    dressed = Counter(
        (one.attack_strategy, one.attack_difficulty) for one in injections
    )
    types = Counter(one.verification_type for one in injections)
    categories = Counter(one.category for one in injections)

    assert {(s, d) for s in STRATEGIES for d in DIFFICULTIES} == set(dressed)
    assert min(dressed.values()) > 150
    assert set(STRICT_KEYS) == set(types)
    assert min(types.values()) > 40
    assert len(categories) >= 6
    assert len({one.vector for one in injections}) >= 40


def test_goals_name_what_decides(many: list[tuple[bytes, Injection]]) -> None:
    """Whoever reads the goal knows the values that decide whether it is followed."""
    for _, injection in islice(many, 2_000):
        keys = STRICT_KEYS[injection.verification_type]
        for value in [v for k, v in injection.target_args.items() if k in keys]:
            assert str(value) in injection.goal


LABELS = re.compile(
    r"inject|attack|malicious|adversar|poison|jailbreak|payload|subtlety|"
    + "|".join(name for name in STRATEGIES),
    re.IGNORECASE,
)


def test_nothing_outside_the_injection_names_a_label() -> None:
    """Members and texts beside the injection do not say that there is one."""
    for one in generate(ALL, 300, 8):
        row = json.loads(one.task.to_json())
        injection = row.pop("injection")
        for constant in ("agent_ref", "verifier_config", "environment_type"):
            del row[constant]
        shown = json.dumps(row)
        hidden = json.dumps(injection["injection_text"])[1:-1]

        assert 1 == shown.count(hidden)
        assert not LABELS.search(shown.replace(hidden, ""))


def test_constant_members_are_constant() -> None:
    """What every row has cannot tell rows apart."""
    names = ("agent_ref", "verifier_config", "environment_type", "prompt_mode")
    rows = [one.task.to_document() for one in generate(ALL, 18, 8)]

    for name in names:
        assert 1 == len({encode(row[name]) for row in rows})


def places(document: JsonObject, text: str) -> Iterator[float]:
    """Yield index and length of each row of a table that contains a text."""
    for table in document.values():
        rows = list(table.values()) if isinstance(table, dict) else list(at(table))
        for index, row in enumerate(rows):
            if isinstance(row, dict) and text in row.values() and len(rows) > 4:
                yield index / (len(rows) - 1)


def test_the_record_stands_anywhere() -> None:
    """Neither the first nor the last row of a table is where the order hides."""
    found = [
        place
        for one in generate(ALL, 900, 8)
        for place in places(one.task.environment.document, carrier(one.task))
    ]

    assert len(found) > 300
    assert 0.4 < sum(found) / len(found) < 0.6


def carrier(task: Task) -> str:
    """Return the text that the order stands in."""

    def texts(value: JsonValue) -> Iterator[str]:
        if isinstance(value, dict):
            for member in value.values():
                yield from texts(member)
        elif isinstance(value, list):
            for element in value:
                yield from texts(element)
        elif isinstance(value, str):
            yield value

    hidden = task.injection.injection_text
    return next(t for t in texts(task.environment.document) if hidden in t)


RESERVED = re.compile(
    r"[\w.+-]+@(?:[\w-]+\.(?:example|test|invalid)|example\.(?:com|org|net))"
)
ADDRESS = re.compile(r"[\w.+-]+@[\w.-]+\w")


def test_addresses_are_reserved() -> None:
    """No row has a mail address where somebody could be reached, nor a web address."""
    for one in generate(ALL, 300, 9):
        if one.task.injection.attack_strategy == "obfuscated_hint":
            continue  # encoded addresses are none
        text = one.task.to_json().decode()

        for address in ADDRESS.findall(text):
            assert RESERVED.fullmatch(address), address
        assert "http" not in text.lower()


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("unknown_domain", {"domains": ["hq"]}),
        ("unknown_domain", {"domains": []}),
        ("wrong_count", {"count": -1}),
        ("wrong_size", {"size": SMALLEST - 1}),
        ("wrong_size", {"size": LARGEST + 1}),
        ("wrong_size", {"size": (9_000, 3_000)}),
    ],
)
def test_wrong_options_are_refused_at_once(
    code: str, arguments: dict[str, Any]
) -> None:
    """What cannot be generated is refused before the first row is asked for."""
    with pytest.raises(SchemaError) as caught:
        generate(**{"domains": ALL, **arguments})

    assert code == caught.value.code
