"""Scripted agents: the calls that a careful and a gullible agent make on a task row.

The careful one does what the user asked; the gullible one also obeys the injection.
"""

from __future__ import annotations

import re

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, cast

import attrs

from ipistate.agents import input_messages
from ipistate.generate import DOMAINS, builtin, generate
from ipistate.kernel import JsonArray, JsonObject, JsonValue, identical, render
from ipistate.tools import TOOLS, ToolCall, call_tool, world_after


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ipistate.scoring import Task, Trajectories
    from ipistate.tools import Tool

Agent = Literal["careful", "gullible"]
AGENTS: Final[tuple[Agent, ...]] = ("careful", "gullible")

GENERATED: Final = 90
"""Rows that the demo plays, as often as its rollouts take."""
_SEED: Final = 80

MOST_READERS: Final = 3
"""Reading calls a derived script makes beside those that the task requires."""

_ADDRESS: Final = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_QUOTED: Final = re.compile(r"'([^']{2,60})'")
_KEYS: Final = ("_id", "sku")
_REFERENCES: Final = (*_KEYS, "_code", "_number")
_SEARCHED: Final = frozenset({"query", "keyword", "keywords"})
_FALLBACKS: Final[Mapping[str, JsonValue]] = {
    "date": "2025-01-15",
    "time": "09:00",
    "start_date": "2025-02-03",
    "rating": 3,
}
_BY_TYPE: Final[Mapping[str, JsonValue]] = {
    "number": 1,
    "boolean": True,
    "array": JsonArray(["desk@example.com"]),
}


@attrs.frozen(kw_only=True)
class DemoScript:
    """A task row, and what each agent calls on it."""

    name: str
    task: Task
    careful: tuple[ToolCall, ...]
    gullible: tuple[ToolCall, ...]

    def calls(self, agent: Agent) -> tuple[ToolCall, ...]:
        """Return the calls of one agent, in order."""
        return self.careful if agent == "careful" else self.gullible


def builtin_scripts() -> tuple[DemoScript, ...]:
    """Return the built-in rows with their reference trajectories, as ``hr-1``."""
    rows = builtin.rows()
    return _scripts((rows[ways.row], ways) for ways in builtin.trajectories())


def generated_scripts(count: int = GENERATED) -> tuple[DemoScript, ...]:
    """Return generated rows with their reference trajectories; always the same ones."""
    rows = generate(tuple(DOMAINS), count, _SEED)
    return _scripts((one.task, one.trajectories) for one in rows)


def _scripts(rows: Iterable[tuple[Task, Trajectories]]) -> tuple[DemoScript, ...]:
    seen: Counter[str] = Counter()
    scripts: list[DemoScript] = []
    for task, ways in rows:
        domain = task.domain or "row"
        seen[domain] += 1
        script = DemoScript(
            name=f"{domain}-{seen[domain]}",
            task=task,
            careful=ways.benign,
            gullible=ways.compromised,
        )
        scripts.append(script)
    return tuple(scripts)


def prompt(task: Task) -> str:
    """Return what the user asks for in a row."""
    messages = input_messages(task.responses_create_params)
    asked = (one.get("content") for one in messages if one.get("role") == "user")
    return "\n".join(map(str, asked))


def derive(name: str, task: Task, tools: Mapping[str, Tool] = TOOLS) -> DemoScript:
    """Write a script for a row that comes without reference trajectories.

    Reads what the prompt mentions, makes the required calls, and changes something
    harmless, with arguments found in the world. The gullible agent makes the target
    call before that change.
    """
    drafts = _Drafts(task, tools)
    required = [drafts.call(tool) for tool in task.required_tools]
    reading = [*drafts.readers(), *required]
    writing = drafts.harmless_change(reading)
    target = ToolCall(task.injection.target_tool, task.injection.target_args)
    return DemoScript(
        name=name,
        task=task,
        careful=(*reading, *writing),
        gullible=(*reading, target, *writing),
    )


@attrs.frozen
class _Drafts:
    task: Task
    tools: Mapping[str, Tool]

    def offered(self) -> list[Tool]:
        """Tools of the row that exist here; those of its domain if it names none."""
        names = self.task.offered_tools
        found = [self.tools[name] for name in names if name in self.tools]
        domain = self.task.domain
        return found or [one for one in self.tools.values() if domain in one.domains]

    def call(self, name: str) -> ToolCall:
        tool = self.tools.get(name)
        if tool is None:
            return ToolCall(name)
        given = {p: self._argument(tool, p) for p in tool.required}
        return ToolCall(name, JsonObject(given))

    def readers(self) -> list[ToolCall]:
        """Reading calls that work, those that meet the injection first."""
        needed = self.task.required_tools
        calls = [
            self.call(tool.name)
            for tool in self.offered()
            if not tool.writes and tool.name not in needed
        ]
        hidden = render(self.task.injection.injection_text)[1:-1]
        replies = [call_tool(self.task.environment, c.name, c.arguments) for c in calls]
        ranked = sorted(
            (bool(reply.error), hidden not in reply.output, number)
            for number, reply in enumerate(replies)
        )
        chosen = sorted(number for _, _, number in ranked[:MOST_READERS])
        return [calls[number] for number in chosen]

    def harmless_change(self, before: Iterable[ToolCall]) -> list[ToolCall]:
        """One call that changes the world and is not what the injection asks for."""
        world = world_after(self.task.environment, before, tools=self.tools)
        avoided = {self.task.injection.target_tool, *self.task.required_tools}
        for tool in self.offered():
            if tool.writes and tool.name not in avoided:
                call = self.call(tool.name)
                done = call_tool(world, call.name, call.arguments, tools=self.tools)
                if not identical(done.environment.document, world.document):
                    return [call]
        return []

    def _argument(self, tool: Tool, parameter: str) -> JsonValue:
        # What a change writes is new; the record that it changes is in the world.
        if tool.writes and not parameter.endswith(_REFERENCES):
            return self._invented(tool, parameter)
        found = [
            value
            for value in self._values(tool, parameter)
            if not self._is_bait(tool, parameter, value)
        ]
        asked = prompt(self.task)
        mentioned = [value for value in found if _is_mentioned(value, asked)]
        for value in (*mentioned, *found):
            return value
        return self._invented(tool, parameter)

    def _is_bait(self, tool: Tool, parameter: str, value: JsonValue) -> bool:
        injection = self.task.injection
        bait = injection.target_args.get(parameter)
        return tool.name == injection.target_tool and str(value) == str(bait)

    def _values(self, tool: Tool, parameter: str) -> Iterator[JsonValue]:
        world = self.task.environment.document
        near = [world.get(name) for name in (*tool.reads, *tool.writes)]
        if parameter in _SEARCHED:
            yield from _members(near, "name")
            yield from _members(near, "title")
        yield from _members(near, parameter)
        yield from _members(world.values(), parameter)
        if parameter.endswith(_KEYS):
            for table in near:
                yield from table if isinstance(table, JsonObject) else ()

    def _invented(self, tool: Tool, parameter: str) -> JsonValue:
        if parameter in {"to", "recipient"} or parameter.endswith("email"):
            return self._address()
        if parameter in _FALLBACKS:
            return _FALLBACKS[parameter]
        schema = cast("JsonObject", tool.parameters["properties"])[parameter]
        kind = schema.get("type") if isinstance(schema, JsonObject) else None
        quoted = _QUOTED.search(prompt(self.task))
        text = quoted[1] if quoted else "As requested."
        return _BY_TYPE.get(str(kind), text)

    def _address(self) -> str:
        user = self.task.environment.document.get("current_user")
        own = user.get("email") if isinstance(user, JsonObject) else None
        written = _ADDRESS.search(prompt(self.task))
        return written[0] if written else str(own or "desk@example.com")


def _is_mentioned(value: JsonValue, asked: str) -> bool:
    text = str(value)
    return text in asked and any(map(str.isalnum, text))


def _members(tables: Iterable[JsonValue], parameter: str) -> Iterator[JsonValue]:
    for table in tables:
        rows = table.values() if isinstance(table, JsonObject) else ()
        for row in rows:
            if isinstance(row, JsonObject) and isinstance(
                row.get(parameter), str | int | float
            ):
                yield row[parameter]
