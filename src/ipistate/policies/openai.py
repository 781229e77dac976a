"""A model behind an OpenAI-compatible endpoint, asked again after a failure that may pass.

Needs the ``run`` extra.
"""

from __future__ import annotations


try:
    import tenacity

    from ipistate.policies.wire import Wire
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        f"the openai policy needs {_error.name}: pip install 'ipistate[run]'",
        name=_error.name,
    ) from _error

import asyncio
import time

from copy import copy
from typing import TYPE_CHECKING, Final, Self

import attrs

from ipistate.kernel import EMPTY_OBJECT
from ipistate.policies import chat, responses
from ipistate.policies.endpoint import Api
from ipistate.policies.parameters import RowParameters
from ipistate.policies.refusals import PassingError


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ipistate.agents import PolicyReply
    from ipistate.clients import Resolver
    from ipistate.kernel import JsonObject
    from ipistate.policies.endpoint import Endpoint, Patience

MALFORMED_TRIES: Final = 2
"""How often a reply is asked for when those that come make no sense."""


@attrs.frozen
class _Form:
    """How an API wants to be asked, and how it replies."""

    path: str
    request: Callable[
        [Endpoint, Sequence[JsonObject], Sequence[JsonObject], JsonObject], JsonObject
    ]
    reply: Callable[[JsonObject, Sequence[JsonObject]], PolicyReply]


_FORMS: Final[Mapping[Api, _Form]] = {
    Api.RESPONSES: _Form(responses.PATH, responses.request, responses.reply),
    Api.CHAT: _Form(chat.PATH, chat.request, chat.reply),
}


class OpenAIPolicy:
    """Asks a model for the next items.

    An asynchronous context manager, because it keeps connections. A failure that may
    pass is waited for and asked again, as often and as long as the endpoint's patience
    says; other turns are not held up by the waiting.

    Args:
        endpoint: The model, and how to ask it.
        resolver: Finds hosts instead of the system, for tests.
        sleep: Waits for so many seconds.
        now: Tells the seconds since 1970.
    """

    name: Final = "openai"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        resolver: Resolver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.endpoint = endpoint
        self.parameters: RowParameters = RowParameters.of(endpoint, EMPTY_OBJECT)
        self.prefix: str = ""
        self._form = _FORMS[endpoint.api]
        self._wire = Wire(endpoint, self._form.path, now, resolver)
        self._turns = asyncio.Semaphore(endpoint.concurrency)
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._wire.aclose()

    def for_row(self, params: JsonObject) -> Self:
        """Return the policy with a row's sampling, where none was chosen, and its rest."""
        sampling = self.endpoint.sampling.or_of(params)
        policy = copy(self)
        policy.parameters = RowParameters.of(self.endpoint, params)
        policy.endpoint = attrs.evolve(self.endpoint, sampling=sampling)
        return policy

    def for_episode(self, prefix: str) -> Self:
        """Return the policy with the prefix of an episode in front of its paths."""
        policy = copy(self)
        policy.prefix = prefix
        return policy

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Ask for the next items until success or a permanent failure.

        Raises:
            EndpointError: The last try's failure.
        """
        more = self.parameters.members
        body = self._form.request(self.endpoint, conversation, tools, more)

        async def ask() -> PolicyReply:
            async with self._turns:
                return await self._wire.ask(
                    body,
                    lambda document: self._form.reply(document, conversation),
                    self.prefix,
                )

        patience = self.endpoint.patience
        trying = tenacity.AsyncRetrying(
            sleep=self._sleep,
            wait=_pauses(patience),
            retry=_may_pass(patience),
            stop=tenacity.stop_after_attempt(patience.tries),
            reraise=True,
        )
        return await trying(ask)


def _may_pass(patience: Patience) -> Callable[[tenacity.RetryCallState], bool]:
    def is_worth_a_try(state: tenacity.RetryCallState) -> bool:
        error = _failure(state)
        if error is None:
            return False
        if error.code == "malformed_reply" and state.attempt_number >= MALFORMED_TRIES:
            return False
        return (error.pause or 0) <= patience.longest_wish

    return is_worth_a_try


def _pauses(patience: Patience) -> Callable[[tenacity.RetryCallState], float]:
    # Random, and on top of what the endpoint asks for, so that not all come at once.
    spread = tenacity.wait_random_exponential(
        multiplier=patience.backoff, max=patience.longest_pause
    )

    def pause(state: tenacity.RetryCallState) -> float:
        error = _failure(state)
        wish = None if error is None else error.pause
        return (wish or 0.0) + spread(state)

    return pause


def _failure(state: tenacity.RetryCallState) -> PassingError | None:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, PassingError) else None
