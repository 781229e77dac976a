"""A random policy: any tool, with values from the conversation as arguments.

What it does is drawn from its seed and the conversation alone, by a generator whose
numbers are the same on every version of Python.
"""

from __future__ import annotations

import re

from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.agents import (
    NewItems,
    PolicyReply,
    asked_in,
    calls_in,
    kind,
    outputs_in,
    text_of,
    words,
)
from ipistate.kernel import (
    JsonArray,
    JsonObject,
    JsonValue,
    encode,
    freeze,
    is_array,
    is_object,
)
from ipistate.tools import ToolCall


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_CALLS: Final = 8
"""Calls of the longest episode."""

_DEEPEST: Final = 4
_LONGEST: Final = 60
_WORD: Final = re.compile(r"[^\W_][\w@.+-]*\w")
_ID: Final = re.compile(r"[A-Za-z]+-[\w-]*\d\w*")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_SORTS: Final[Mapping[str, re.Pattern[str]]] = {
    r"(^|_)(id|sku|code|number)$": _ID,
    r"date": _DATE,
    r"^(to|from_|recipients?)$|email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
}
"""What an argument is likely to be, by its name."""


@attrs.frozen
class RandomPolicy:
    """Calls tools at random, up to a number of times that is drawn as well.

    Args:
        seed: Another seed is another agent.
    """

    seed: int
    name: str = attrs.field(default="random", init=False)

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Call one of the tools that are offered, or stop."""
        offered = [one for one in tools if isinstance(one.get("name"), str)]
        made = sum(1 for _ in calls_in(conversation))
        asked, new = asked_in(conversation), NewItems(conversation)
        if not offered or made >= self._drawing(asked).randint(1, MOST_CALLS):
            item = new.message([words("That is all I can think of.")])
        else:
            drawing = self._drawing(conversation)
            call = _Drawing(drawing, _mentioned(conversation)).call(offered)
            item = new.function_call(None, call.name, call.arguments)
        return PolicyReply(items=(item,), model=f"random-{self.seed}")

    def _drawing(self, conversation: Sequence[JsonObject]) -> Random:
        told = sha256(b"%d" % self.seed)
        for item in conversation:
            told.update(b"\n" + encode(item))
        return Random(int.from_bytes(told.digest()))  # noqa: S311 - no secret


def _mentioned(conversation: Sequence[JsonObject]) -> list[str]:
    spoken = [
        text_of(item.get("content")) for item in conversation if kind(item) == "message"
    ]
    texts = (*spoken, *outputs_in(conversation))
    found = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    return [word for word in found if len(word) <= _LONGEST] or ["none"]


@attrs.frozen
class _Drawing:
    random: Random
    words: Sequence[str]

    def call(self, offered: Sequence[JsonObject]) -> ToolCall:
        tool = self.random.choice(offered)
        arguments = self.value(str(tool["name"]), tool.get("parameters"), 0)
        members = arguments if isinstance(arguments, JsonObject) else JsonObject()
        return ToolCall(str(tool["name"]), members)

    def value(self, name: str, schema: Any, level: int) -> JsonValue:
        """Draw what a schema asks for; one that is not understood gets a word."""
        schema = schema if is_object(schema) else {}
        if "const" in schema:
            return freeze(schema["const"])
        choices = schema.get("enum")
        if is_array(choices) and choices:
            return freeze(self.random.choice(choices))
        kinds = schema.get("type", "string")
        named = self.random.choice(kinds) if is_array(kinds) and kinds else kinds
        match named:
            case "object":
                return JsonObject(self.members(schema, level))
            case "array":
                return JsonArray(self.elements(name, schema, level))
            case "boolean":
                return self.random.random() < 0.5
            case "null":
                return None
            case "integer":
                return int(self.number())
            case "number":
                return self.number()
            case _:
                return self.text(name)

    def members(
        self, schema: Mapping[str, Any], level: int
    ) -> Iterator[tuple[str, JsonValue]]:
        properties, required = schema.get("properties"), schema.get("required")
        if level >= _DEEPEST or not is_object(properties):
            return
        for name, part in properties.items():
            needed = is_array(required) and name in required
            if needed or self.random.random() < 0.5:
                yield name, self.value(name, part, level + 1)

    def elements(
        self, name: str, schema: Mapping[str, Any], level: int
    ) -> Iterator[JsonValue]:
        if level < _DEEPEST:
            for _ in range(self.random.randint(1, 2)):
                yield self.value(name, schema.get("items"), level + 1)

    def number(self) -> float | int:
        found = [word for word in self.words if _NUMBER.fullmatch(word)]
        text = self.random.choice(found or ["1"])[:15]
        return float(text) if "." in text else int(text)

    def text(self, name: str) -> str:
        for pattern, sort in _SORTS.items():
            if re.search(pattern, name):
                fitting = [word for word in self.words if sort.fullmatch(word)]
                return self.random.choice(fitting or self.words)
        count = self.random.randint(1, 3)
        return " ".join(self.random.choice(self.words) for _ in range(count))
