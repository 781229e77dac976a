"""Stored rollouts, and the task row that each surely belongs to."""

from __future__ import annotations

import json

from typing import Any

import attrs
import pytest

from stored import rollout

from ipistate.errors import IpiStateError
from ipistate.generate import builtin
from ipistate.kernel import MAX_DEPTH, JsonObject, freeze
from ipistate.scoring.stored_rollouts import (
    TaskIndex,
    read_rollout,
    with_injection,
    with_world,
)


ROWS, WAYS = builtin.rows(), builtin.trajectories()


def bare(number: int = 0, **members: Any) -> Any:
    """Return a rollout that was stored without its row's own members."""
    whole = rollout(ROWS[number], WAYS[number].benign)
    kept = {"response", "responses_create_params"}
    return freeze({**{n: v for n, v in whole.items() if n in kept}, **members})


def test_a_line_is_an_object() -> None:
    """A rollout is read from a line; what is no object is refused with its kind."""
    assert {"response": {}} == read_rollout(b'{"response":{}}')
    for line in (b"{", b"[]", b"1"):
        with pytest.raises(IpiStateError):
            read_rollout(line)


def test_each_member_has_the_full_depth() -> None:
    """A world that is as deep as worlds may be is readable inside a row."""
    depth = MAX_DEPTH
    world = '{"a":' * depth + "1" + "}" * depth
    row = read_rollout(f'{{"environment":{world}}}'.encode())

    assert json.loads(world) == row["environment"]


def test_the_row_of_a_prompt_is_found() -> None:
    """Equal prompts join a rollout to its row, whatever recorders add to messages."""
    index = TaskIndex(ROWS)
    params = json.loads(ROWS[3].to_json())["responses_create_params"]
    for message in params["input"]:
        message["type"] = "message"

    assert ROWS[3] == index.find(bare(3))
    assert ROWS[3] == index.find(bare(3, responses_create_params=params))


@pytest.mark.parametrize("given", ["a text", ["a text"], None, 7])
def test_prompts_of_any_form_are_compared(given: Any) -> None:
    """A prompt that is no list of messages joins a row with the same one only."""
    params = JsonObject({"input": given})
    row = attrs.evolve(ROWS[0], responses_create_params=params)
    index = TaskIndex([row])

    assert row == index.find(bare(responses_create_params=params))
    assert isinstance(index.find(bare()), str)


@pytest.mark.parametrize("params", [None, {}, 3])
def test_a_rollout_without_prompt_has_no_row(params: JsonObject) -> None:
    """Nothing is joined by what is not there."""
    found = TaskIndex(ROWS).find(bare(responses_create_params=params))

    assert "no given task row has its prompt" == found


def test_no_rows_are_said_in_the_callers_words() -> None:
    """Without rows the reason is the one that the index was made with."""
    assert "no task rows were given" == TaskIndex().find(bare())
    assert "name them" == TaskIndex(without="name them").find(bare())


def test_rows_of_one_prompt() -> None:
    """Equal ones are no doubt; of different ones only the recorded index chooses."""
    one = ROWS[0]
    other = attrs.evolve(one, required_tools=())
    said = "2 different task rows have its prompt"

    assert one == TaskIndex([one, attrs.evolve(one, domain="x")]).find(bare())
    assert said == TaskIndex([one, other]).find(bare())
    assert other == TaskIndex([one, other]).find(bare(_ng_task_index=1))
    for index in (7, True, "1"):
        assert said == TaskIndex([one, other]).find(bare(_ng_task_index=index))


def test_what_a_rollout_lacks_comes_from_its_row() -> None:
    """Injection, required tools and world are the row's, unless it has its own."""
    index = TaskIndex(ROWS)
    given: Any = with_injection(bare(), index)
    own = bare(injection=1, environment={"own": {}})

    assert ROWS[0].injection.to_document() == given["injection"]
    assert list(ROWS[0].required_tools) == list(given["required_tools"])
    assert ROWS[0].environment.document == with_world(bare(), index)["environment"]
    assert (own, own) == (with_injection(own, index), with_world(own, index))


def test_a_rollout_without_row_stays_what_it_is() -> None:
    """There is a reason in the place of an injection, and no world."""
    nowhere = TaskIndex()

    said = with_injection(bare(), nowhere)
    assert isinstance(said, str)
    assert said.startswith("it has no injection, and no ")
    assert bare() == with_world(bare(), nowhere)
