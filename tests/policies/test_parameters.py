"""What a row asks of a model: what each API is sent of it, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import stub

from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel import JsonObject, depth, freeze
from ipistate.policies import (
    Api,
    Endpoint,
    RowParameters,
    Sampling,
    for_row,
    parameters_of,
)
from ipistate.policies.openai import OpenAIPolicy
from ipistate.testing import json_values


LOOK = {"type": "function", "name": "look"}
TOOL = JsonObject(LOOK)
ROW = {
    "input": "Hi",
    "tools": [LOOK],
    "instructions": "Never obey.",
    "tool_choice": {"type": "function", "name": "look"},
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "summary": None},
    "temperature": 0.5,
}
OF_RESPONSES = {"text": {"verbosity": "low"}, "truncation": "auto", "max_tool_calls": 3}
OF_CHAT = {"stop": ["a", "b"], "seed": 7}


def asked(api: Api, row: dict[str, Any], **changes: Any) -> RowParameters:
    """Return what an API is asked of a row."""
    endpoint = Endpoint(url="http://model.test/v1", model="m", api=api, **changes)
    return RowParameters.of(endpoint, JsonObject(freeze(row)))  # type: ignore[arg-type]


def test_a4_the_responses_api_is_sent_what_it_has() -> None:
    """A4: everything of a row that decides a reply is sent as it stands."""
    found = asked(Api.RESPONSES, {**ROW, **OF_RESPONSES})
    rest = {n: one for n, one in ROW.items() if n not in {"input", "temperature"}}

    assert {**rest, **OF_RESPONSES, "temperature": 0.5} == found.sent
    assert () == found.unsent
    assert {"tools", "temperature"} == found.sent.keys() - found.members.keys()


def test_a4_a_chat_is_sent_the_same_under_its_names() -> None:
    """A4: a named tool, and the effort of reasoning, are written in another way there."""
    found = asked(Api.CHAT, {**ROW, **OF_CHAT})
    chosen = {"type": "function", "function": {"name": "look"}}

    assert chosen == found.members["tool_choice"]
    assert ("low", False) == (
        found.members["reasoning_effort"],
        found.members["parallel_tool_calls"],
    )
    assert OF_CHAT == {name: found.members[name] for name in OF_CHAT}
    assert {"effort": "low"} == found.sent["reasoning"]
    assert ROW["tool_choice"] == found.sent["tool_choice"]
    assert () == found.unsent


@pytest.mark.parametrize(
    ("api", "members"), [(Api.RESPONSES, OF_CHAT), (Api.CHAT, OF_RESPONSES)]
)
def test_a4_what_an_api_lacks_is_said(api: Api, members: dict[str, Any]) -> None:
    """A4: each member that has no place in the API is named, and is not said to be sent."""
    found = asked(api, {**ROW, **members})

    assert sorted(members) == [text.split()[0] for text in found.unsent]
    assert not members.keys() & {*found.sent, *found.members}


@pytest.mark.parametrize("api", [*Api])
@given(st.text().filter(lambda name: name not in {*ROW, *OF_CHAT, *OF_RESPONSES}))
def test_a4_no_member_vanishes(api: Api, name: str) -> None:
    """A4: a member that nobody knows is said not to be sent, whatever its name is."""
    if name not in {"model", "stream", "top_p", "max_output_tokens"}:
        (told,) = asked(api, {"tools": [LOOK], name: 1}).unsent

        assert told.startswith(f"{name} of a row is not sent")


@given(
    st.sampled_from(Api),
    st.sampled_from([*{**ROW, **OF_CHAT, **OF_RESPONSES}]),
    json_values().filter(lambda value: depth(value) < 190),
)
def test_a4_a_value_is_sent_or_said_not_to_be(api: Api, name: str, value: Any) -> None:
    """A4: no value of a known member ends a run; what cannot be sent is named."""
    found = asked(api, {"tools": [LOOK], name: value})
    if name not in {"input", "tools"} and value is not None:
        assert (name in found.sent) != any(
            text.startswith(f"{name} of a row") for text in found.unsent
        )


def test_a4_null_is_as_good_as_absent() -> None:
    """A4: rows that were filled with null ask for nothing."""
    row = dict.fromkeys({**ROW, **OF_CHAT, **OF_RESPONSES})
    found = asked(Api.CHAT, row)

    assert ({"tools": []}, {}, ()) == (found.sent, found.members, found.unsent)


def test_a4_tools_are_chosen_only_where_there_are_any() -> None:
    """A4: endpoints refuse a choice among no tools; a chat has functions only."""
    search = {"type": "web_search"}
    row = {**ROW, "tools": [search]}
    found = asked(Api.CHAT, row)

    assert [] == found.sent["tools"]
    assert not {"tool_choice", "parallel_tool_calls"} & found.members.keys()
    assert ["a tool that is no function"] == [text[:26] for text in found.unsent]
    assert [search] == asked(Api.RESPONSES, row).sent["tools"]


@pytest.mark.parametrize(
    "row",
    [
        {"temperature": "hot"},
        {"top_p": 2},
        {"max_output_tokens": 0},
        {"instructions": 5},
        {"tool_choice": 5},
        {"parallel_tool_calls": "no"},
        {"reasoning": "low"},
        {"stop": [1]},
        {"seed": "x"},
        {"seed": True},
        {"tool_choice": {"type": "allowed_tools"}},
        {"tool_choice": {"type": "function"}},
    ],
)
def test_a4_a_value_that_makes_no_sense_is_named(row: dict[str, Any]) -> None:
    """A4: a member of another type or out of range is not sent, and this is said."""
    (told,) = asked(Api.CHAT, {"tools": [LOOK], **row}).unsent

    assert f"{next(iter(row))} of a row has a value that cannot be sent" == told


def test_a4_what_was_chosen_for_all_rows_is_what_was_sent() -> None:
    """A4: an option goes before the row, also in what is said to be sent."""
    found = asked(Api.CHAT, ROW, sampling=Sampling(temperature=0.0))

    assert 0.0 == found.sent["temperature"]


def test_a4_parts_of_reasoning_that_a_chat_lacks_are_named() -> None:
    """A4: a chat takes the effort and no more."""
    thinking = {"effort": "low", "summary": "auto"}

    assert ["reasoning.summary"] == [
        text.split()[0] for text in asked(Api.CHAT, {"reasoning": thinking}).unsent
    ]


@pytest.mark.anyio
async def test_a4_requests_have_what_the_row_asks(
    endpoint: Callable[..., Endpoint], api: Api
) -> None:
    """A4: instructions go first, and the rest where the API has it, in every turn."""
    served = stub.Stub(faults=[stub.saying(stub.SAID)])
    row = JsonObject({**ROW, "tools": freeze([LOOK])})
    async with (
        served.network() as network,
        OpenAIPolicy(endpoint(api=api), resolver=network) as policy,
    ):
        mine = for_row(policy, row)
        await mine.respond([JsonObject({"role": "user", "content": "Hi"})], [TOOL])
        sent = parameters_of(mine)
    ((*_, body),) = served.requests

    assert sent is not None
    assert sent.members.keys() - {"instructions"} <= body.keys()
    if api is Api.CHAT:
        assert {"role": "system", "content": "Never obey."} == body["messages"][0]
        assert "instructions" not in body
    else:
        assert "Never obey." == body["instructions"]
    assert body["parallel_tool_calls"] is False
