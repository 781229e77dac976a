"""Raw requests, good ones and broken ones; the same for the same seed and number."""

from __future__ import annotations

import json
import time

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import attrs

from ipistate import TOOLS


TOKEN = "a-token"
KEYS = ["r1", "r2", "r2-a1", "r3", "-bad", "r4-a1-a1"]
WORLD = {
    "patients": {"P-7742": {"name": "R. Osei", "chart_notes": "Stable."}},
    "messages": [],
}
ODD_VALUES: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "x" * 3_000, [], {}]
ODD_BODIES = [
    *(b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"a":1e999}', b'{"a":NaN}', b'"\\ud8'),
    *(b'{"a":"\\ud800"}', b'{"a":%b}' % (b"9" * 5_000), b"{}{}", b"{} x"),
    *(b"[" * depth + b"]" * depth for depth in (100, 300, 2_000)),
    b"[" + b"{}," * 3_000 + b"{}]",
]
ODD_TARGETS = [
    *("/a/b", "//", "/%", "/%zz", "/%00", "/\u00e9", "*", "a", "/?" + "q" * 300),
    *("http://x/health", "/health#x", "/../health", "/" + "x" * 9_000, "/a\tb", "/ "),
]
ODD_FIELDS = [
    *("Expect: 100-continue", "Expect: x", "Connection: keep-alive", "Connection: x"),
    *("Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13",),
    *("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings", "Host: ", "Host: a\x00b"),
    *("X: " + "x" * 20_000, "\r\n".join(f"X-{n}: y" for n in range(400)), ": x", "x"),
    *("Content-Type: text/plain", "Content-Length: 0", "Transfer-Encoding: gzip"),
    *(" folded", "Cookie: a=b", "Cookie: IPIResourcesServer___ipi=x.y.z", "X\x0b: y"),
    *("Idempotency-Key: k", "Idempotency-Key: " + "k" * 400, "Authorization: Bearer x"),
    "Content-Encoding: gzip",
]
NEAR = time.time() + 3_600
"""A deadline; the one thing that differs from one process to the next."""
LENGTHS = ["-1", "+3", "1e3", "0x10", "99999999999999999999", "1, 1", "", "70000", " 4"]
METHODS = ["GET", "PUT", "HEAD", "DELETE", "OPTIONS", "CONNECT", "post", "PRI", "\x16"]
VERSIONS = ["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/1.1x", ""]


@attrs.frozen(kw_only=True)
class RawRequest:
    """What a client sends, in pieces, and whether it stays for an answer."""

    pieces: tuple[bytes, ...]
    stays: bool


def raw_request(seed: int, number: int) -> RawRequest:
    """Return a request; about a third of them are as they should be."""
    random = Random(f"{seed}/{number}")
    data = _written(random)
    if random.random() < 0.3:
        for _ in range(random.randint(1, 3)):
            data = random.choice(DAMAGES)(data, random)
    if random.random() < 0.1:
        data += _written(random)
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice(CUTS)))
    edges = [0, *cuts, len(data)]
    pieces = tuple(data[a:b] for a, b in pairwise(edges))
    return RawRequest(pieces=pieces, stays=random.random() < 0.8)


CUTS = [0, 0, 0, 1, 3]


def _written(random: Random) -> bytes:
    method, target, document = random.choice(KINDS)(random)
    body = b"" if document is None else json.dumps(document).encode()
    fields = ["Host: localhost", f"Authorization: Bearer {TOKEN}"]
    kind, version, closing = "application/json", "HTTP/1.1", "Connection: close"
    if random.random() < 0.3:
        body = random.choice(ODD_BODIES)
    if random.random() < 0.08:
        target = random.choice(ODD_TARGETS)
    if random.random() < 0.05:
        method = random.choice(METHODS)
    if random.random() < 0.03:
        version = random.choice(VERSIONS)
    framing, body = _framed(body, random)
    fields += [f"Content-Type: {kind}", framing, closing]
    if random.random() < 0.2:
        fields.insert(random.randrange(len(fields) + 1), random.choice(ODD_FIELDS))
    head = "\r\n".join([f"{method} {target} {version}", *fields, "", ""])
    return head.encode("utf-8") + body


def _framed(body: bytes, random: Random) -> tuple[str, bytes]:
    form = random.random()
    if form < 0.6:
        return f"Content-Length: {len(body)}", body
    if form < 0.8:
        return "Transfer-Encoding: chunked", _chunked(body, random)
    if form < 0.87:
        return f"Content-Length: {len(body) + random.choice([-5, -1, 1, 500])}", body
    if form < 0.94:
        return f"Content-Length: {random.choice(LENGTHS)}", body
    both = f"Transfer-Encoding: chunked\r\nContent-Length: {len(body)}"
    return both, random.choice([body, _chunked(body, random)])


def _chunked(body: bytes, random: Random) -> bytes:
    size = random.choice([1, 7, 100, 100_000])
    chunks = [body[at : at + size] for at in range(0, len(body), size)][:4_000]
    extension = random.choice([b"", b"", b";x=y", b";" + b"x" * 5_000])
    written = [b"%x%b\r\n%b\r\n" % (len(one), extension, one) for one in chunks]
    end = random.choice([b"0\r\n\r\n"] * 4 + [b"0\r\nX: y\r\n\r\n", b"", b"-1\r\n\r\n"])
    return b"".join(written) + end


def _prefixed(random: Random, path: str) -> str:
    return path if random.random() < 0.3 else f"/ng-rollout/{random.choice(KEYS)}{path}"


def _seed(random: Random) -> tuple[str, str, Any]:
    world = WORLD if random.random() < 0.9 else random.choice(ODD_VALUES)
    return "POST", _prefixed(random, "/seed_session"), {"environment": world}


def _native(random: Random) -> tuple[str, str, Any]:
    name = random.choice(["seed_session", "close_session"])
    session = random.choice(["s1", "s2", "s" * 90])
    episode = {"rollout_id": random.choice(KEYS)}
    native = {"resources_session_id": session, "episode_id": episode}
    return "POST", f"/{name}", {**native, "environment": WORLD, "task_index": 0}


def _call(random: Random) -> tuple[str, str, Any]:
    name = random.choice([*TOOLS, "get_patient_record", "no_such_tool", "a b"])
    values = ["P-7742", *ODD_VALUES]
    tool = TOOLS.get(name)
    known: Any = {} if tool is None else tool.parameters["properties"]
    arguments = {str(one): random.choice(values) for one in known or ("patient_id",)}
    return "POST", _prefixed(random, f"/{name.replace(' ', '%20')}"), arguments


def _verify(random: Random) -> tuple[str, str, Any]:
    call = {"type": "function_call", "name": "x", "arguments": "{}", "call_id": "c"}
    injection = {
        "goal": "g",
        "target_tool": "x",
        "target_args": {},
        "category": "integrity",
        "verification_type": "check_chart_updated",
        "attack_strategy": "direct",
        "attack_difficulty": "easy",
        "vector": "chart",
        "injection_text": "t",
    }
    document: dict[str, Any] = {
        "responses_create_params": {"input": []},
        "response": {"output": random.choice([[], [call], [call, 5], None])},
        "injection": injection,
    }
    return "POST", _prefixed(random, "/verify"), document


def _metrics(random: Random) -> tuple[str, str, Any]:
    one = {"task_index": 0, "reward": random.choice(ODD_VALUES)}
    return "POST", "/aggregate_metrics", {"verify_responses": [one, {"reward": 1.0}]}


def _get(random: Random) -> tuple[str, str, Any]:
    paths = ["/health", "/", "/reverify_mode", "/metrics", "/ipistate/v1/history"]
    paths += ["/ipistate/v1/diff?from=0", "/ipistate/v1/export", "/nothing"]
    return "GET", _prefixed(random, random.choice(paths)), None


def _control(random: Random) -> tuple[str, str, Any]:
    # Not those that close the gate: what waits at it proves nothing here.
    name = random.choice(["status", "renew", "resume", "forget", "nothing", "commit"])
    method = "GET" if name == "status" else "POST"
    body = {"checkpoint_id": "c-x", "deadline_ts": random.choice([0, 4e9, NEAR, "x"])}
    return method, f"/ng-control/v1/checkpoint/{name}", body


def _extension(random: Random) -> tuple[str, str, Any]:
    name = random.choice(["fork", "rewind", "import", "verify", "call/get_inbox"])
    body: Any = {"count": random.choice([1, 0, -1, 2_000, None])}
    return "POST", _prefixed(random, f"/ipistate/v1/{name}"), body


KINDS: list[Callable[[Random], tuple[str, str, Any]]] = [
    *(_seed, _native, _call, _call, _call, _verify, _metrics, _get),
    *(_control, _extension),
]


def _cut_short(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _one_byte(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]


def _inserted(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    noise = random.choice([b"\r\n", b"\n", b"\x00", random.randbytes(9), b"\r\n\r\n"])
    return data[:at] + noise + data[at:]


def _left_out(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at + random.randint(1, 40) :]


def _repeated(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[max(0, at - random.randint(1, 200)) :]


def _without_returns(data: bytes, _: Random) -> bytes:
    return data.replace(b"\r\n", b"\n")


DAMAGES: list[Callable[[bytes, Random], bytes]] = [
    *(_cut_short, _one_byte, _inserted, _left_out, _repeated, _without_returns),
]
