"""An engine of words: each word is a token, and it says what it was told to say.

It is on the path of the tests: ``import scripted_engine``.
"""

from __future__ import annotations

import asyncio
import re

from collections.abc import AsyncIterator, Sequence

from ipistate.deploy import Drawing, EngineEnd, EngineStep, EngineToken
from ipistate.kernel import JsonObject


class ScriptedEngine:
    """Says the words of a text, from where its prompt has come to.

    Args:
        words: What it says, whatever it is asked.
    """

    def __init__(self, words: str = "one two three four five six") -> None:
        self.words = words.split()
        self.model: str = "scripted"
        self.weight_version: int = 1
        self.known: list[str] = []
        self.holds_at: int | None = None
        """It waits before this word, counted from 0."""
        self.goes_on = asyncio.Event()
        self.said = asyncio.Condition()
        self.made = 0
        self.drawings: list[Drawing] = []

    async def render(self, body: JsonObject) -> str:
        """Write each message as a line, and the beginning of the answer."""
        lines = [f"<{one['role']}> {one['content']} <end>" for one in body["messages"]]  # type: ignore[union-attr,index,call-overload]
        return "\n".join([*lines, "<assistant> "])

    async def tokens(self, text: str) -> tuple[int, ...]:
        """Number the words and the spaces between them."""
        return tuple(map(self._number, re.findall(r"<\w+>|\w+ |\S+|\s+", text)))

    def _number(self, part: str) -> int:
        if part not in self.known:
            self.known.append(part)
        return self.known.index(part)

    async def text(self, tokens: Sequence[int]) -> str:
        """Put words together again."""
        return "".join(self.known[token] for token in tokens)

    async def spoken(self, tokens: Sequence[int]) -> str:
        """Put words together again; no mark ends them."""
        return await self.text(tokens)

    async def generate(
        self, prompt: Sequence[int], drawing: Drawing
    ) -> AsyncIterator[EngineStep]:
        """Go on after the words that the prompt ends with."""
        async with self.said:
            self.drawings.append(drawing)
            self.said.notify_all()
        # After the mark and its space, every token is a word.
        mark = self._number("<assistant>")
        begun = [*prompt][::-1].index(mark) - 1
        for place in range(begun, len(self.words)):
            if place - begun >= drawing.limit:
                yield EngineEnd("length")
                return
            if place == self.holds_at:
                await self.goes_on.wait()
            part = self.words[place] + " "
            async with self.said:
                self.made += 1
                self.said.notify_all()
            yield EngineToken(self._number(part), -0.5)
        yield EngineEnd("stop")

    async def has_begun(self) -> None:
        """Wait until it generates."""
        async with self.said:
            await self.said.wait_for(lambda: self.drawings)

    async def has_made(self, count: int) -> None:
        """Wait until it has made so many tokens."""
        async with self.said:
            await self.said.wait_for(lambda: self.made >= count)
