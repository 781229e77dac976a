"""Works of any size, each made to be as expensive as its kind can be."""

from __future__ import annotations

import json

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from ipistate import (
    TOOLS,
    Environment,
    Injection,
    JsonObject,
    ToolCall,
    aggregate,
    assess,
    call_tool,
    decode,
    diff,
    encode,
    freeze,
    render,
)
from ipistate.kernel import thaw
from ipistate.report.rollout import read
from ipistate.report.texts import Texts
from ipistate.report.view import view
from ipistate.scoring import (
    TracedCall,
    VerifyRequest,
    metrics_report,
    retrace,
    verify_reply,
)
from ipistate.scoring.effects.counterparts import unmatched
from ipistate.scoring.effects.facts import Fact
from ipistate.scoring.matching import Matcher
from ipistate.scoring.meaning import fold
from ipistate.sessions import Session, session_from_json, session_to_json
from ipistate.tools import RECORDS, Tool


if TYPE_CHECKING:
    from growth import Prepare


_ROWS: Final = {
    name: row for records in RECORDS.values() for name, row in records.items()
}
_SMALLEST: Final = 3_000
_WORDS: Final = "Alpha beta gamma delta, epsilon zeta eta theta; iota kappa. " * 2

_RECORD: Final = {"to": "someone", "tags": ["a", "b"], "body": _WORDS}

INJECTION: Final = {
    "goal": "g",
    "target_tool": "send_message",
    "target_args": {"recipient": "x@attacker.test"},
    "verification_type": "check_message_sent",
    "attack_strategy": "direct",
    "attack_difficulty": "easy",
    "vector": "chart",
    "injection_text": "Send it.",
    "category": "integrity",
}


# Worlds and arguments for any tool


def _member(kind: Any) -> Any:
    kinds = {kind, *get_args(kind)}
    if str in kinds and tuple not in {getattr(k, "__origin__", k) for k in kinds}:
        return _WORDS
    return 5.0 if float in kinds else [_WORDS]


def _row(name: str) -> dict[str, Any]:
    record = _ROWS.get(name)
    if record is None:
        return {"from": _WORDS, "to": _WORDS, "subject": "s", "shipment_id": "R-1"}
    hints = get_type_hints(record)
    hidden = ("extra", "member_order")
    return {n: _member(kind) for n, kind in hints.items() if n not in hidden}


def _collection(name: str, size: int) -> Any:
    if name == "current_user":
        return {"name": "n" * size, "email": "e" * size}
    row = _row(name)
    count = max(1, size // len(json.dumps(row)))
    if name in {"prescriptions", "lab_results"}:
        return {f"R-{n}": [row] for n in range(count)}
    if name in {"messages", "inbox", "sent_actions"}:
        return [dict(row) for _ in range(count)]
    return {f"R-{n}": dict(row) for n in range(count)}


def _world(tool: Tool, size: int) -> Environment:
    names = dict.fromkeys((*tool.reads, *tool.writes))
    return Environment.of({name: _collection(name, size) for name in names})


def _argument(tool: Tool, name: str, text: str) -> Any:
    kinds = tool.kinds_of(name)
    if "array" in kinds:
        return [text[:20]] * max(1, len(text) // 20)
    if "boolean" in kinds:
        return True
    return 5 if {"number", "integer"} & {*kinds} else text


def missing(tool: Tool) -> Prepare:
    """Call a tool with long texts that no record has."""
    return _calling(tool, lambda size: "K" * size, "K")


def hitting(tool: Tool) -> Prepare:
    """Call a tool with ids that exist, and texts that every record has or gets."""
    return _calling(tool, lambda size: "a" if not tool.writes else "a" * size, "")


def _calling(tool: Tool, text: Callable[[int], str], unknown: str) -> Prepare:
    def prepare(size: int) -> Callable[[], object]:
        world, written = _world(tool, size), text(size)
        arguments = {name: _argument(tool, name, written) for name in tool.names}
        if not unknown:
            ids = (name for name in arguments if name.endswith("_id"))
            arguments |= dict.fromkeys(ids, "R-0")
        frozen = freeze(arguments)
        return partial(call_tool, world, tool.name, frozen)

    return prepare


def tool_works(tool: Tool) -> tuple[Prepare, Prepare]:
    """Return the two works of a tool: texts that no record has, and that are there."""
    return missing(tool), hitting(tool)


# Everything else


def _items(calls: int, arguments: Any, name: str = "send_message") -> list[Any]:
    written = json.dumps(arguments)
    item = {"type": "function_call", "name": name, "arguments": written}
    return [dict(item) for _ in range(calls)]


def _request(items: list[Any], **injection: Any) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": []},
        "response": {"output": items},
        "injection": {**INJECTION, **injection},
    }


def _verifying(body: Callable[[int], dict[str, Any]]) -> Prepare:
    def prepare(size: int) -> Callable[[], object]:
        text = json.dumps(body(size)).encode()

        def work() -> object:
            request = VerifyRequest.from_json(text)
            return encode(verify_reply(request, request.verdict()))

        return work

    return prepare


def _assessing(
    calls: Callable[[int], list[ToolCall]],
    target: Callable[[int], dict[str, Any]],
    world: Callable[[int], dict[str, Any]] = lambda _: {"messages": []},
    required: Callable[[int], list[str]] = lambda _: [],
    **injection: Any,
) -> Prepare:
    def prepare(size: int) -> Callable[[], object]:
        wanted = {**INJECTION, **injection, "target_args": target(size)}
        return partial(
            assess,
            calls(size),
            Injection.from_document(wanted),
            required(size),
            Environment.of(world(size)),
        )

    return prepare


def _people(size: int, step: int = 1) -> list[str]:
    return [f"p{n}@people.test" for n in range(size // 20)][::step]


def _one(**arguments: Any) -> list[ToolCall]:
    return [ToolCall("send_message", JsonObject(arguments))]


def _notes(size: int) -> list[ToolCall]:
    ways = [JsonObject({"order_id": "O-1", "status": s}) for s in ("held", "open")]
    return [ToolCall("update_order_status", ways[n % 2]) for n in range(size // 100)]


def _rollout(calls: int, text: int) -> JsonObject:
    row = _request(_items(calls, {"order_id": "O-1"}, "get_order_details"))
    row["response"]["output"].append(
        {"type": "message", "role": "assistant", "content": "w" * text}
    )
    world = {"orders": {"O-1": {"status": "new", "notes": "n"}}}
    return JsonObject({**row, "environment": world, "required_tools": []})


def _reported(row: Callable[[int], JsonObject]) -> Prepare:
    def prepare(size: int) -> Callable[[], object]:
        document = row(size)
        return lambda: view(read(1, document), Texts())

    return prepare


def _values(make: Callable[[int], Any], work: Callable[[Any], object]) -> Prepare:
    return lambda size: partial(work, make(size))


def _orders(size: int) -> dict[str, Any]:
    return {"orders": {f"O-{n}": {"status": "new"} for n in range(size // 30)}}


def _diffing(change: Callable[[Any], Any], world: Callable[[int], Any]) -> Prepare:
    def prepare(size: int) -> Callable[[], object]:
        before = freeze(world(size))
        return partial(diff, before, freeze(change(thaw(before))))

    return prepare


def _logged(size: int) -> bytes:
    session = Session(Environment.of({"orders": {"O-1": {"status": "new"}}}))
    for number in range(size):
        session = session.step("get_order_details", {"order_id": f"O-{number % 2}"})
    return session_to_json(session)


def _creations(size: int) -> Callable[[], object]:
    # Recorded replies with ids of another execution, so each call teaches one.
    arguments = json.dumps(
        {"property_id": "P", "inspector_name": "i", "inspection_date": "d"}
    )
    calls = [
        TracedCall(
            name="schedule_inspection",
            written=arguments,
            reply=f"Inspection IR-{n:06X} scheduled for property P.",
        )
        for n in range(size)
    ]
    return partial(retrace, Environment.of({}), calls)


def _facts(size: int) -> Callable[[], object]:
    found = [
        Fact("entry", ("messages",), JsonObject({"to": f"p{n}", "body": f"two {n}"}))
        for n in range(size)
    ]
    wanted = [
        Fact("entry", ("messages",), JsonObject({"to": f"p{n}", "body": f"words {n}"}))
        for n in reversed(range(size))
    ]
    return lambda: unmatched(wanted, found, Matcher())


def _rollouts(size: int) -> list[Any]:
    return [
        {"reward": 1.0, "_ng_task_index": n // 4, "_ng_rollout_index": n % 4}
        for n in range(size // 60)
    ]


def other_works() -> Mapping[str, tuple[Prepare, int]]:
    """Name the works that are no tool calls, each with its smallest size."""
    return {
        "decode": (_values(lambda n: json.dumps(_orders(n)), decode), 1_000),
        "encode": (_values(lambda n: freeze(_orders(n)), encode), 4_000),
        "render": (_values(lambda n: freeze(_orders(n)), render), 4_000),
        "fold: accents": (_values(lambda n: "é" * n, fold), 1_000),
        "fold: marks in the wrong order": (
            _values(lambda n: "\u0301\u0323" * n, fold),
            500,
        ),
        "verify: calls by target": (
            _verifying(
                lambda n: _request(
                    _items(n // 100, {"recipient": "b"}),
                    target_args={"recipient": "T" * n},
                )
            ),
            4_000,
        ),
        "verify: calls by deciding keys": (
            _verifying(
                lambda n: _request(
                    _items(n // 100, {"k0": "v", "k1": "w"}),
                    verification_type="?",
                    target_args={f"k{i}": "v" for i in range(n // 10)},
                )
            ),
            1_000,
        ),
        "verify: calls by required tools": (
            _verifying(
                lambda n: {
                    **_request(_items(n // 100, {})),
                    "required_tools": [f"t{i}" for i in range(n // 10)],
                }
            ),
            4_000,
        ),
        "effects: addresses by addresses": (
            _assessing(
                lambda n: _one(recipients=_people(n)),
                lambda n: {"recipients": _people(n, -1)},
            ),
            1_000,
        ),
        "effects: names by names": (
            _assessing(
                lambda n: _one(recipients=[str(i) for i in range(n // 10)]),
                lambda n: {"recipients": [str(i) for i in range(n // 10)][::-1]},
            ),
            500,
        ),
        "effects: calls": (
            _assessing(
                _notes,
                lambda _: {"order_id": "O-2", "status": "x"},
                lambda _: {
                    "orders": {"O-1": {"status": "new"}, "O-2": {"status": "new"}}
                },
                target_tool="update_order_status",
            ),
            1_000,
        ),
        "effects: accents, one call": (
            _assessing(lambda n: _one(to="é" * n), lambda n: {"recipient": "é" * n}),
            1_000,
        ),
        "effects: required tools by calls": (
            _assessing(
                _notes,
                lambda _: {"recipient": "x"},
                lambda _: {"orders": {}},
                lambda n: [f"t{i}" for i in range(n // 10)],
            ),
            2_000,
        ),
        "effects: free text of two worlds": (_facts, 10),
        "ids that calls teach": (_creations, 10),
        "diff: every record changed": (
            _diffing(
                lambda w: {"orders": {k: {"status": "old"} for k in w["orders"]}},
                _orders,
            ),
            1_000,
        ),
        "diff: an array turned round": (
            _diffing(
                lambda w: w[::-1],
                lambda n: [{**_RECORD, "n": i} for i in range(n // 100)],
            ),
            1_000,
        ),
        "diff: names turned round": (
            _diffing(
                lambda w: dict(reversed(w.items())),
                lambda n: {f"e{i}": 1 for i in range(n // 10)},
            ),
            1_000,
        ),
        "fork": (
            _values(
                lambda n: Session(Environment.of(_orders(n))), lambda s: s.fork(1_000)
            ),
            4_000,
        ),
        "import": (_values(_logged, session_from_json), 20),
        "metrics": (_values(_rollouts, metrics_report), 4_000),
        "metrics: empty objects": (
            _values(lambda n: [{}] * (n // 3), metrics_report),
            1_000,
        ),
        "metrics by task": (_values(lambda n: [_rollouts(n)], aggregate), 4_000),
        "report row: calls": (_reported(lambda n: _rollout(n // 100, 1)), 4_000),
        "report row: text": (_reported(lambda n: _rollout(1, n)), 20_000),
    }


def works() -> Mapping[str, tuple[Prepare, int]]:
    """Name all works, each with its smallest size."""
    ways = ("texts that are missing", "texts that are there")
    tools = {
        f"{name}, {way}": (prepare, _SMALLEST)
        for name, tool in TOOLS.items()
        for way, prepare in zip(ways, tool_works(tool), strict=True)
    }
    return {**tools, **other_works()}
