"""A process without a free descriptor or thread: refused, and right the next time."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.engines import control


if TYPE_CHECKING:
    from tests.server.conftest import Client


# Everything is loaded before descriptors run out, except what nobody thought of.
PROGRAM = """
import asyncio, json, os, resource, sys, time
from starlette.datastructures import Secret
from ipistate.server import ServerSettings, create_app

name, directory, free = sys.argv[1], sys.argv[2], int(sys.argv[3])
app = create_app(ServerSettings(checkpoint_token=Secret("t")))

async def post(path, document):
    body, sent = json.dumps(document).encode(), []
    inbox = [{"type": "http.request", "body": body, "more_body": False}]
    async def receive():
        return inbox.pop() if inbox else await asyncio.Event().wait()
    async def send(message):
        sent.append(message)
    headers = {"content-type": "application/json", "authorization": "Bearer t"}
    await app({
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])

async def operate(name, **members):
    deadline = time.time() + 60
    body = {"checkpoint_id": "c-1", "deadline_ts": deadline, **members}
    return await post(f"/ng-control/v1/checkpoint/{name}", body)

async def main():
    given = {"checkpoint_dir": directory}
    if name == "restore":
        given["episode_ids"] = [{"rollout_id": "ipi-7"}]
    else:
        await post("/ng-rollout/ipi-7/seed_session", {"environment": {"a": 1}})
        await operate("prepare")
    loaded = {*sys.modules}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_free = os.open(os.devnull, os.O_RDONLY)
    os.close(next_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_free + free, hard))
    first = await operate(name, **given)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    second = await operate(name, **given)
    imported = sorted({*sys.modules} - loaded)
    print(json.dumps([first, second, (await operate("resume"))[0], imported]))

asyncio.run(main())
"""


def outcome(name: str, directory: Path, free: int) -> Any:
    """Run an operation first with few free descriptors, then with many."""
    command = [sys.executable, "-c", PROGRAM, name, str(directory), str(free)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


@pytest.mark.parametrize("free", [0, 1, 2])
def test_b8_the_first_work_on_files_meets_no_descriptor(
    tmp_path: Path, free: int
) -> None:
    """B8: a commit, then a restore in a new process: 422, and the retry works."""
    for name in ("commit", "restore"):
        first, second, resumed, imported = outcome(name, tmp_path, free)

        assert first[0] in ({422} if free == 0 else {422, 200})
        if first[0] == 422:
            assert "invalid_checkpoint_state" == first[1]["error"]["code"]
            assert "Too many open files" in first[1]["error"]["detail"]
        assert (200, 200, []) == (second[0], resumed, imported)


class NoThread:
    """A pool that cannot start a thread, until it is told that it can."""

    def __init__(self, pool: Any, error: Exception) -> None:
        """Stand in for a pool."""
        self.pool, self.error, self.broken = pool, error, True

    def submit(self, *work: Any) -> Any:
        """Refuse, or hand over."""
        if self.broken:
            raise self.error
        return self.pool.submit(*work)


@pytest.mark.anyio
@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), OSError(24)])
async def test_b8_no_thread_for_the_work(
    connect: Callable[..., Awaitable[Client]], tmp_path: Path, error: Exception
) -> None:
    """B8: a commit and a restore are refused, repeated, and leave nothing wedged."""
    client = await connect()
    await client.seed(key="ipi-7")
    given: dict[str, Any] = {"checkpoint_dir": str(tmp_path)}
    await client.control("prepare")
    for name in ("commit", "restore"):
        shell: Any = client.app.state.shell
        machine = shell._machine
        pool = machine._threads = NoThread(machine._threads, error)
        refused = await client.control(name, **given)
        status = await client.status()
        pool.broken = False
        done = await client.control(name, **given)

        assert 422 == refused.status_code
        assert "invalid_checkpoint_state" == refused.json()["error"]["code"]
        assert status["phase"] == ("prepared" if name == "commit" else "idle")
        assert 200 == done.status_code
        assert 200 == (await client.control("resume")).status_code
        client = await connect()
        given["episode_ids"] = [{"rollout_id": "ipi-7"}]


@pytest.mark.anyio
async def test_b8_a_fault_in_the_work_itself_is_heard_of(
    connect: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B8: whatever a thread raises, the commit fails and can be repeated."""
    client = await connect()
    await client.seed(key="ipi-7")
    await client.control("prepare")
    given: Any = {"checkpoint_dir": str(tmp_path)}
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise RuntimeError("boom")

        broken.setattr("ipistate.server.live.files._note", fail)
        refused = await client.control("commit", **given)
    again = await client.control("commit", **given)

    assert (422, 200) == (refused.status_code, again.status_code)


SERVER = """
import resource, sys
from starlette.datastructures import Secret
from ipistate.server import ServerSettings, run
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
run(ServerSettings(checkpoint_token=Secret("a-token")), port=0, loop=sys.argv[1])
"""


def exchange(sock: socket.socket, request: bytes) -> bytes:
    """Send a request and return its reply as far as the body is there."""
    sock.sendall(request)
    reply = b""
    while True:
        piece = sock.recv(65536)
        reply += piece
        head, _, body = reply.partition(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name == b"content-length" and len(body) >= int(value):
                return reply
        assert piece, reply


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_b8_more_connections_than_descriptors(tmp_path: Path, loop: str) -> None:
    """B8: those that exist are served, a commit can be repeated, and the log is short."""
    pytest.importorskip("uvloop" if loop == "uvloop" else "asyncio")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 200:
        pytest.skip("needs descriptors of its own")
    command = [sys.executable, "-c", SERVER, loop]
    errors_file = tmp_path / "errors"
    with (
        errors_file.open("wb") as errors,
        subprocess.Popen(command, stderr=errors, env={**os.environ}) as server,
    ):
        while b"\n" not in errors_file.read_bytes():
            assert server.poll() is None
        port = int(errors_file.read_text().rpartition(":")[2])
        directory = tmp_path / "checkpoint"
        keep = b"Connection: close\r\n", b""
        commit = control("commit", checkpoint_dir=str(directory)).replace(*keep)
        with socket.create_connection(("127.0.0.1", port)) as first:
            assert b"200 OK" in exchange(first, control("prepare").replace(*keep))
            with ExitStack() as others:
                for _ in range(100):
                    one = socket.create_connection(("127.0.0.1", port))
                    others.enter_context(one)
                refused = exchange(first, commit)
            done = exchange(first, commit)
            while b" 422 " in done:  # until the others' descriptors are free
                done = exchange(first, commit)
        server.terminate()
    said = errors_file.read_text()

    assert refused.split()[1] in {b"422", b"200"}
    assert b"200 OK" in done
    assert len(said) < 2_000
    assert "Traceback" not in said
