"""Retiring attempts, and their later calls: the server refuses all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.demo.play import play, play_all
from ipistate.demo.report import Retirement
from ipistate.kernel import decode, encode
from ipistate.protocol import prefixed
from ipistate.rollouts import close_request, cookies_of, deadline


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ipistate.demo.plan import DemoRollout
    from ipistate.demo.play import DemoWatcher, Recording, Recordings
    from ipistate.demo.workplace import DemoServer
    from ipistate.protocol import EpisodeId
    from ipistate.rollouts import Channel

_OK: Final = 200
_STALE: Final = "stale_attempt"


async def retire_and_start_over(
    server: DemoServer,
    rollouts: Sequence[DemoRollout],
    before: Recordings,
    watch: DemoWatcher,
) -> tuple[Retirement, Recordings]:
    """Give up the attempts of these rollouts, and play the next ones from their seeds.

    Args:
        server: Where the attempts have been restored.
        rollouts: What is given up.
        before: Where it stands.
        watch: Is told how it gets on.
    """
    retired = await _retire(server, rollouts, before)
    watch.stage("start over")
    again = [one.next_attempt for one in rollouts]
    anew = await play_all(server.channel, again, watch)
    watch.stage("forget")
    await server.coordinator.forget("forget-1", deadline(), retired.rollouts)
    status = (await server.coordinator.status()).answers[0].reply
    return attrs.evolve(retired, marks_left=status.retired_rollouts), anew


async def _retire(
    server: DemoServer,
    rollouts: Sequence[DemoRollout],
    before: Recordings,
) -> Retirement:
    held = [before[one.episode.rollout_id] for one in rollouts]
    # So that some of the retired sessions have gone on, and others were never claimed.
    for rollout, one in [*zip(rollouts, held, strict=True)][::2]:
        await play(server.channel, rollout, one, one.calls + 1)
    attempts, sessions = [one.episode for one in rollouts], await server.sessions()
    await server.coordinator.retire("retire-1", deadline(), attempts)
    codes: list[str | None] = []
    closes: list[str | None] = []
    for rollout, one in zip(rollouts, held, strict=True):
        late = _LateCalls(server.channel, rollout, one)
        codes += await late.refusals()
        closes.append(await late.close())
    return Retirement(
        rollouts=tuple(attempt.rollout_id for attempt in attempts),
        sessions_freed=sessions - await server.sessions(),
        refused=codes.count(_STALE),
        admitted=len(codes) - codes.count(_STALE),
        closed=closes.count(None),
        marks_left=len(attempts),
    )


@attrs.frozen
class _LateCalls:
    channel: Channel
    rollout: DemoRollout
    held: Recording

    async def refusals(self) -> list[str | None]:
        """Call a tool and seed again, as a late agent or a late controller might."""
        call, retired = self.rollout.calls[0], self.rollout.episode
        earlier = attrs.evolve(retired, attempt=retired.attempt - 1)
        arguments, seed = encode(call.arguments), self.rollout.task.to_json()
        return [
            await self._refusal(
                retired, call.name, arguments, cookies_of(self.held.state)
            ),
            await self._refusal(
                None, call.name, arguments, cookies_of(self.held.state)
            ),
            await self._refusal(retired, "seed_session", seed),
            await self._refusal(earlier, "seed_session", seed),
        ]

    async def close(self) -> str | None:
        """Close the session, which is never refused: it asks for nothing."""
        episode = self.rollout.episode
        body = close_request(episode)
        return await self._refusal(
            episode, "close_session", body, cookies_of(self.held.state)
        )

    async def _refusal(
        self,
        episode: EpisodeId | None,
        route: str,
        body: bytes,
        cookies: Mapping[str, str] = {},
    ) -> str | None:
        """Send a request; without an episode its cookies alone say whose it is."""
        path = prefixed(f"/{route}", episode)
        answer = await self.channel.send("POST", path, body, cookies)
        return refusal_code(answer.status, answer.content)


def refusal_code(status: int, content: bytes) -> str | None:
    """Return the code with which a request is refused, its status if there is none."""
    if status == _OK:
        return None
    document: Any = decode(content)
    return str(document.get("error", {}).get("code", f"HTTP {status}"))
