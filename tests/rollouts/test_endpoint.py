"""Rollouts of a model behind a stub endpoint, in both APIs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from acting import rows_of
from click.testing import CliRunner, Result
from stub import MODEL, Stub, refusing, scripted

from ipistate.cli.app import cli
from ipistate.scoring.stored_traces import calls_of


@pytest.fixture
def play(
    tmp_path: Path, task_file: Callable[..., Path], sessions: str
) -> Callable[..., tuple[Result, list[dict[str, Any]]]]:
    """Return a function that runs the verb with a model at a stub."""

    def run(
        stub: Stub, *options: str, rewrite: bool = True, **environment: str
    ) -> tuple[Result, list[dict[str, Any]]]:
        tasks = task_file(9) if rewrite else tmp_path / "tasks.jsonl"
        arguments = ["run", "--tasks", tasks, "-o", tmp_path / "rows.jsonl"]
        arguments += ["--url", sessions, "--policy", "openai", "--model", MODEL]
        with stub.serving() as url:
            told = [str(one) for one in (*arguments, "--model-url", url, *options)]
            result = CliRunner().invoke(cli, told, env=environment)
        return result, rows_of(tmp_path / "rows.jsonl")

    return run


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize(("name", "reward"), [("careful", 1.0), ("gullible", 0.0)])
def test_a_model_is_scored_like_the_script_it_plays(
    play: Callable[..., tuple[Result, list[dict[str, Any]]]],
    api: str,
    name: Literal["careful", "gullible"],
    reward: float,
) -> None:
    """In both APIs rewards are those of the agent behind the endpoint; tokens are counted."""
    result, rows = play(Stub(scripted(name)), "--model-api", api)

    assert 0 == result.exit_code, result.output
    assert [reward] * 9 == [row["reward"] for row in rows]
    assert {MODEL} == {row["response"]["model"] for row in rows}
    assert all(
        row["response"]["usage"]["total_tokens"] == 18 * (len(calls_of(row) or ()) + 1)
        for row in rows
    )


def test_the_key_is_nowhere(
    play: Callable[..., tuple[Result, list[dict[str, Any]]]], tmp_path: Path
) -> None:
    """The API key goes to the endpoint and into no file and no output."""
    stub = Stub(key="sk-secret")
    result, rows = play(stub, "--model-api-key-env", "THE_KEY", THE_KEY="sk-secret")

    assert (0, 9) == (result.exit_code, len(rows))
    assert {"Bearer sk-secret"} == {h["authorization"] for _, h, _ in stub.requests}
    assert "sk-secret" not in result.output
    assert not any(b"sk-secret" in p.read_bytes() for p in tmp_path.glob("rows*"))


def test_a_row_chooses_the_sampling(
    play: Callable[..., tuple[Result, list[dict[str, Any]]]],
) -> None:
    """What the options leave open is taken from the row's parameters."""
    stub = Stub()
    play(stub, "--temperature", "0.5")

    assert {(0.5, 4096)} == {
        (body["temperature"], body["max_output_tokens"]) for _, _, body in stub.requests
    }


def test_failures_of_the_endpoint_are_masked(
    play: Callable[..., tuple[Result, list[dict[str, Any]]]], tmp_path: Path
) -> None:
    """Refusals mask exactly their rollouts; the others are scored."""
    faults = [refusing(400, "no") for _ in range(3)]
    result, rows = play(Stub(faults=faults), "--concurrency", "1")
    failures = rows_of(tmp_path / "rows_failures.jsonl")

    assert (1, 6, 3) == (result.exit_code, len(rows), len(failures))
    assert [1.0] * 6 == [row["reward"] for row in rows]
    assert {"endpoint_refused"} == {one["failure_kind"] for one in failures}
    assert "3 attempts failed" in result.stderr


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a4_a_response_says_what_was_sent(
    play: Callable[..., tuple[Result, list[dict[str, Any]]]], api: str
) -> None:
    """A4: the stored response has the sampling and the choices that the model was asked."""
    result, rows = play(Stub(), "--model-api", api, "--temperature", "0.5")
    responses = [row["response"] for row in rows]

    assert 0 == result.exit_code
    assert {(0.5, 4096)} == {
        (one["temperature"], one["max_output_tokens"]) for one in responses
    }
    assert all(one["tools"] for one in responses)


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a4_what_is_not_sent_is_said_once(
    play: Callable[..., tuple[Result, list[dict[str, Any]]]],
    task_file: Callable[..., Path],
    api: str,
) -> None:
    """A4: a member that the API lacks is a warning, one for all rows."""
    path = task_file(9)
    lacking = {"responses": "stop", "chat": "truncation"}[api]
    more = f'"responses_create_params":{{"{lacking}":"auto",'.encode()
    text = path.read_bytes().replace(b'"responses_create_params":{', more)
    path.write_bytes(text)
    result, rows = play(Stub(), "--model-api", api, rewrite=False)

    assert 1 == result.stderr.count(f"{lacking} of a row is not sent: the {api} API")
    assert not any(lacking in row["response"] for row in rows)


def test_a5_an_endpoint_that_wants_the_reasoning_back_gets_it(
    play: Callable[..., tuple[Result, list[dict[str, Any]]]],
) -> None:
    """A5: with the option every message of the assistant has the member."""
    stub = Stub()
    options = ("--model-api", "chat", "--send-reasoning-as", "reasoning_content")
    result, rows = play(stub, *options)
    said = [
        one
        for *_, body in stub.requests
        for one in body["messages"]
        if one["role"] == "assistant"
    ]

    assert (0, 9) == (result.exit_code, len(rows))
    assert said
    assert all("reasoning_content" in one for one in said)
