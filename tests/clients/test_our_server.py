"""The coordinator and our own server: in this process, and over the loopback."""

from __future__ import annotations

import json
import time

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.clients.control_client import ControlClient
from ipistate.clients.coordinator import Coordinator
from ipistate.clients.discovery import discover_urls
from ipistate.clients.http import JSON, Bounds, HttpAnswer, HttpClient
from ipistate.coordination import (
    DiscoveryError,
    MissingEpisodesError,
    OperationFailedError,
    RestoreFailedError,
)
from ipistate.deploy.server_process import ServerProcess, serve
from ipistate.protocol.episode import EpisodeId


if TYPE_CHECKING:
    from loopback import Loopback
    from starlette.applications import Starlette


pytestmark = pytest.mark.anyio
TOKEN = "a-token"
WORLD = {"patients": {"P-7": {"name": "R. Osei", "chart_notes": "Stable."}}}
BOUNDS = Bounds(size=2**20, total=20.0)
NOTES = {"patient_id": "P-7", "notes": "Reviewed."}


def soon() -> float:
    """Return a deadline."""
    return time.time() + 20


async def posted(
    base: str,
    path: str,
    body: dict[str, Any],
    cookies: dict[str, str],
    resolver: Loopback | None = None,
) -> HttpAnswer:
    """Make a data call over a connection of its own."""
    content = json.dumps(body).encode()
    async with HttpClient(resolver=resolver) as agent:
        return await agent.send(
            "POST", base, path, content, bounds=BOUNDS, headers=JSON, cookies=cookies
        )


class Stage:
    """Two servers of ours, ``east`` and ``west``, and an agent's clients for them."""

    def __init__(
        self,
        ours: Callable[..., Starlette],
        network: type[Loopback],
        control: Callable[..., Awaitable[ControlClient]],
    ) -> None:
        self.ours, self.network, self.control = ours, network, control

    async def start(self, east: float = 0.0, west: float = 0.0) -> Coordinator:
        """Start both with nothing in them, their clocks so many seconds ahead."""
        self.apps = {
            name: self.ours(lambda by=by: time.time() + by, instance_name=name)
            for name, by in (("east", east), ("west", west))
        }
        self.net = self.network(self.apps)
        urls = [f"http://{name}" for name in self.apps]
        client = await self.control(self.net)
        return Coordinator(await discover_urls(urls, client, required=()), client)

    async def post(
        self,
        name: str,
        path: str,
        body: dict[str, Any],
        cookies: dict[str, str] | None = None,
    ) -> tuple[str, dict[str, str]]:
        """Make a data call; return the text of the reply and the cookies."""
        reply = await posted(f"http://{name}", path, body, cookies or {}, self.net)
        assert 200 == reply.status, reply.content
        return reply.content.decode(), {**(cookies or {}), **reply.cookies}

    async def seed(self, name: str, key: str) -> dict[str, str]:
        """Seed a session for a capture key; return its cookies."""
        body = {"environment": WORLD}
        return (await self.post(name, f"/ng-rollout/{key}/seed_session", body))[1]


@pytest.fixture
async def stage(
    ours: Callable[..., Starlette],
    network: type[Loopback],
    control: Callable[..., Awaitable[ControlClient]],
) -> Stage:
    """Return two servers that can be started again."""
    return Stage(ours, network, control)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((0, 0), (0, 0)),
        ((300, 0), (0, 300)),
        ((-300, 300), (0, 600)),
        ((0, 1e5), (0, 1e5)),
    ],
)
async def test_b5_commit_crash_restore(
    stage: Stage,
    tmp_path: Path,
    before: tuple[float, float],
    after: tuple[float, float],
) -> None:
    """Sessions of two servers go on in fresh processes, with the cookies they hold.

    It does not matter that their clocks differ from ours, and from those before.
    """
    first = await stage.start(*before)
    cookies = {name: await stage.seed(name, f"r-{name}") for name in ("east", "west")}
    for name, cookie in cookies.items():
        await stage.post(name, "/update_patient_chart", NOTES, cookie)
    scope = [EpisodeId("r-east"), EpisodeId("r-west")]

    prepared = await first.prepare("step-1", soon())
    committed = await first.commit("step-1", soon(), tmp_path, scope)
    await first.resume("step-1", soon())
    expected = [
        (await stage.post(name, "/get_patient_record", {"patient_id": "P-7"}, cookie))[
            0
        ]
        for name, cookie in cookies.items()
    ]
    fresh = await stage.start(*after)
    restored = await fresh.restore("restore-1", soon(), tmp_path, scope)
    await fresh.resume("restore-1", soon())
    replies = [
        (await stage.post(name, "/get_patient_record", {"patient_id": "P-7"}, cookie))[
            0
        ]
        for name, cookie in cookies.items()
    ]

    assert (True, tuple(scope)) == (prepared.ready, committed.episodes)
    assert tuple(one.next_attempt for one in scope) == restored.episodes
    assert {"step-1"} == restored.sources
    assert expected == replies


async def test_status(stage: Stage) -> None:
    """Every status is read, what only resources servers say included."""
    coordinator = await stage.start()
    await stage.seed("west", "r-1")
    await coordinator.prepare("step-1", soon())
    answers = (await coordinator.status()).answers

    assert [("east", 0), ("west", 1)] == [
        (one.reply.instance, one.reply.report.counts["sessions"]) for one in answers
    ]
    assert {("prepared", "step-1", "exported")} == {
        (one.reply.phase, one.reply.checkpoint_id, one.reply.extra["mode"])
        for one in answers
    }


async def test_repeated_operations(stage: Stage, tmp_path: Path) -> None:
    """Each call may be made again with the same id and gives the same answers."""
    coordinator = await stage.start()
    await stage.seed("east", "r-1")
    prepared = await coordinator.prepare("step-1", soon())
    committed = await coordinator.commit("step-1", soon(), tmp_path, [EpisodeId("r-1")])

    assert prepared == await coordinator.prepare("step-1", soon())
    assert committed == await coordinator.commit(
        "step-1", soon(), tmp_path, [EpisodeId("r-1")]
    )
    await coordinator.resume("step-1", soon())
    resumed = await coordinator.resume("step-1", soon())
    assert [True, True] == [one.reply.idempotent for one in resumed.answers]


async def test_refusals(stage: Stage, tmp_path: Path) -> None:
    """A refusal carries participant, status, code and text."""
    coordinator = await stage.start()
    await coordinator.resume("step-1", soon())
    with pytest.raises(OperationFailedError) as caught:
        await coordinator.prepare("step-1", soon())
    failure = caught.value.failures[0]

    assert ("east", 409, "stale_checkpoint") == (
        failure.server.name,
        failure.status,
        failure.code,
    )
    assert failure.detail


async def test_restore_that_fails_at_one_server(stage: Stage, tmp_path: Path) -> None:
    """A server with sessions refuses; both are open again under the next id."""
    first = await stage.start()
    await stage.seed("east", "r-1")
    await first.prepare("step-1", soon())
    await first.commit("step-1", soon(), tmp_path, [EpisodeId("r-1")])
    fresh = await stage.start()
    await stage.seed("west", "r-2")
    with pytest.raises(RestoreFailedError) as caught:
        await fresh.restore("restore-1", soon(), tmp_path, [EpisodeId("r-1")])

    assert (frozenset({"checkpoint_error"}), ()) == (
        caught.value.codes,
        caught.value.clean_up,
    )
    assert {"idle"} == {one.reply.phase for one in (await fresh.status()).answers}


async def test_d2_missing_episodes_are_refused(stage: Stage, tmp_path: Path) -> None:
    """D2: they are named, nothing stays, and the corrected list is restored and served."""
    first = await stage.start()
    cookies = await stage.seed("east", "r-1")
    known, unknown = EpisodeId("r-1"), EpisodeId("r-99", 2)
    await first.prepare("step-1", soon())
    await first.commit("step-1", soon(), tmp_path, [known])
    fresh = await stage.start()
    with pytest.raises(MissingEpisodesError) as caught:
        await fresh.restore("restore-1", soon(), tmp_path, [known, unknown])
    statuses = [one.reply for one in (await fresh.status()).answers]

    assert (((unknown,), ()), "missing_episodes") == (
        (caught.value.episodes, caught.value.clean_up),
        caught.value.code,
    )
    assert "r-99-a2" in caught.value.message
    assert [("idle", 0, 0)] * 2 == [
        (one.phase, one.report.counts["sessions"], one.retired_rollouts)
        for one in statuses
    ]

    await fresh.restore("restore-2", soon(), tmp_path, [known])
    await fresh.resume("restore-2", soon())
    reply, _ = await stage.post(
        "east", "/get_patient_record", {"patient_id": "P-7"}, cookies
    )

    assert "R. Osei" in reply


async def test_d2_missing_episodes_can_be_allowed(stage: Stage, tmp_path: Path) -> None:
    """D2: with the option the others go on, and the result names what is missing."""
    first = await stage.start()
    await stage.seed("east", "r-1")
    known, unknown = EpisodeId("r-1"), EpisodeId("r-99")
    await first.prepare("step-1", soon())
    await first.commit("step-1", soon(), tmp_path, [known])
    fresh = await stage.start()
    done = await fresh.restore(
        "restore-1", soon(), tmp_path, [known, unknown], allow_missing=True
    )

    assert ((EpisodeId("r-1", 1),), (unknown,)) == (
        done.episodes,
        done.missing([known, unknown]),
    )


async def test_d2_a_restore_that_all_refuse_changes_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    """D2: the same id with another list is a conflict, and what is restored stays."""
    first = await stage.start()
    cookies = await stage.seed("east", "r-1")
    await stage.seed("east", "r-2")
    known, other = EpisodeId("r-1"), EpisodeId("r-2")
    await first.prepare("step-1", soon())
    await first.commit("step-1", soon(), tmp_path, [known, other])
    fresh = await stage.start()
    await fresh.restore("restore-1", soon(), tmp_path, [known])
    with pytest.raises(RestoreFailedError) as caught:
        await fresh.restore("restore-1", soon(), tmp_path, [known, other])
    before = [one.reply.phase for one in (await fresh.status()).answers]
    await fresh.resume("restore-1", soon())
    await stage.post("east", "/get_patient_record", {"patient_id": "P-7"}, cookies)

    assert {"checkpoint_conflict"} == caught.value.codes
    assert ["restored"] * 2 == before


async def test_d2_a_restore_of_retired_attempts_says_what_to_do(
    stage: Stage, tmp_path: Path
) -> None:
    """D2: it is refused and names them; after a forget it works."""
    first = await stage.start()
    cookies = await stage.seed("east", "r-1")
    known = EpisodeId("r-1")
    await first.prepare("step-1", soon())
    await first.commit("step-1", soon(), tmp_path, [known])
    fresh = await stage.start()
    await fresh.retire("retire-1", soon(), [known.next_attempt])
    with pytest.raises(RestoreFailedError) as caught:
        await fresh.restore("restore-1", soon(), tmp_path, [known])
    await fresh.forget("forget-1", soon(), ["r-1"])
    await fresh.restore("restore-2", soon(), tmp_path, [known])
    await fresh.resume("restore-2", soon())
    await stage.post("east", "/get_patient_record", {"patient_id": "P-7"}, cookies)

    assert {"stale_attempt"} == caught.value.codes
    assert "r-1-a1" in caught.value.message
    assert "forget" in caught.value.message


async def test_retire_and_forget(stage: Stage) -> None:
    """A retired attempt is refused and freed everywhere, until it is forgotten."""
    coordinator = await stage.start()
    cookies = {name: await stage.seed(name, "r-1") for name in ("east", "west")}
    retired = await coordinator.retire("c-1", soon(), [EpisodeId("r-1", 3)])
    statuses = [one.reply for one in (await coordinator.status()).answers]
    refused = await posted(
        "http://east", "/get_patient_record", {}, cookies["east"], stage.net
    )
    await coordinator.forget("c-1", soon(), ["r-1"])
    after = [one.reply for one in (await coordinator.status()).answers]

    assert [("r-1-a3",)] * 2 == [one.reply.retired for one in retired.answers]
    assert [(0, 1)] * 2 == [
        (one.report.counts["sessions"], one.retired_rollouts) for one in statuses
    ]
    assert 409 == refused.status
    assert [0, 0] == [one.retired_rollouts for one in after]


async def test_renew(stage: Stage) -> None:
    """The lease is that of the latest deadline, at every server."""
    coordinator = await stage.start()
    await coordinator.prepare("c-1", 100_000.0 + time.time())
    deadline = time.time() + 200_000
    renewed = await coordinator.renew("c-1", deadline)
    await coordinator.resume("c-1", soon())

    assert deadline + 600 == renewed.lease_expires_at


async def test_b5_a_server_whose_clock_differs_is_named(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with the seconds; its deadlines are said in its own time from then on."""
    coordinator = await stage.start(east=-300.0)
    deadline = time.time() + 30
    await coordinator.prepare("c-1", deadline)
    statuses = await coordinator.status()
    await coordinator.resume("c-1", soon())
    leases = [one.reply.lease_expires_at for one in statuses.answers]

    warned = [r.getMessage() for r in caplog.records if r.name.endswith("control")]
    assert ["the clock of http://east differs from this machine's by -300 s"] == [
        text for text in warned if "differs" in text
    ]
    assert leases[0] is not None
    assert leases[0] == pytest.approx(deadline + 600 - 300, abs=1)


SHIFTED = """
import sys, time
told = time.time
time.time = lambda by=float(sys.argv.pop()): told() + by
from ipistate.cli.app import run
sys.exit(run())
"""


def serve_at(seconds: float, *options: str) -> tuple[str, ...]:
    """Return the command of a server whose time of day is so many seconds ahead."""
    _, _, *verb = serve(*options)
    return ("-c", SHIFTED, *verb, str(seconds))


@pytest.mark.parametrize("ahead", [(0, 0), (300, -300), (-300, 0), (3600, 0)])
async def test_b5_over_the_loopback(tmp_path: Path, ahead: tuple[float, float]) -> None:
    """A server process is found, driven and killed; another one restores.

    Their clocks may differ, as those of two machines do.
    """
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(TOKEN)
    options = ["--checkpoint-token-file", str(tmp_path / "token")]
    first, second = (serve_at(by, *options) for by in ahead)
    async with (
        ControlClient(TOKEN) as client,
        await ServerProcess.start(first, tmp_path / "log") as process,
    ):
        coordinator = Coordinator(
            await discover_urls([process.url], client, required=()), client
        )
        body = {"environment": WORLD}
        reply = await posted(process.url, "/ng-rollout/r-1/seed_session", body, {})
        prepared = await coordinator.prepare("step-1", soon())
        await coordinator.commit("step-1", soon(), tmp_path / "c", [EpisodeId("r-1")])
        await process.kill()
        with pytest.raises(DiscoveryError) as caught:
            await discover_urls([process.url], client)
    async with (
        ControlClient(TOKEN) as client,
        await ServerProcess.start(second, tmp_path / "log") as process,
    ):
        fresh = Coordinator(
            await discover_urls([process.url], client, required=()), client
        )
        restored = await fresh.restore(
            "restore-1", soon(), tmp_path / "c", [EpisodeId("r-1")]
        )
        resumed = await fresh.resume("restore-1", soon())
        record = {"patient_id": "P-7"}
        path = "/ng-rollout/r-1-a1/get_patient_record"
        goes_on = await posted(process.url, path, record, dict(reply.cookies))

    assert (200, b"R. Osei" in goes_on.content) == (goes_on.status, True)
    assert (200, True) == (reply.status, prepared.ready)
    assert {"unreachable"} == caught.value.codes
    assert ((EpisodeId("r-1", 1),), False) == (
        restored.episodes,
        resumed.answers[0].reply.idempotent,
    )
