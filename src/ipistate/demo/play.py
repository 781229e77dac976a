"""Playing episodes over HTTP, in one go or up to the point where a crash cuts them."""

from __future__ import annotations

import asyncio

from typing import TYPE_CHECKING, TypeAlias

import attrs
import httpx

from ipistate.demo.connection import UnexpectedReplyError
from ipistate.demo.trace import verify_request
from ipistate.kernel import encode


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ipistate.demo.connection import Connection, DemoClient
    from ipistate.demo.plan import DemoRollout

PlayStep: TypeAlias = "Callable[[DemoRollout], Awaitable[Recording]]"


@attrs.frozen(kw_only=True)
class Recording:
    """What an episode has been answered so far, and the cookie it holds."""

    replies: tuple[bytes, ...] = ()
    verdict: bytes | None = None
    cookies: httpx.Cookies = attrs.field(factory=httpx.Cookies, eq=False, repr=False)
    fault: str | None = None
    """Why the episode could not go on; None if it did."""


async def play(connection: Connection, rollout: DemoRollout) -> Recording:
    """Play a whole episode: seed, every call, verify."""
    client = connection.episode(rollout.episode)
    started = await _go_on(client, rollout, None, len(rollout.calls))
    return await _verified(client, rollout, started)


async def play_to_cut(connection: Connection, rollout: DemoRollout) -> Recording:
    """Play an episode up to its cut; the whole of it if it has none."""
    if rollout.cut is None:
        return await play(connection, rollout)
    client = connection.episode(rollout.episode)
    return await _go_on(client, rollout, None, rollout.cut)


async def play_until(
    connection: Connection, rollout: DemoRollout, before: Recording, end: int
) -> Recording:
    """Go on with the cookie that is held, as the attempt that the rollout names."""
    client = connection.episode(rollout.episode, before.cookies)
    return await _go_on(client, rollout, before, end)


async def play_on(
    connection: Connection, rollout: DemoRollout, before: Recording
) -> Recording:
    """Continue a restored episode with the cookie it held, as its next attempt."""
    client = connection.episode(rollout.episode.next_attempt, before.cookies)
    done = await _go_on(client, rollout, before, len(rollout.calls))
    return await _verified(client, rollout, done)


def continuing(connection: Connection, before: Mapping[str, Recording]) -> PlayStep:
    """Return a step that plays an episode on from what was recorded before."""

    async def step(rollout: DemoRollout) -> Recording:
        return await play_on(connection, rollout, before[rollout.episode.rollout_id])

    return step


async def play_all(
    rollouts: Iterable[DemoRollout],
    step: PlayStep,
    limit: int,
    tick: Callable[[Recording], None],
) -> Mapping[str, Recording]:
    """Play rollouts, at most ``limit`` at a time; ``tick`` hears of each that ends."""
    places = asyncio.Semaphore(limit)
    done: dict[str, Recording] = {}

    async def one(rollout: DemoRollout) -> None:
        async with places:
            recording = await step(rollout)
        done[rollout.episode.rollout_id] = recording
        tick(recording)

    async with asyncio.TaskGroup() as group:
        for rollout in rollouts:
            group.create_task(one(rollout))
    return done


async def _go_on(
    client: DemoClient, rollout: DemoRollout, before: Recording | None, end: int
) -> Recording:
    replies = list(before.replies) if before else []
    fault = before.fault if before else None
    try:
        if before is None:
            await client.post("seed_session", rollout.task.to_json())
        for call in rollout.calls[len(replies) : end]:
            replies.append(await client.post(call.name, encode(call.arguments)))
    except (httpx.HTTPError, UnexpectedReplyError) as error:
        fault = _told(error)
    return Recording(replies=tuple(replies), cookies=client.cookies, fault=fault)


async def _verified(
    client: DemoClient, rollout: DemoRollout, done: Recording
) -> Recording:
    if done.fault is not None:
        return done
    try:
        request = encode(verify_request(rollout, done.replies))
        verdict = await client.post("verify", request)
    except (httpx.HTTPError, UnexpectedReplyError) as error:
        return attrs.evolve(done, fault=_told(error))
    return attrs.evolve(done, verdict=verdict)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
