"""A deployment with a real model in it dies, and its half-made generations go on.

The model is small, and calls tools only where a turn is constrained to. So every second
rollout has constrained turns, and the others talk. What its rewards are says nothing
about models; what is counted are cuts, tokens, and results.
"""

from __future__ import annotations

import asyncio
import time

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.capture import CommittedRow
from ipistate.coordination import CoordinationError
from ipistate.demo.deployed import (
    AGENT,
    MODEL,
    RESOURCES,
    DeployedRollout,
    episodes_of,
    planned_site,
)
from ipistate.kernel import JsonArray, JsonObject
from ipistate.protocol import EpisodeId, ModelRecords
from ipistate.rollouts import deadline
from ipistate.storage import CaptureLedger, CheckpointDirectory


if TYPE_CHECKING:
    from pathlib import Path

    from ipistate.demo.deployed import DeployedResult, DeploymentLife, DeploymentSite
    from ipistate.demo.play import DemoWatcher

ROWS: Final = 5
MAX_STEPS: Final = 5
TEMPERATURE: Final = 1.0
REPLY_TOKENS: Final = 48
_PART: Final = 4
"""One rollout of so many has ended when the checkpoint is taken."""

_OUTSIDE: Final = frozenset({"llama", "worker"})
_CHECKPOINT: Final = "step-1"


@attrs.frozen
class RealRollout(DeployedRollout):
    """One of the first rows, short enough for a small model."""

    is_constrained: bool = False
    """Its turns call a tool; the others talk."""

    def document(self) -> dict[str, Any]:
        """Return the row, with one tool that has to be called, or with none."""
        row = dict(super().document())
        params = dict(row["responses_create_params"])
        params["input"] = JsonArray(params["input"][-1:])
        tools = params.pop("tools")
        params |= {"max_output_tokens": REPLY_TOKENS}
        if self.is_constrained:
            tool: Any = tools[0]
            chosen = JsonObject({"type": "function", "name": tool["name"]})
            params |= {"tools": JsonArray([tool]), "tool_choice": chosen}
        return {**row, "responses_create_params": JsonObject(params)}


@attrs.frozen(kw_only=True)
class RealModelReport:
    """What a deployment with a real model has come to."""

    rollouts: int
    in_flight: int
    """When the checkpoint was prepared."""
    cut: int
    cut_failed: int
    cut_skipped: int
    tokens_saved: int
    """Generated before the crash, and not again."""
    restored: int
    lost: int
    doubled: int
    captured: int
    """Calls with a row in the ledgers of the rollouts' last attempts."""
    not_captured: int
    tokens: int
    """Generated in the calls of these rows."""
    left_over: Mapping[str, int]
    seconds: float

    @property
    def ok(self) -> bool:
        """Nothing is lost, doubled or left over, every call captured, every cut made."""
        wrong = (self.lost, self.doubled, self.not_captured, self.cut_failed)
        return not any(wrong) and not self.left_over and self.restored == self.in_flight

    def to_document(self) -> dict[str, Any]:
        """Write the report as JSON data."""
        return {"report_version": 1, "ok": self.ok, **attrs.asdict(self)}


async def run_real_model(
    root: Path, watch: DemoWatcher, weights: str, rollouts: int
) -> RealModelReport:
    """Play rollouts with a real model, kill all servers once, and go on.

    Args:
        root: Where files go.
        watch: Is told how it gets on.
        weights: A GGUF file.
        rollouts: How many, of the first five rows in turn.

    Raises:
        IpiStateError: A server did not start, or refused a control operation.
    """
    servers: dict[str, dict[str, Any]] = {
        "llama": {"kind": "llama", "weights": weights},
        RESOURCES: {"kind": "resources"},
        MODEL: {
            "kind": "model",
            "upstream": "worker",
            "captures_tokens": True,
            "cuts_generations": True,
        },
        "worker": {"kind": "worker", "engine": "llama"},
        AGENT: {
            "kind": "agent",
            "resources": RESOURCES,
            "model": MODEL,
            "api": "chat",
            "temperature": TEMPERATURE,
            "max_steps": MAX_STEPS,
        },
        "environment": {"kind": "environment", "resources": RESOURCES, "agent": AGENT},
    }
    place = planned_site(root, "native", servers, _OUTSIDE)
    played = tuple(RealRollout(f"r{n}", n % ROWS, n % 2 == 0) for n in range(rollouts))
    watch.stage("start")
    async with place.model():
        return await _RealStory(place, played, watch).tell()


@attrs.define
class _RealStory:
    place: DeploymentSite
    rollouts: tuple[RealRollout, ...]
    watch: DemoWatcher
    results: dict[str, list[DeployedResult]] = attrs.field(
        init=False, factory=lambda: defaultdict[str, "list[DeployedResult]"](list)
    )
    found: dict[str, Any] = attrs.field(init=False, factory=dict[str, Any])

    async def tell(self) -> RealModelReport:
        began = time.perf_counter()
        self.watch.stage("play")
        async with self.place.life() as life:
            attempts = await self._first_life(life)
        self.watch.stage("kill -9 of all, restore, play on")
        async with self.place.life() as life:
            await self._second_life(life, attempts)
            self.found["left_over"] = await life.left_over()
        counts = [len(self.results[one.name]) for one in self.rollouts]
        return RealModelReport(
            rollouts=len(self.rollouts),
            lost=counts.count(0),
            doubled=sum(one > 1 for one in counts),
            seconds=time.perf_counter() - began,
            **self.found,
            **self._captured(attempts),
        )

    async def _first_life(self, life: DeploymentLife) -> dict[str, int]:
        coordinator = life.coordinator
        playing = self._start(life, dict.fromkeys((o.name for o in self.rollouts), 0))
        while sum(map(bool, self.results.values())) < len(self.rollouts) / _PART:
            await asyncio.wait(playing, timeout=0.05)
        prepared = await coordinator.prepare(_CHECKPOINT, deadline())
        if not prepared.ready:
            raise CoordinationError("not_prepared", "not prepared in time")
        attempts = {one.name: 0 for one in self.rollouts if not self.results[one.name]}
        self.found["in_flight"] = len(attempts)
        for what in ("cut", "cut_failed", "cut_skipped"):
            self.found[what] = await life.count(MODEL, what)
        directory, episodes = self.place.root / _CHECKPOINT, episodes_of(attempts)
        await coordinator.commit(_CHECKPOINT, deadline(), directory, episodes)
        await life.processes.kill()
        await asyncio.gather(*playing)
        records = CheckpointDirectory(directory, MODEL, "model").read_records(
            ModelRecords()
        )
        self.found["tokens_saved"] = sum(
            cut.continuation.prefix_token_count
            for record in records.records
            for cut in record.generation_cuts
        )
        return attempts

    async def _second_life(
        self, life: DeploymentLife, attempts: Mapping[str, int]
    ) -> None:
        directory = self.place.root / _CHECKPOINT
        done = await life.coordinator.restore(
            "again", deadline(), directory, episodes_of(attempts)
        )
        self.found["restored"] = len(done.episodes)
        await life.coordinator.resume("again", deadline())
        await asyncio.gather(*self._start(life, dict.fromkeys(attempts, 1)))

    def _start(
        self, life: DeploymentLife, attempts: Mapping[str, int]
    ) -> list[asyncio.Task[None]]:
        async def one(rollout: RealRollout, attempt: int) -> None:
            result = await life.play(rollout, attempt)
            if result is not None:
                self.results[rollout.name].append(result)
                self.watch.advance()

        return [
            asyncio.create_task(one(rollout, attempts[rollout.name]))
            for rollout in self.rollouts
            if rollout.name in attempts
        ]

    def _captured(self, attempts: Mapping[str, int]) -> dict[str, Any]:
        ledger = CaptureLedger(self.place.root / "ledgers" / MODEL)
        keys = [
            EpisodeId(one.name, int(one.name in attempts)).capture_key
            for one in self.rollouts
        ]
        rows = [row for key in keys for row in ledger.rows(key)]
        kept = [row for row in rows if isinstance(row, CommittedRow)]
        return {
            "captured": len(kept),
            "not_captured": len(rows) - len(kept),
            "tokens": sum(row.delta_len or 0 for row in kept),
        }
