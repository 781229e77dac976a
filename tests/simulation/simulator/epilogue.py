"""The end of a schedule: nobody comes any more, and everything must come to rest."""

from __future__ import annotations

import math

from typing import TYPE_CHECKING, Any

from ipistate.protocol.operations import (
    Call,
    CommitBody,
    ForgetBody,
    PrepareBody,
    RestoreBody,
    ResumeBody,
    RetireBody,
)
from ipistate.protocol.participant import Phase
from simulator.ledger import require


if TYPE_CHECKING:
    from ipistate.kernel.values import JsonObject
    from simulator.simulation import Simulation


def end(sim: Simulation) -> None:
    """Let everything end, then take a checkpoint and restore it in a fresh process."""
    sim.doomed = None
    sim.settle()
    _require_rest(sim)
    if sim.process is None:
        sim.start()
    _free_retired(sim)
    tracked = dict(sim.alive.participant.part.sessions)
    worlds = {s: sim.alive.worlds[s] for s in tracked if s in sim.alive.worlds}
    _checkpoint(sim)
    sim.crash("at the end")
    sim.start()
    episodes = tuple({tracked[session]: None for session in worlds})
    members = {"checkpoint_dir": "last", "episode_ids": episodes}
    _must(sim, RestoreBody, "last-restore", **members)
    require(sim.alive.worlds == worlds, "the last checkpoint lost something")
    _must(sim, ResumeBody, "last-restore")
    sim.settle()
    _require_rest(sim)


def _require_rest(sim: Simulation) -> None:
    process = sim.process
    if process is None:
        return
    require(not process.calls, "a call waits forever")
    require(not process.waiting, "a request waits forever")
    require(not process.running, "a request stays in flight")
    require(process.phase is Phase.IDLE, "a participant stays closed")
    require(process.participant.control.due == math.inf, "a timer is missing")


def _must(
    sim: Simulation, operation: type[Call], name: str, **members: Any
) -> JsonObject:
    body = operation(checkpoint_id=name, deadline_ts=sim.now + 1000.0, **members)
    replies: list[Any] = []
    sim.operate(body, replies.append)
    sim.settle(lambda: bool(replies))
    require(
        bool(replies) and replies[0].status == 200, f"{body} got no success: {replies}"
    )
    found: JsonObject = replies[0].document
    return found


def _free_retired(sim: Simulation) -> None:
    bindings = sim.alive.participant.part.bindings
    if bindings.leaving:
        episodes = tuple(bindings.sessions[s] for s in sorted(bindings.leaving))
        _must(sim, RetireBody, "last-retire", episode_ids=episodes)
    rollouts = tuple(bindings.retired.marks)
    if rollouts:
        _must(sim, ForgetBody, "last-forget", rollout_ids=rollouts)


def _checkpoint(sim: Simulation) -> None:
    document = _must(sim, PrepareBody, "last")
    require(document["phase"] == "prepared", "a participant at rest is not ready")
    _must(sim, CommitBody, "last", checkpoint_dir="last")
