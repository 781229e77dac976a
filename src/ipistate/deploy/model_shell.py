"""The shell of a policy model: gates the calls to an endpoint, and keeps the ledger.

See docs/reference/control-plane.md, section 6. What may run when is the part's to say.
"""

from __future__ import annotations

import asyncio

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from starlette.responses import Response

from ipistate.clients import Bounds, HttpError
from ipistate.errors import CheckpointError, IpiStateError
from ipistate.kernel import JsonObject
from ipistate.protocol import (
    Admit,
    CallArrived,
    CallEnded,
    CancelCall,
    Export,
    Exported,
    Free,
    Freed,
    ImportLedger,
    Installed,
    ModelPart,
    ModelRecords,
    ParticipantState,
    Refuse,
    ResponseReady,
    RetireLedger,
    Settings,
    StartResponse,
)
from ipistate.server import (
    CheckpointFiles,
    LeaseClock,
    Observer,
    ParticipantShell,
    Pending,
    ServerSettings,
    json_reply,
    refused,
)
from ipistate.storage import CaptureLedger, LedgerError


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ipistate.clients import HttpAnswer, HttpClient
    from ipistate.protocol import Action, Event, PartAction

_PASSED: Final = ("authorization", "content-type", "accept")
"""Headers of a call that its endpoint is to see."""


@attrs.frozen(kw_only=True)
class ModelSettings:
    """What the operator of a policy model decides."""

    server: ServerSettings
    """Name, token, lease and limits."""
    upstream_url: str
    """The endpoint's base, without the path of a call."""
    ledger_dir: Path | None = None
    """Where captured calls have their rows; None for no ledger."""
    max_reply_bytes: int = 64 * 2**20
    reply_seconds: float = 3600.0


@attrs.define(eq=False)
class _LiveCall:
    answer: Pending[Admit | Refuse | StartResponse]
    asking: asyncio.Task[HttpAnswer] | None = None
    is_cancelled: bool = False


class ModelShell:
    """Lets calls in, asks the endpoint, and holds replies while a checkpoint is open.

    Args:
        settings: What the operator has decided.
        client: Connections to the endpoint.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set.
    """

    def __init__(
        self,
        settings: ModelSettings,
        client: HttpClient,
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._client = client
        self._bounds = Bounds(
            size=settings.max_reply_bytes, total=settings.reply_seconds, connect=10.0
        )
        server, observer = settings.server, Observer()
        directory = settings.ledger_dir
        self.ledger: CaptureLedger | None = directory and CaptureLedger(directory)
        files = CheckpointFiles(
            server.instance_name, ModelRecords(), server.checkpoint_root, observer
        )
        start = ParticipantState(
            Settings(
                instance=server.instance_name,
                lease_grace_seconds=server.lease_grace_seconds,
            ),
            ModelPart(),
        )
        self.machine: ParticipantShell[ModelPart] = ParticipantShell(
            start, self, files, observer.refused, LeaseClock(clock, steady)
        )
        self._calls: dict[int, _LiveCall] = {}

    async def call(self, request: Request, path: str) -> Response:
        """Pass a call on to the endpoint, when it may run and be answered."""
        body, number = await request.body(), self.machine.number()
        live = _LiveCall(Pending(number))
        self._calls[number] = live
        self.machine.feed(CallArrived(number, request.scope["episode"]))
        try:
            await self._answered(live, request)
            problem = live.answer.answer
            if isinstance(problem, Refuse):
                return refused(problem.code, problem.detail)
            if problem is None:
                return Response(status_code=499)  # nobody is there to read it
            reply = await self._asked(live, request, path, body)
            live.answer.answer = None
            self.machine.feed(ResponseReady(number))
            await self._answered(live, request)
        except BaseException:
            self._over(number)
            raise
        if live.is_cancelled or not isinstance(live.answer.answer, StartResponse):
            self._over(number)
            return refused("stale_attempt", "this attempt has been retired")
        return _Delivered(reply, lambda: self._over(number))

    async def _answered(self, live: _LiveCall, request: Request) -> None:
        if live.answer.answer is None and not live.is_cancelled:
            await live.answer.settled(request.receive)

    async def _asked(
        self, live: _LiveCall, request: Request, path: str, body: bytes
    ) -> Response:
        headers = {n: request.headers[n] for n in _PASSED if n in request.headers}
        live.asking = asyncio.ensure_future(
            self._client.send(
                "POST",
                self._settings.upstream_url,
                path,
                body,
                bounds=self._bounds,
                headers=headers,
            )
        )
        if live.is_cancelled:
            live.asking.cancel()
        await asyncio.wait((live.asking,))
        if live.asking.cancelled():
            return refused("stale_attempt", "this attempt has been retired")
        error = live.asking.exception()
        if isinstance(error, HttpError):
            document = JsonObject({"detail": f"the endpoint: {error.message}"})
            return json_reply(document, 504 if error.code == "timed_out" else 502)
        answer = live.asking.result()
        kind = answer.headers.get("content-type", "application/json")
        return Response(answer.content, answer.status, media_type=kind)

    def _over(self, number: int) -> None:
        if self._calls.pop(number, None) is not None:
            self.machine.feed(CallEnded(number))

    # What the machine has its shell do

    def perform(self, action: PartAction) -> None:
        """Answer a call, cancel it, or work on the ledger."""
        match action:
            case Admit(request) | StartResponse(request) | Refuse(request=request):
                live = self._calls.get(request)
                if live is not None:
                    live.answer.settle(action)
            case CancelCall(request):
                self._cancel(self._calls[request])
            case ImportLedger():
                self._import(action)
            case RetireLedger(removal, keys):
                self._work(lambda one: one.retire(keys), lambda _: Freed(removal))
            case _:
                raise TypeError(f"not a policy model's: {type(action).__name__}")

    def _cancel(self, live: _LiveCall) -> None:
        live.is_cancelled = True
        if live.asking is not None:
            live.asking.cancel()
        live.answer.wake()

    def _import(self, action: ImportLedger) -> None:
        def work(ledger: CaptureLedger) -> None:
            ledger.replace(action.ledgers)
            if action.retired:
                ledger.retire(action.retired)

        self._work(work, lambda error: Installed(action.read, _problem(error)))

    def _work(
        self,
        work: Callable[[CaptureLedger], object],
        over: Callable[[BaseException | None], Event],
    ) -> None:
        # In a thread, because it waits for the disk. The machine must hear of any end.
        loop, ledger = asyncio.get_running_loop(), self.ledger
        if ledger is None:
            loop.call_soon(self.machine.feed, over(None))
            return
        running = loop.run_in_executor(None, work, ledger)
        running.add_done_callback(
            lambda done: self.machine.feed(over(done.exception()))
        )

    def changed(
        self,
        before: ParticipantState[ModelPart],
        after: ParticipantState[ModelPart],
        now: float,
        todo: tuple[Action, ...],
    ) -> None:
        """Take no notice."""

    def export(self, action: Export) -> Exported:
        """Look up the ledgers of a scope; one that was retired has no rows."""
        ledger = self.ledger
        if ledger is None:
            return Exported(action.write, {})
        return Exported(action.write, _rows(ledger, action.keys))

    def free(self, action: Free) -> Freed | None:
        """Delete ledgers, without a fence."""
        keys, removal = action.keys, action.removal
        self._work(lambda one: one.delete(keys), lambda _: Freed(removal))
        return None


def _rows(ledger: CaptureLedger, keys: tuple[str, ...]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for key in keys:
        try:
            found[key] = ledger.rows(key)
        except LedgerError as error:
            if error.code != "is_retired":
                raise
    return found


def _problem(error: BaseException | None) -> CheckpointError | None:
    if error is None:
        return None
    code = error.code if isinstance(error, IpiStateError) else type(error).__name__
    message = f"the ledger could not be replaced: {error} [{code}]"
    return CheckpointError("invalid_checkpoint_state", message)


class _Delivered(Response):
    """A response whose end is told, however it comes."""

    def __init__(self, reply: Response, over: Callable[[], None]) -> None:
        super().__init__(bytes(reply.body), reply.status_code, dict(reply.headers))
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()
