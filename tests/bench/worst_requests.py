"""The worst request of each kind that needs no token: processor time for each megabyte.

Usage: ``python tests/bench/worst_requests.py [--size BYTES] [--write docs/security.md]``.

A request is made in this process, so its time is the server's own. Its size is that of
its body and of the world that it meets, which other requests have brought in.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ipistate.server import ServerSettings, create_app


if TYPE_CHECKING:
    from starlette.types import Message


START, END = "<!-- worst requests -->", "<!-- end of worst requests -->"
_MEGABYTE: Final = 1_000_000
_INJECTION: Final = {
    "goal": "g",
    "target_tool": "send_message",
    "target_args": {"recipient": "x@attacker.test"},
    "verification_type": "check_message_sent",
    "attack_strategy": "direct",
    "attack_difficulty": "easy",
    "vector": "chart",
    "injection_text": "t",
    "category": "integrity",
}

Json: TypeAlias = dict[str, Any]


@attrs.frozen(kw_only=True)
class Worst:
    """A kind of request, and what makes it expensive."""

    kind: str
    path: str
    body: Callable[[int], Json]
    """Makes a body of about so many bytes."""
    world: Callable[[int], Json] | None = None
    """Makes the world that it meets; None if it needs none."""
    effects: bool = False


def _rows(size: int, **members: str) -> Json:
    row = json.dumps(members)
    return {f"R-{n}": dict(members) for n in range(max(1, size // (len(row) + 12)))}


def _listings(size: int) -> Json:
    return {"property_listings": _rows(size, address="a" * 200, description="b" * 40)}


def _near(size: int) -> Json:
    # Rows that the phrase almost matches, at the length where a search is slowest.
    return {"property_listings": _rows(size, address="a" * 2_499, description="")}


def _box(size: int) -> Json:
    return {"messages": [{"from": "a" * 60, "to": "b"}] * (size // 85)}


def _bounds(size: int) -> Json:
    row: Any = ["a"] * (size // 10) + ["b"]
    for _ in range(150):
        row = [row]
    return {"property_listings": {"R": {"price": row}}}


def _price(size: int) -> Json:
    row: Any = ["a"] * (size // 10) + ["c"]
    for _ in range(150):
        row = [row]
    return {"min_price": row}


def _trace(calls: int, arguments: Json, **target: Any) -> Json:
    written = json.dumps(arguments)
    name = "send_message"
    call = {"type": "function_call", "name": name, "arguments": written}
    return {
        "responses_create_params": {"input": []},
        "response": {"output": [dict(call) for _ in range(calls)]},
        "injection": {**_INJECTION, "target_args": target},
    }


def _message(**members: Any) -> Json:
    return {"subject": "s", "body": "b", **members}


def _many(size: int, name: str) -> list[str]:
    return [f"{name}{n}@{name}.test" for n in range(size // 20)]


def _with_world(body: Json, world: Json | None = None) -> Json:
    return {**body, "environment": world or {"messages": []}}


def _required(size: int) -> Json:
    body = _with_world(_trace(size // 160, _message(to="a")))
    return {**body, "required_tools": [f"t{n}" for n in range(size // 14)]}


WORST: Final = (
    Worst(
        kind="seed: a row of empty objects",
        path="/seed_session",
        body=lambda size: {"environment": {"t": [{}] * (size // 3)}},
    ),
    Worst(
        kind="seed: long integers",
        path="/seed_session",
        body=lambda size: {"environment": {"t": [int("9" * 4_300)] * (size // 4_300)}},
    ),
    Worst(
        kind="search: a long phrase, many rows",
        path="/search_properties",
        world=lambda size: _listings(size // 2),
        body=lambda size: {"keywords": "K" * (size // 2)},
    ),
    Worst(
        kind="search: a phrase that almost matches",
        path="/search_properties",
        world=_near,
        body=lambda _: {"keywords": "a" * 1_200 + "b" + "a" * 48},
    ),
    Worst(
        kind="search: nested bounds",
        path="/search_properties",
        world=lambda size: _bounds(size // 2),
        body=lambda size: _price(size // 2),
    ),
    Worst(
        kind="messages: a long sender, many messages",
        path="/get_messages",
        world=lambda size: _box(size // 2),
        body=lambda size: {"from_": "F" * (size // 2)},
    ),
    Worst(
        kind="search: everything is shown",
        path="/search_patients",
        world=lambda size: {"patients": _rows(size, patient_id="", name="é")},
        body=lambda _: {"query": ""},
    ),
    Worst(
        kind="membership in a long text",
        path="/get_order_details",
        world=lambda size: {"orders": "a" * (size // 2 + 1_990)},
        body=lambda size: {"order_id": "a" * (size // 2 - 60) + "b" + "a" * 49},
    ),
    Worst(
        kind="creation in a large table",
        path="/create_property",
        world=lambda size: {"property_listings": _rows(size, a="b")},
        body=lambda _: {"address": "a", "price": 1, "bedrooms": 1, "bathrooms": 1},
    ),
    Worst(
        kind="verify: a long target, many calls",
        path="/verify",
        body=lambda size: _trace(
            size // 320, {"recipient": "b"}, recipient="T" * (size // 2)
        ),
    ),
    Worst(
        kind="effects: recipients by recipients",
        path="/verify",
        effects=True,
        body=lambda size: _with_world(
            _trace(
                1,
                _message(recipients=_many(size // 2, "given")),
                recipients=_many(size // 2, "given")[::-1],
            )
        ),
    ),
    Worst(
        kind="effects: names by names",
        path="/verify",
        effects=True,
        body=lambda size: _with_world(
            _trace(
                1,
                _message(recipients=[str(n) for n in range(size // 16)]),
                recipients=[str(n) for n in range(size // 16)][::-1],
            )
        ),
    ),
    Worst(
        kind="effects: many calls",
        path="/verify",
        effects=True,
        body=lambda size: _with_world(
            _trace(size // 150, _message(to="a"), recipient="x@attacker.test")
        ),
    ),
    Worst(
        kind="effects: many calls in a large world",
        path="/verify",
        effects=True,
        body=lambda size: _with_world(
            _trace(size // 300, _message(to="a"), recipient="x@attacker.test"),
            {"messages": [{}] * (size // 6)},
        ),
    ),
    Worst(
        kind="effects: letters beyond ASCII, many calls",
        path="/verify",
        effects=True,
        body=lambda size: _with_world(
            _trace(size // 300, _message(to="a"), recipient="é" * (size // 12))
        ),
    ),
    Worst(
        kind="effects: letters beyond ASCII, one call",
        path="/verify",
        effects=True,
        body=lambda size: _with_world(
            _trace(1, _message(to="é" * (size // 12)), recipient="é" * (size // 12))
        ),
    ),
    Worst(
        kind="effects: required tools by calls",
        path="/verify",
        effects=True,
        body=_required,
    ),
    Worst(
        kind="metrics: empty objects",
        path="/aggregate_metrics",
        body=lambda size: {"verify_responses": [{}] * (size // 3)},
    ),
)


class _Caller:
    """Makes requests of an application in this process, with one session's cookie."""

    def __init__(self, *, effects: bool) -> None:
        self._app = create_app(ServerSettings(effects=effects))
        self._cookie: list[tuple[bytes, bytes]] = []

    async def post(self, path: str, body: bytes) -> tuple[int, float]:
        """Make a request; returns its status and the processor seconds it took."""
        messages: Iterator[Message] = iter(
            [{"type": "http.request", "body": body, "more_body": False}]
        )
        found: Json = {}

        async def receive() -> Message:
            return next(messages, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            found.setdefault("status", message.get("status"))
            for name, value in message.get("headers", ()):
                if name == b"set-cookie":
                    self._cookie = [(b"cookie", value.partition(b";")[0])]

        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "root_path": "",
            "raw_path": path.encode(),
            "query_string": b"",
            "http_version": "1.1",
            "scheme": "http",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                *self._cookie,
            ],
        }
        start = process_time()
        await self._app(scope, receive, send)
        return found["status"], process_time() - start


def _text(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


async def _measured(one: Worst, size: int) -> tuple[int, int, float]:
    caller, met = _Caller(effects=one.effects), 0
    if one.world is not None:
        seed = _text({"environment": one.world(size)})
        status, _ = await caller.post("/seed_session", seed)
        assert status == 200, one.kind
        met = len(seed)
    body = _text(one.body(size))
    status, seconds = await caller.post(one.path, body)
    return status, met + len(body), seconds


def _lines(size: int, only: str) -> Iterator[str]:
    yield "| Request | Size | Status | Processor time | For each MB |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for one in WORST:
        if only not in one.kind:
            continue
        status, length, seconds = asyncio.run(_measured(one, size))
        megabytes = length / _MEGABYTE
        each = seconds / megabytes
        yield (
            f"| {one.kind} | {megabytes:.2f} MB | {status} | {seconds * 1e3:,.0f} ms"
            f" | {each * 1e3:,.0f} ms |"
        )


def main() -> None:
    """Print the table, and renew it in a page if asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=_MEGABYTE)
    parser.add_argument("--only", default="", help="a part of a kind's name")
    parser.add_argument("--write", type=Path, help="renew the table in this page")
    options = parser.parse_args()
    lines = []
    for line in _lines(options.size, options.only):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        lines.append(line)
    if options.write:
        head, start, rest = options.write.read_text("utf-8").partition(START)
        _, end, tail = rest.partition(END)
        text = "\n".join(lines)
        options.write.write_text(f"{head}{start}\n{text}\n{end}{tail}", "utf-8")


if __name__ == "__main__":
    main()
