"""Forks of a live session and SIGKILL: real processes, and branches that go on."""

from __future__ import annotations

import json
import signal
import time

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from ipistate.deploy.server_process import ServerProcess, serve


pytestmark = [pytest.mark.anyio, pytest.mark.once]

CONTROL = "/ng-control/v1/checkpoint"
TOKEN = "a-token"
KEY = "request-17"
BRANCHES = ("left", "right")


def world_of(size: int) -> dict[str, Any]:
    """Return a world of about ``size`` bytes as compact JSON."""
    note = "Stable, no acute distress. " * 5
    count = size // (len(note) + 60)
    patients = {
        f"P-{number:06}": {"name": f"Patient {number}", "chart_notes": note}
        for number in range(count)
    }
    return {"patients": patients, "messages": []}


def note(text: str) -> dict[str, str]:
    """Return the arguments of a call that changes the world."""
    return {"patient_id": "P-000007", "notes": text}


class Controller:
    """A holder of the token who knows the cookie of each branch.

    Cookies are sent by name, so one client speaks for every session.
    """

    def __init__(self, process: ServerProcess, cookies: dict[str, str]) -> None:
        self.cookies = cookies
        self._http = httpx.AsyncClient(base_url=process.url, timeout=60)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def send(
        self,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        branch: str | None = None,
        key: str | None = None,
    ) -> httpx.Response:
        """Send one request, whose answer must be 200, as a branch or as nobody."""
        headers = {"authorization": f"Bearer {TOKEN}"}
        if branch is not None:
            headers["cookie"] = self.cookies[branch]
        if key is not None:
            headers["idempotency-key"] = key
        self._http.cookies.clear()
        method = "GET" if body is None else "POST"
        reply = await self._http.request(method, path, json=body, headers=headers)
        assert 200 == reply.status_code, (path, reply.text[:300])
        return reply

    async def control(
        self, name: str, checkpoint_id: str, **members: Any
    ) -> dict[str, Any]:
        """Make a control call."""
        body = {"checkpoint_id": checkpoint_id, "deadline_ts": time.time() + 60}
        found: dict[str, Any] = (
            await self.send(f"{CONTROL}/{name}", {**body, **members})
        ).json()
        return found

    async def note(self, branch: str, text: str, key: str | None = None) -> bytes:
        """Make a call in a branch, under a key if there is one."""
        path = "/update_patient_chart"
        if key is not None:
            path = f"/ipistate/v1/call{path}"
        return (await self.send(path, note(text), branch=branch, key=key)).content

    async def exports(self) -> dict[str, bytes]:
        """Return the bytes of each branch's export."""
        path = "/ipistate/v1/export"
        return {
            name: (await self.send(path, branch=name)).content for name in self.cookies
        }

    async def seed(self, world: dict[str, Any]) -> None:
        """Start the trunk as an episode of its own."""
        body = {"environment": world}
        reply = await self.send("/ng-rollout/trunk/seed_session", body)
        ((name, value),) = reply.cookies.items()
        self.cookies["trunk"] = f"{name}={value}"

    async def fork(self) -> None:
        """Fork the trunk, one session for each of the branches."""
        wanted = {"episode_ids": [{"rollout_id": name} for name in BRANCHES]}
        reply = await self.send("/ipistate/v1/fork", wanted, branch="trunk")
        for told in reply.json()["sessions"]:
            self.cookies[told["episode_id"]["rollout_id"]] = told["cookie"]


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Awaitable[ServerProcess]]:
    """Return a function that starts a server whose checkpoints hold histories."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    options = ["--extension", "--checkpoint-state-version", "2"]
    options += ["--checkpoint-token-file", str(token)]

    async def start() -> ServerProcess:
        return await ServerProcess.start(serve(*options), tmp_path / "log")

    return start


@pytest.mark.parametrize("size", [5_000, 5_000_000], ids=["5kB", "5MB"])
async def test_forked_episodes_outlive_sigkill(
    launch: Callable[..., Awaitable[ServerProcess]], tmp_path: Path, size: int
) -> None:
    """Branches come back byte for byte, apart from one another, with their keys."""
    cookies: dict[str, str] = {}
    directory = str(tmp_path / "checkpoint")
    async with await launch() as process, Controller(process, cookies) as controller:
        await controller.seed(world_of(size))
        recorded = await controller.note("trunk", "before the fork", KEY)
        await controller.fork()
        for branch in cookies:
            await controller.note(branch, f"only {branch}")
        own = {name: await controller.note(name, name, f"k-{name}") for name in cookies}
        await controller.control("prepare", "c-1")
        told = await controller.control("commit", "c-1", checkpoint_dir=directory)
        before = await controller.exports()
        status = await process.kill()

    async with await launch() as fresh, Controller(fresh, cookies) as controller:
        ids = [{"rollout_id": key} for key in told["episode_ids"]]
        members = {"checkpoint_dir": directory, "episode_ids": ids}
        restored = (await controller.control("restore", "r-1", **members))["restored"]
        await controller.control("resume", "r-1")
        after = await controller.exports()
        again = {name: await controller.note(name, name, f"k-{name}") for name in own}
        repeated = [
            await controller.note(name, "before the fork", KEY) for name in cookies
        ]
        untouched = await controller.exports()
        await controller.note("left", "after the restore")
        diverged = await controller.exports()

    assert (-signal.SIGKILL, True) == (status, process.pid != fresh.pid)
    assert ["left", "right", "trunk"] == told["episode_ids"]
    assert ["left-a1", "right-a1", "trunk-a1"] == restored
    assert all(len(text) > size for text in before.values())
    assert 3 == len(set(before.values()))
    assert before == after == untouched
    assert (own, [recorded] * 3) == (again, repeated)
    assert {"left"} == {name for name in before if before[name] != diverged[name]}
    log = json.loads(diverged["left"])["log"]
    assert ["before the fork", "only left", "left", "after the restore"] == [
        step["arguments"]["notes"] for step in log
    ]
