"""The index of a page: one entry for each rollout, kept by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.kernel import JsonArray, JsonObject, JsonValue
from ipistate.report.rollout import DIMENSIONS, StoredRollout
from ipistate.report.tasks import TaskName, key_of, resisted


if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_TITLE: Final = 160


@attrs.frozen
class IndexEntry:
    """A rollout in the index of the page."""

    line: int
    status: str
    labels: tuple[str, ...]
    """In the order of ``DIMENSIONS``."""
    task: str
    title: str
    """The beginning of what the user asked."""
    goal: str
    target: str
    ident: str
    calls: int
    is_exposed: bool
    is_failure: bool
    key: str
    """Of its task, equal in all runs; empty if nothing tells tasks apart."""
    resisted: bool | None
    """None if it cannot be judged."""


class Index:
    """The rollouts of all runs, by columns; texts that repeat are kept once."""

    def __init__(self) -> None:
        """Begin with none."""
        self.columns: dict[str, list[Any]] = {}
        self.tables: dict[str, dict[str, int]] = {}
        self.tasks: dict[str, TaskName] = {}
        self.chunks: int = 0

    def add(self, run: int, entries: Iterable[IndexEntry]) -> None:
        """Add the rollouts of the next chunk."""
        for place, one in enumerate(entries):
            texts = dict(zip(DIMENSIONS, one.labels, strict=True))
            texts |= {"status": one.status, "title": one.title, "goal": one.goal}
            texts |= {"target": one.target}
            plain: dict[str, int | str] = {
                "run": run,
                "line": one.line,
                "chunk": self.chunks,
                "place": place,
                "task": one.task,
                "calls": one.calls,
                "id": one.ident,
                "read": int(one.is_exposed),
                "failed": int(one.is_failure),
                "same": self._number(one),
            }
            for name, value in plain.items():
                self.columns.setdefault(name, []).append(value)
            for name, text in texts.items():
                table = self.tables.setdefault(name, {})
                number = table.setdefault(text, len(table))
                self.columns.setdefault(name, []).append(number)
        self.chunks += 1

    def _number(self, one: IndexEntry) -> int:
        # A link needs a number that is short; -1 is like no other.
        if not one.key:
            return -1
        if one.key not in self.tasks:
            number, place = len(self.tasks), one.task.partition(".")[0]
            name = TaskName(number, one.key, one.labels[0], place, one.title)
            self.tasks[one.key] = name
        return self.tasks[one.key].number

    def to_document(self) -> dict[str, Any]:
        """Write the index as plain data."""
        tables = {name: [*table] for name, table in self.tables.items()}
        return {"columns": self.columns, "tables": tables, "chunks": self.chunks}


def entry(one: StoredRollout, *, is_failure: bool) -> IndexEntry:
    """Describe a rollout for the index."""
    row, injection, asked = one.row, one.injection, _asked(one.row)
    return IndexEntry(
        line=one.line,
        status=one.status,
        labels=tuple(map(str, one.labels.values())),
        task=place_of(row),
        title=_clipped(asked),
        goal=_clipped(injection.goal) if injection else "",
        target=_clipped(injection.target_tool) if injection else "",
        ident=_clipped(str(row.get("_ng_rollout_id") or one.response.get("id") or "")),
        calls=len(one.calls),
        is_exposed=one.is_exposed,
        is_failure=is_failure,
        key=key_of(one, asked),
        resisted=resisted(one),
    )


def place_of(row: JsonObject) -> str:
    """Name the task and the repeat of a row, as far as it does."""
    numbers = [row.get(name) for name in ("_ng_task_index", "_ng_rollout_index")]
    return ".".join(str(one) for one in numbers if type(one) is int)


def _asked(row: JsonObject) -> str:
    params = row.get("responses_create_params")
    given = (
        params.get("input") if isinstance(params, JsonObject) else row.get("messages")
    )
    if isinstance(given, str):
        return given
    for message in given if isinstance(given, JsonArray) else ():
        if isinstance(message, JsonObject) and message.get("role") == "user":
            return _first_text(message.get("content"))
    return ""


def _first_text(content: JsonValue) -> str:
    first = content[0] if isinstance(content, JsonArray) and content else content
    text = first.get("text") if isinstance(first, JsonObject) else first
    return text if isinstance(text, str) else ""


def _clipped(text: str) -> str:
    line = " ".join(text[: 4 * _LONGEST_TITLE].split())
    return line if len(line) <= _LONGEST_TITLE else line[:_LONGEST_TITLE] + "…"
