"""A whole deployment: its checkpoints, its agent's own time, its ledger."""

from __future__ import annotations

import asyncio
import os
import tempfile

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from measure import compare, repeated, waiting
from report import Row, duration, row

from ipistate.agents import AgentState, Ask, Conversation, Over, PolicyReply
from ipistate.capture import CommittedRow, row_line
from ipistate.clients import Coordinator
from ipistate.demo.deployed import (
    RESOURCES,
    DeployedRollout,
    DeploymentLife,
    DeploymentSite,
    episodes_of,
    site,
)
from ipistate.deploy.activations import Activation, Activations
from ipistate.kernel import EMPTY_OBJECT, JsonArray, JsonObject
from ipistate.protocol import EpisodeId, LoopProceeds, ModelPart
from ipistate.protocol.parts.live_calls import CallTicket
from ipistate.rollouts import deadline
from ipistate.storage import CaptureLedger


_FLIGHT = 59
_EPISODES = 1_000
_PREPARE_SECONDS = 0.036
"""What another implementation has published for 59 episodes."""


def rows() -> Iterator[Row]:
    """Measure prepares and commits of four processes, and what each part adds."""
    yield _readiness()
    yield _turn()
    with tempfile.TemporaryDirectory() as name:
        yield _append(Path(name))
        yield asyncio.run(_prepare(Path(name) / "prepare"))
        yield asyncio.run(_commit(Path(name) / "commit"))


def _held(count: int) -> ModelPart:
    episodes = (EpisodeId(f"r{n}") for n in range(count))
    held = {n: CallTicket(episode=one, is_held=True) for n, one in enumerate(episodes)}
    return ModelPart(is_open=False, tickets=held)


def _readiness() -> Row:
    many, few = _held(10_000), _held(10)
    found = compare(
        repeated(lambda: many.is_ready, 20_000), repeated(lambda: few.is_ready, 20_000)
    )
    return row("readiness of a model, 10,000 held calls", "10 held calls", found, 1.2)


_TURNS = 40


class _Talker:
    """A policy that says one word, and goes on."""

    name = "talker"

    async def respond(self, conversation: Any, tools: Any) -> PolicyReply:
        """Call a tool that does not exist, so that the loop goes on by itself."""
        del tools
        call = {"type": "function_call", "name": "no tool", "arguments": "{}"}
        item = JsonObject({**call, "call_id": f"c{len(conversation)}"})
        return PolicyReply(items=(item,))


def _turn() -> Row:
    """Compare the agent's loop, in which every turn can be checkpointed, with a bare one."""
    policy: Any = _Talker()

    async def bare() -> None:
        said = Conversation()
        while not isinstance(step := said.next_step(_TURNS), Over):
            if isinstance(step, Ask):
                said = said.replied(await policy.respond(said.output, ()))
            else:
                refused: Any = step
                said = said.answered(refused.call_id, refused.output)

    async def ours() -> None:
        running: list[Activations] = []

        def feed(event: Any) -> None:
            if type(event).__name__ in {"LoopReached", "ModelAsked", "ModelReplied"}:
                running[0].perform(LoopProceeds(event.key))

        client: Any = None
        running.append(Activations(feed, policy, client, _TURNS))
        activation = Activation(
            key="s",
            name="r",
            params=JsonObject({"input": JsonArray()}),
            state=AgentState(cookies=EMPTY_OBJECT),
            grants={},
        )
        await running[0].start(activation, lambda _: None)

    took = compare(
        repeated(lambda: asyncio.run(ours()), 3),
        repeated(lambda: asyncio.run(bare()), 3),
    )
    each = (took.ours - took.floor) / _TURNS
    return Row(
        work="a turn of an agent, over the bare loop",
        figure=duration(each),
        floor="limit: 1 ms",
        ratio=each / 1e-3,
        budget=1.0,
        note="the ratio is milliseconds; each turn has three boundaries",
    )


def _append(folder: Path) -> Row:
    ledger = CaptureLedger(folder / "ledger")
    numbers = iter(range(10**9))
    plain = (folder / "plain").open("ab", buffering=0)

    def made() -> CommittedRow:
        return CommittedRow(
            model_call_id=f"call-{next(numbers)}",
            fingerprint="f" * 64,
            context_len=2,
            context_digest="d" * 64,
            digest="h" * 64,
            staging_key="k" * 40,
            staging_chain=("k" * 40,) * 4,
        )

    ledger.append("r", made())
    line = row_line(made())

    def bare() -> None:
        plain.write(line)
        os.fsync(plain.fileno())

    found = compare(waiting(lambda: ledger.append("r", made())), waiting(bare))
    return row("append to the ledger", "write and fsync of the line", found, 1.2)


async def _prepare(root: Path) -> Row:
    place = site(root, "native", 60.0)
    async with place.model(), place.life() as life:
        playing = _begin(life, _FLIGHT)
        await _all_ask(place, _FLIGHT)
        began = perf_counter()
        prepared = await life.coordinator.prepare("c", deadline())
        seconds = perf_counter() - began
        assert prepared.ready
        await life.processes.kill()
        await asyncio.gather(*playing)
    return Row(
        work=f"prepare of four servers, {_FLIGHT} episodes in flight",
        figure=duration(seconds),
        floor=f"published: {duration(_PREPARE_SECONDS)}",
        ratio=seconds / _PREPARE_SECONDS,
        budget=1.0,
        note="four processes, one after another",
    )


async def _commit(root: Path) -> Row:
    place = site(root, "native", 600.0)
    attempts = {f"r{n}": 0 for n in range(_EPISODES)}
    seconds: dict[str, list[float]] = {"all": [], "one": []}
    async with place.model(), place.life() as life:
        playing = _begin(life, _EPISODES)
        await _all_ask(place, _EPISODES)
        client = vars(life.coordinator)["_client"]
        alone = Coordinator(
            [one for one in life.coordinator.participants if one.name == RESOURCES],
            client,
        )
        for turn in range(5):
            for who, coordinator in (("all", life.coordinator), ("one", alone)):
                name = f"{who}-{turn}"
                prepared = await coordinator.prepare(name, deadline())
                assert prepared.ready
                began = perf_counter()
                await coordinator.commit(
                    name, deadline(), root / name, episodes_of(attempts)
                )
                seconds[who].append(perf_counter() - began)
                await coordinator.resume(name, deadline())
        await life.processes.kill()
        await asyncio.gather(*playing)
    ours, floor = sorted(seconds["all"])[2], sorted(seconds["one"])[2]
    return Row(
        work=f"commit of four servers, {_EPISODES:,} episodes",
        figure=duration(ours),
        floor=f"the resources server alone: {duration(floor)}",
        ratio=ours / floor,
        budget=1.3,
        note=f"medians of five; {os.cpu_count()} cores for five processes",
    )


async def _all_ask(place: DeploymentSite, count: int) -> None:
    asked = 0
    while asked < count:  # another process counts
        asked = await place.calls()
        await asyncio.sleep(0.05)


def _begin(life: DeploymentLife, count: int) -> list[asyncio.Task[Any]]:
    return [
        asyncio.create_task(life.play(DeployedRollout(f"r{n}", n), 0))
        for n in range(count)
    ]
