"""A real server process on loopback: its start, its limits, and clients that leave."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from ipistate.server.operating.settings import ServerSettings
from ipistate.server.serve import TooManyWorkersError, refuse_workers, run


PROGRAM = """
import sys
from starlette.datastructures import Secret
from ipistate.server.serve import run
from ipistate.server.operating.settings import ServerSettings
port, loop, http = sys.argv[1:]
settings = ServerSettings(checkpoint_token=Secret("t"))
run(settings, port=int(port), loop=loop, http=http)
"""
WORLD = {"patients": {"P-7742": {"name": "R. Osei", "chart_notes": "Stable."}}}
READY = "ipistate: serving on "


class Served(subprocess.Popen[str]):
    """A server process; it has an address as soon as it is ready."""

    address: str


def start(port: int | str = 0, loop: str = "auto", http: str = "auto") -> Served:
    """Start a server process; its stderr tells when it is ready."""
    return Served(
        [sys.executable, "-c", PROGRAM, str(port), loop, http],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "WEB_CONCURRENCY"},
    )


@pytest.fixture(
    scope="module", params=[("asyncio", "h11"), ("uvloop", "httptools")], ids="-".join
)
def process(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Run one server for the tests of this module and stop it as an operator does."""
    for engine in {*request.param} - {"asyncio"}:
        pytest.importorskip(engine)
    with start(0, *request.param) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
        assert line.startswith(READY)
        running.address = line.removeprefix(READY).strip()
        yield running
        running.send_signal(signal.SIGTERM)
        out, errors = running.communicate(timeout=20)
    assert out == ""
    assert "Traceback" not in errors


@pytest.fixture
def client(process: Served) -> Iterator[httpx.Client]:
    """Return a client with a cookie jar of its own."""
    with httpx.Client(base_url=process.address, timeout=30) as made:
        yield made


def inflight(client: httpx.Client) -> int:
    """Return how many requests the server counts."""
    reply = client.get(
        "/ng-control/v1/checkpoint/status", headers={"authorization": "Bearer t"}
    )
    found: int = reply.json()["report"]["counts"]["inflight"]
    return found


def connection(process: Served) -> socket.socket:
    """Open a plain connection."""
    host, _, port = process.address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def peak_memory(process: Served) -> float:
    """Return the process's largest size so far in MiB, or skip."""
    try:
        with open(f"/proc/{process.pid}/status") as status:  # noqa: PTH123
            lines = dict(line.split(":", 1) for line in status)
    except OSError:
        pytest.skip("needs /proc")
    return int(lines["VmHWM"].split()[0]) / 1024


def test_the_line_names_the_port_that_was_chosen(
    process: Served,
) -> None:
    """Port 0 becomes a real one, and connections are accepted."""
    assert not process.address.endswith(":0")
    assert process.address.startswith("http://127.0.0.1:")
    assert 200 == httpx.get(process.address + "/health").status_code


def test_b55_a_session_goes_on_through_a_bare_address(client: httpx.Client) -> None:
    """The cookie of 127.0.0.1 is kept and sent by a usual client."""
    client.post("/ng-rollout/ipi-7/seed_session", json={"environment": WORLD})
    reply = client.post("/get_patient_record", json={"patient_id": "P-7742"})

    assert "R. Osei" in reply.json()["output"]


@pytest.mark.parametrize("chunked", [False, True])
def test_b61_a_body_of_64_mebibytes_is_refused(
    process: Served, client: httpx.Client, chunked: bool
) -> None:
    """413 with and without a length header, without keeping the body."""
    inflight(client)
    before = peak_memory(process)
    part = b"x" * 65536
    length = {} if chunked else {"content-length": str(1024 * len(part))}
    reply = client.post(
        "/seed_session",
        content=(part for _ in range(1024)),
        headers={"content-type": "application/json", **length},
    )

    assert 413 == reply.status_code
    assert peak_memory(process) - before < 60
    assert 0 == inflight(client)


@pytest.mark.parametrize("sent", [b"", b'{"patient_id": '])
def test_b62_a_client_that_leaves_is_not_counted(
    process: Served, client: httpx.Client, sent: bytes
) -> None:
    """A connection that drops in the middle of a body was never in flight."""
    with connection(process) as dropped:
        dropped.sendall(
            b"POST /update_patient_chart HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n" + sent
        )
        assert 0 == inflight(client)

    assert 0 == inflight(client)
    assert 200 == client.get("/health").status_code


def test_a_malformed_request_does_no_harm(
    process: Served, client: httpx.Client
) -> None:
    """Bytes that are not HTTP are refused; the server goes on."""
    with connection(process) as odd:
        odd.sendall(b"\x00\xff nonsense\r\n\r\n")
        answer = odd.recv(100)

    assert answer.startswith(b"HTTP/1.1 400")
    assert 200 == client.get("/health").status_code


def test_a_port_in_use_ends_the_process(process: Served) -> None:
    """No readiness line, an error on stderr, a failing exit code."""
    port = process.address.rpartition(":")[2]
    with start(port) as second:
        out, errors = second.communicate(timeout=20)

    assert second.returncode != 0
    assert "" == out
    assert READY not in errors
    assert "address already in use" in errors


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a17_a_second_signal_ends_the_waiting_without_a_traceback(
    sent: signal.Signals,
) -> None:
    """The first one waits for what is open, the second does not."""
    command = [sys.executable, "-m", "ipistate", "serve", "--port", "0"]
    with Served(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
        running.address = line.removeprefix(READY).strip()
        with connection(running) as opened:
            opened.sendall(b"POST /verify HTTP/1.1\r\nhost: localhost\r\n")
            opened.sendall(b"content-length: 9\r\n\r\n{")
            httpx.get(f"{running.address}/health")
            for _ in range(3):
                running.send_signal(sent)
            _, errors = running.communicate(timeout=20)

    assert "Traceback" not in errors
    assert running.returncode == (4 if sent is signal.SIGINT else -sent)


@pytest.mark.parametrize("concurrency", ["2", "0", "many", " 4 "])
def test_several_workers_by_environment_are_refused(concurrency: str) -> None:
    """Each worker would hold its own sessions."""
    with pytest.raises(TooManyWorkersError, match="WEB_CONCURRENCY"):
        refuse_workers({"WEB_CONCURRENCY": concurrency})


@pytest.mark.parametrize("concurrency", ["", "1", " 1 "])
def test_one_worker_is_accepted(concurrency: str) -> None:
    """One is what there is."""
    refuse_workers({"WEB_CONCURRENCY": concurrency})


def test_several_workers_by_argument_are_refused() -> None:
    """Before anything is opened."""
    with pytest.raises(TooManyWorkersError, match="4 workers"):
        run(ServerSettings(), workers=4)


def test_everything_logged_as_json_is_json(tmp_path: Path) -> None:
    """Also the line that the server is ready, with its engine, and what uvicorn says."""
    (tmp_path / "token").write_text("hidden\n")
    (tmp_path / "token").chmod(0o640)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "ipistate",
        "serve",
        "--port",
        "0",
    ]
    options = ["--log-json", "--log-level", "info", "--metrics"]
    options += ["--instance-name", "east"]
    token = ["--checkpoint-token-file", str(tmp_path / "token")]
    with subprocess.Popen(
        [*command, *options, *token], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        ready = json.loads(running.stderr.readline())
        address = ready["address"]
        control = f"{address}/ng-control/v1/checkpoint"
        body = {"checkpoint_id": "c-1", "deadline_ts": time.time() + 600}
        headers = {"authorization": "Bearer hidden"}
        httpx.get(f"{control}/status")
        httpx.post(f"{control}/prepare", json=body, headers=headers)
        httpx.post(f"{control}/resume", json=body, headers=headers)
        metrics = httpx.get(f"{address}/metrics").text
        running.send_signal(signal.SIGTERM)
        errors = running.stderr.read()  # communicate() would lose what is buffered
    lines = [json.loads(line) for line in errors.splitlines()]

    assert f"serving on {address}" == ready["message"]
    assert ready["event_loop"] == ("uvloop" if find_spec("uvloop") else "asyncio")
    assert ready["http_parser"] == ("httptools" if find_spec("httptools") else "h11")
    assert [
        "ipistate.cli.tokens",
        "ipistate.server.token",
        "ipistate.server.shell",
        "ipistate.server.control",
        "ipistate.server.shell",
        "ipistate.server.control",
    ] == [line["logger"] for line in lines]
    assert "hidden" not in errors
    assert 'ipistate_refusals_total{code="unauthorized"} 1.0' in metrics
    assert "process_resident_memory_bytes" in metrics
