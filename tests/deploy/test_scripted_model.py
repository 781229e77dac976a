"""The scripted model: replies depend on the conversation alone."""

from __future__ import annotations

import json

from typing import Any

import pytest

from loopback import Loopback
from tests.deploy.conftest import BOUNDS

from ipistate.clients import HttpClient
from ipistate.deploy import CALLS_PATH, ScriptedModel, builtin_scripts
from ipistate.generate import builtin


pytestmark = pytest.mark.anyio

PARAMS = [
    json.loads(row.to_json())["responses_create_params"] for row in builtin.rows()
]


async def asked(model: ScriptedModel, *bodies: Any) -> list[tuple[int, Any]]:
    """Ask a model, and then how often it was asked."""
    async with (
        Loopback({"m": model.app}) as hosts,
        HttpClient(resolver=hosts) as client,
    ):
        answers = [
            await client.send(
                "POST",
                "http://m",
                "/v1/responses",
                json.dumps(body).encode(),
                bounds=BOUNDS,
                headers={"Content-Type": "application/json"},
            )
            for body in bodies
        ]
        answers.append(await client.send("GET", "http://m", CALLS_PATH, bounds=BOUNDS))
    return [(one.status, json.loads(one.content)) for one in answers]


async def test_it_plays_the_rows() -> None:
    """The first call of the row's script comes, the same each time."""
    first, again, calls = await asked(
        ScriptedModel(builtin_scripts()), PARAMS[0], PARAMS[0]
    )

    assert (200, "function_call") == (first[0], first[1]["output"][0]["type"])
    assert first == again
    members = {"id", "created_at", "parallel_tool_calls", "tool_choice", "tools"}
    assert members <= first[1].keys()
    assert {"asked": 2, "answered": 2} == calls[1]


async def test_an_unknown_conversation() -> None:
    """It is refused as an endpoint refuses, and counted as asked."""
    refused, calls = await asked(ScriptedModel(builtin_scripts()), {"input": "Hello"})

    assert (400, "unknown_prompt") == (refused[0], refused[1]["error"]["code"])
    assert {"asked": 1} == calls[1]
