"""An engine behind the HTTP interface of llama.cpp's server."""

from __future__ import annotations

import json
import re

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from ipistate.clients import JSON, Bounds, HttpClient, HttpError
from ipistate.deploy.worker_engine import (
    LENGTH,
    STOP,
    Drawing,
    EngineEnd,
    EngineFailedError,
    EngineStep,
    EngineToken,
)
from ipistate.errors import DecodeError
from ipistate.kernel import JsonObject, decode, encode


_SHORT: Final = Bounds(size=2**24, total=60.0, connect=10.0)
_LONG: Final = Bounds(size=2**30, total=3_600.0, connect=10.0, read=600.0)
_DATA: Final = b"data: "
_ENDS: Final = re.compile(r"(<\|\w+\|>)+$")
"""Marks such as ``<|im_end|>``; which of them ends a reply is the model's choice."""


class LlamaEngine:
    """Completes with a llama.cpp server.

    Args:
        url: Its base.
        client: Connections to it; none is kept (``idle_seconds=0``), because that server
            closes them when it likes.
        model: The name that replies carry.
        weight_version: Which weights it has.
    """

    def __init__(
        self,
        url: str,
        client: HttpClient,
        model: str = "llama.cpp",
        weight_version: int = 1,
    ) -> None:
        self._url = url
        self._client = client
        self.model: str = model
        self.weight_version: int = weight_version

    async def render(self, body: JsonObject) -> str:
        """Write a chat request as the text of its prompt.

        Raises:
            EngineFailedError: It does not answer.
        """
        names = ("messages", "tools")
        asked = JsonObject({name: body[name] for name in names if body.get(name)})
        return str(await self._asked("/apply-template", asked, "prompt"))

    async def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text.

        Raises:
            EngineFailedError: It does not answer.
        """
        asked = {"content": text, "add_special": False, "parse_special": True}
        return tuple(await self._asked("/tokenize", JsonObject(asked), "tokens"))

    async def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens.

        Raises:
            EngineFailedError: It does not answer.
        """
        asked = JsonObject({"tokens": [*tokens]})
        return str(await self._asked("/detokenize", asked, "content"))

    async def spoken(self, tokens: Sequence[int]) -> str:
        """Return the text of generated tokens, without the mark that ends it.

        Raises:
            EngineFailedError: It does not answer.
        """
        return _ENDS.sub("", await self.text(tokens))

    async def generate(
        self, prompt: Sequence[int], drawing: Drawing
    ) -> AsyncIterator[EngineStep]:
        """Generate tokens, and say in the end why it is over.

        Raises:
            EngineFailedError: It breaks off.
        """
        body = encode(_completion(prompt, drawing))
        try:
            async for line in self._client.lines(
                self._url, "/completion", body, bounds=_LONG, headers=JSON
            ):
                if line.startswith(_DATA):
                    event: Any = json.loads(line.removeprefix(_DATA))
                    is_last = event["stop"]
                    for step in _steps(event):
                        yield step
                    if is_last:
                        return
        except (HttpError, ValueError, LookupError, TypeError) as error:
            raise EngineFailedError("engine_failed", str(error)) from None
        raise EngineFailedError("engine_failed", "the stream ends before the reply")

    async def _asked(self, path: str, body: JsonObject, member: str) -> Any:
        try:
            answer = await self._client.send(
                "POST", self._url, path, encode(body), bounds=_SHORT, headers=JSON
            )
            document = decode(answer.content)
        except (HttpError, DecodeError) as error:
            raise EngineFailedError("engine_failed", error.message) from None
        found = document if isinstance(document, JsonObject) else JsonObject()
        if answer.status != 200 or member not in found:
            message = f"{path} is answered with {answer.status}, without {member}"
            raise EngineFailedError("engine_failed", message)
        return found[member]


def _completion(prompt: Sequence[int], drawing: Drawing) -> JsonObject:
    members: dict[str, Any] = {
        "prompt": [*prompt],
        "n_predict": drawing.limit,
        "stream": True,
        "return_tokens": True,
        "n_probs": 1,
        # Tokens that were computed with another batch may differ in their last bits.
        "cache_prompt": False,
        "temperature": drawing.temperature,
        "top_p": drawing.top_p,
        "seed": drawing.seed,
        "json_schema": drawing.schema,
    }
    return JsonObject({n: one for n, one in members.items() if one is not None})


def _steps(event: Any) -> list[EngineStep]:
    logprobs = [one["logprob"] for one in event.get("completion_probabilities", ())]
    tokens = event.get("tokens", ())
    known = [*logprobs, *[0.0] * (len(tokens) - len(logprobs))]
    steps: list[EngineStep] = [*map(EngineToken, tokens, known)]
    if event["stop"]:
        # In a stream the last event repeats nothing.
        steps = [EngineEnd(LENGTH if event.get("stop_type") == "limit" else STOP)]
    return steps
