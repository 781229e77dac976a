"""``ipistate run`` with a slow policy that writes down every turn it is asked for.

Usage: ``python player.py CALLS SECONDS run …``. A line of CALLS is
``<process> <policy> <first message> <turn> <conversation>``.
"""

from __future__ import annotations

import asyncio
import os
import sys

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Any

from ipistate import cli
from ipistate.agents.policy import Policy, PolicyReply
from ipistate.cli import policies
from ipistate.kernel import JsonObject
from ipistate.kernel.codec import encode
from ipistate.policies import policy_of


class Logged:
    """A policy that takes its time, and notes each turn before it is paid for."""

    def __init__(self, policy: Policy, calls: int, seconds: float) -> None:
        self._policy = policy
        self._calls = calls
        self._seconds = seconds

    @property
    def name(self) -> str:
        """The name of the policy within."""
        return self._policy.name

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Note the turn, wait, and reply."""
        said = [one for one in conversation if one.get("role") in {"system", "user"}]
        turns = sum(one.get("type") == "function_call" for one in conversation)
        first = sha256(b"".join(map(encode, said))).hexdigest()[:12]
        all_of_it = sha256(b"".join(map(encode, conversation))).hexdigest()[:12]
        seed = getattr(self._policy, "seed", 0)
        line = f"{os.getpid()} {seed} {first} {turns} {all_of_it}\n"
        os.write(self._calls, line.encode())
        await asyncio.sleep(self._seconds)
        return await self._policy.respond(conversation, tools)


class Opened:
    """Opens a policy and wraps it."""

    def __init__(
        self, inner: AbstractAsyncContextManager[Policy], calls: int, seconds: float
    ) -> None:
        self._inner = inner
        self._rest = calls, seconds

    async def __aenter__(self) -> Logged:
        """Open it."""
        return Logged(await self._inner.__aenter__(), *self._rest)

    async def __aexit__(self, *error: Any) -> None:  # noqa: PYI036 - handed on
        """Close it."""
        await self._inner.__aexit__(*error)


def main() -> None:
    """Run the command line with every policy wrapped."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    calls, seconds = os.open(sys.argv[1], flags, 0o666), float(sys.argv[2])
    opening: Any = lambda *given: Opened(policy_of(*given), calls, seconds)  # noqa: E731
    setattr(policies, "opened_policy", opening)  # noqa: B010 - what the verb calls
    sys.argv[1:] = sys.argv[3:]
    cli.main()


if __name__ == "__main__":
    main()
