"""Playing scripted rollouts over HTTP, to a verdict or to where a crash cuts them."""

from __future__ import annotations

import asyncio

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import attrs

from ipistate.agents import (
    AgentState,
    NewItems,
    Over,
    PolicyReply,
    calls_in,
    outputs_in,
    words,
)
from ipistate.rollouts import Attempt, Boundary, EpisodeClient, Rollout, ServerError


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ipistate.demo.plan import DemoRollout
    from ipistate.kernel import JsonObject
    from ipistate.rollouts import Channel
    from ipistate.tools import ToolCall

CONCURRENCY: Final = 16
"""Rollouts at a time."""


class DemoWatcher(Protocol):
    """Receives the progress of the demo."""

    def stage(self, name: str) -> None:
        """A new stage of the interrupted run begins."""

    def advance(self) -> None:
        """An episode, or the half of one, is done."""


@attrs.frozen
class CallsPolicy:
    """Makes given calls in their order, one in each turn, and then says that it is done."""

    name: str
    calls: tuple[ToolCall, ...]

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Make the next call."""
        del tools
        made, new = sum(1 for _ in calls_in(conversation)), NewItems(conversation)
        if made < len(self.calls):
            call = self.calls[made]
            item = new.function_call(None, call.name, call.arguments)
        else:
            item = new.message([words("Done.")])
        return PolicyReply(items=(item,), model=f"scripted-{self.name}")


@attrs.frozen(kw_only=True)
class Recording:
    """What a rollout has been answered so far, byte for byte, and where it stands."""

    replies: tuple[bytes, ...] = ()
    verdict: bytes | None = None
    row: JsonObject | None = None
    """The scored row."""
    state: AgentState | None = attrs.field(default=None, repr=False)
    """None before the seed."""
    fault: str | None = None
    """Why the rollout could not go on; None if it did."""

    @property
    def calls(self) -> int:
        """How many calls have an answer."""
        return 0 if self.state is None else _answered(self.state)


Recordings: TypeAlias = "Mapping[str, Recording]"
"""What was recorded, by rollout."""


class RecordingClient(EpisodeClient):
    """The requests of one attempt; the bytes of the answers are kept."""

    def __init__(
        self, channel: Channel, rollout: DemoRollout, before: Recording
    ) -> None:
        super().__init__(channel, rollout.episode, before.state)
        self.replies: list[bytes] = [*before.replies]
        self.verdict: bytes | None = None

    async def post(self, route: str, body: bytes) -> bytes:
        """Send a JSON body, keep the answer and return it."""
        answer = await super().post(route, body)
        if route == "verify":
            self.verdict = answer
        elif route != "seed_session":
            self.replies.append(answer)
        return answer


async def play(
    channel: Channel,
    rollout: DemoRollout,
    before: Recording | None = None,
    end: int | None = None,
) -> Recording:
    """Play a rollout as the attempt that it names.

    Args:
        channel: To the server.
        rollout: Which one.
        before: Where it goes on; it starts from its seed without.
        end: After so many calls it stands still; without, it is scored.
    """
    before = before or Recording()
    if before.fault is not None:
        return before
    rows: list[JsonObject] = []
    client = RecordingClient(channel, rollout, before)
    attempt = Attempt(
        rollout=Rollout(
            place=rollout.place, episode=rollout.episode, state=before.state
        ),
        row=rollout.task.to_json(),
        policy=CallsPolicy(rollout.agent, rollout.calls),
        max_steps=len(rollout.calls) + 1,
        client=client,
        boundary=Boundary(),
        finished=rows.append,
    )
    try:
        await _played(attempt, end)
        fault = None
    except ServerError as error:
        fault = str(error)
    return Recording(
        replies=tuple(client.replies),
        verdict=client.verdict,
        row=rows[0] if rows else None,
        state=attempt.state,
        fault=fault,
    )


async def _played(attempt: Attempt, end: int | None) -> None:
    await attempt.begin()
    while end is None or _answered(attempt.state) < end:
        if isinstance(await attempt.step(), Over):
            break
    if end is None:
        await attempt.verify()


def _answered(state: AgentState) -> int:
    return sum(1 for _ in outputs_in(state.conversation.output))


async def play_all(
    channel: Channel,
    rollouts: Iterable[DemoRollout],
    watch: DemoWatcher,
    *,
    before: Recordings | None = None,
    ends: Mapping[str, int | None] | None = None,
) -> Recordings:
    """Play rollouts, some at a time, and return what was recorded by rollout id.

    Args:
        channel: To the server.
        rollouts: Which ones.
        watch: Is told whenever one stands still or has ended.
        before: Where they go on.
        ends: After how many calls they stand still; all others are scored.
    """
    places, done = asyncio.Semaphore(CONCURRENCY), dict[str, Recording]()

    async def one(rollout: DemoRollout) -> None:
        name = rollout.episode.rollout_id
        held, end = (before or {}).get(name), (ends or {}).get(name)
        async with places:
            done[name] = await play(channel, rollout, held, end)
        watch.advance()

    async with asyncio.TaskGroup() as group:
        for rollout in rollouts:
            group.create_task(one(rollout))
    return done
