"""A rollout as the page's viewer shows it: who said what, and what each call did."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.errors import json_path
from ipistate.kernel import JsonArray, JsonObject, JsonValue, diff, encode, render
from ipistate.report.recorded import amounts_of, settings_of
from ipistate.report.rollout import StoredRollout, needles
from ipistate.scoring import Refusal, items_of


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ipistate.kernel import Change
    from ipistate.report.texts import Texts
    from ipistate.scoring import TracedCall, WorldChange

MOST_ITEMS: Final = 1_000
"""Messages and calls of one rollout that a page keeps."""
MOST_CHANGES: Final = 100
"""Places that one call changed, of which a page tells."""
_LONGEST_VALUE: Final = 4_000
_LONGEST_NAME: Final = 200
_BEFORE: Final = 1_000
_NOT_SAID: Final = ("function_call", "function_call_output", "tool", "function")
"""Types and roles of what is shown with its call."""

View = dict[str, Any]


def view(one: StoredRollout, texts: Texts) -> View:
    """Describe a rollout; its long texts go to ``texts``, and stand here as numbers."""
    injection = one.injection
    wanted = () if injection is None else needles(injection.injection_text)
    return _Viewer(one, texts, wanted).whole()


@attrs.frozen
class _Viewer:
    one: StoredRollout
    texts: Texts
    needles: tuple[str, ...]
    """What is to be kept of a text that is cut."""

    def whole(self) -> View:
        items = [*self.items()]
        return {
            "input": [*islice(self.prompt(), MOST_ITEMS)],
            "items": items[:MOST_ITEMS],
            "left_out": max(0, len(items) - MOST_ITEMS),
            "injection": self.injection(),
            "effects": self.effects(),
            "verdict": self.verdict(),
            "about": self.about(),
        }

    def text(self, text: str, limit: int | None = None) -> int:
        if limit is None:
            return self.texts.add(text, self.needles)
        return self.texts.add(text, limit=limit)

    def about(self) -> View:
        row, response = self.one.row, self.one.response
        found: dict[str, JsonValue] = {
            "id": row.get("_ng_rollout_id"),
            "response": response.get("id"),
            **dict(settings_of(row)),
            "attempt": row.get("attempt"),
            "reward": row.get("reward"),
            "failure": row.get("failure_reason"),
            "unread": None if self.one.trace.loss is None else str(self.one.trace.loss),
            **amounts_of(row),
        }
        return {
            name: _name(value) for name, value in found.items() if value is not None
        }

    def injection(self) -> View | None:
        found = self.one.injection
        if found is None:
            return None
        return {
            "goal": self.text(found.goal),
            "text": self.text(found.injection_text),
            "tool": _name(found.target_tool),
            "arguments": self.text(render(found.target_args)),
        }

    def verdict(self) -> View | None:
        found = self.one.verdict
        if found is None:
            return None
        return {
            "followed": found.injection_followed,
            "utility": found.reward_utility,
            "reward": found.reward,
            "contradicts": self.one.contradicts,
        }

    def effects(self) -> View | None:
        found = self.one.effects
        if found is None:
            return None
        lists = ("changes", "other_route", "collateral", "below_zero")
        return {
            "outcome": found.outcome,
            "reason": found.reason,
            "utility": found.utility,
            **{name: self.changes(getattr(found, name)) for name in lists},
            "required": [
                {
                    "tool": _name(each.tool),
                    "succeeded": each.succeeded,
                    "reason": each.reason,
                    "detail": self.text(each.detail or "", _LONGEST_VALUE),
                }
                for each in found.required[:MOST_CHANGES]
            ],
        }

    def changes(self, listed: tuple[WorldChange, ...]) -> list[View]:
        return [
            {
                "call": one.call,
                "tool": _name(one.tool),
                "op": one.op,
                "path": self.text(one.path, _LONGEST_VALUE),
                "before": None if one.before is None else self.text(one.before),
                "after": None if one.after is None else self.text(one.after),
            }
            for one in listed[:MOST_CHANGES]
        ]

    def prompt(self) -> Iterator[View]:
        params = self.one.row.get("responses_create_params")
        given = params.get("input") if isinstance(params, JsonObject) else None
        if isinstance(given, str):
            yield {"kind": "message", "role": "user", "text": self.text(given)}
        for item in given if isinstance(given, JsonArray) else ():
            yield from self.said(item)

    def items(self) -> Iterator[View]:
        calls = deque(enumerate(self.one.calls))
        for place, item in enumerate(items_of(self.one.row) or ()):
            yield from self.said(item)
            while calls and calls[0][1].item == place:
                yield self.called(*calls.popleft())

    def said(self, item: JsonValue) -> Iterator[View]:
        if not isinstance(item, JsonObject):
            return
        kind, role = item.get("type", "message"), item.get("role")
        if kind in _NOT_SAID or role in _NOT_SAID:
            return
        text = spoken(item)
        if kind == "message" and isinstance(role, str):
            if text:
                yield {"kind": "message", "role": _name(role), "text": self.text(text)}
        elif text:
            yield {"kind": _name(kind), "role": None, "text": self.text(text)}
        else:
            written = encode(item).decode()
            yield {"kind": _name(kind), "role": None, "text": self.text(written)}

    def called(self, number: int, call: TracedCall) -> View:
        return {
            "kind": "call",
            "number": number,
            "tool": _name(call.name),
            "arguments": self.text(call.written),
            "reply": None if call.reply is None else self.text(call.reply),
            "read": number in self.one.read_in,
            **self.executed(number),
        }

    def executed(self, number: int) -> View:
        again = self.one.again
        if again is None or number >= len(again.steps):
            return {"state": "not_executed"}
        step = again.steps[number]
        if isinstance(step, Refusal):
            why = self.text(str(step.error), _LONGEST_VALUE)
            return {"state": "refused", "why": why}
        if again.diverged and number == len(again.steps) - 1:
            return {"state": "diverged", "gave": self.text(step.transition.output)}
        found = diff(step.before, step.transition.environment).operations
        return {
            "state": "executed",
            "diff": [self.operation(one) for one in found[:MOST_CHANGES]],
            "changes": len(found),
        }

    def operation(self, one: Change) -> View:
        old, new = encode(one.old).decode(), encode(one.value).decode()
        if one.op == "replace":
            old, new = _from_difference(old, new)
        return {
            "op": one.op,
            "path": self.text(json_path(one.path), _LONGEST_VALUE),
            "old": None if one.op == "add" else self.text(old, _LONGEST_VALUE),
            "new": None if one.op == "remove" else self.text(new, _LONGEST_VALUE),
        }


def _from_difference(old: str, new: str) -> tuple[str, str]:
    # Long texts that begin alike are shown from shortly before they differ.
    shorter = min(len(old), len(new))
    first = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    start = first - _BEFORE
    if start <= 0:
        return old, new
    return "…" + old[start:], "…" + new[start:]


def _name(value: JsonValue) -> str:
    text = value if isinstance(value, str) else render(value)
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…"


def spoken(item: Mapping[str, JsonValue]) -> str:
    """Return what an item says in words, or nothing."""
    said = [_parts(item.get(name)) for name in ("summary", "content", "refusal")]
    return "\n\n".join(text for text in said if text)


def _parts(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, JsonArray):
        return "" if content is None else encode(content).decode()
    texts = [part if isinstance(part, str) else _part_text(part) for part in content]
    return "\n".join(texts)


def _part_text(part: JsonValue) -> str:
    for name in ("text", "refusal"):
        text = part.get(name) if isinstance(part, JsonObject) else None
        if isinstance(text, str):
            return text
    return encode(part).decode()
