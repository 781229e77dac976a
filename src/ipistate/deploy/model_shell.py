"""The shell of a policy model: gates the calls to an endpoint, and keeps the ledger.

See docs/reference/control-plane.md, section 6. What may run when is the part's to say.
"""

from __future__ import annotations

import asyncio
import logging

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from starlette.responses import Response

from ipistate.clients import Bounds, HttpError
from ipistate.deploy.generation_cuts import GenerationCuts
from ipistate.deploy.live_call import Delivered, LiveCall, until_ended, until_told
from ipistate.deploy.model_capture import CallCapture, Capturing
from ipistate.errors import CheckpointError, IpiStateError
from ipistate.kernel import JsonObject
from ipistate.protocol import (
    RESPONSES_PATH,
    Admit,
    CallArrived,
    CallEnded,
    CancelCall,
    CutCalls,
    CutsEnded,
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
    ServerSettings,
    json_reply,
    refused,
)
from ipistate.storage import CaptureLedger, LedgerError


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.datastructures import Secret
    from starlette.requests import Request

    from ipistate.clients import HttpClient
    from ipistate.protocol import Action, Event, PartAction

CALL_PATHS: Final = ("/v1/chat/completions", RESPONSES_PATH, "/v1/messages")
_CAPTURED: Final = CALL_PATHS[:2]
"""The forms whose items are known."""

_log: Final = logging.getLogger("ipistate.deploy.model")

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
    captures_tokens: bool = False
    """The endpoint is a worker that stages tokens, for which a ledger is needed."""
    cut_token: Secret | None = None
    """The worker's bearer token for cuts; without it generations are not cut."""
    cut_seconds: float = 5.0
    """How long a round of cuts may take, also if a prepare has more time."""
    max_reply_bytes: int = 64 * 2**20
    reply_seconds: float = 3600.0

    @property
    def upstream_root(self) -> str:
        """The base without a final slash and ``/v1``, which the paths of calls have."""
        return self.upstream_url.rstrip("/").removesuffix("/v1")


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
        self.ledger: CaptureLedger | None = (
            None if directory is None else CaptureLedger(directory)
        )
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
        self._calls: dict[int, LiveCall] = {}
        self._capture: CallCapture | None = None
        if settings.captures_tokens and self.ledger is not None:
            can_cut = settings.cut_token is not None
            self._capture = CallCapture(self.ledger, clock, can_cut=can_cut)
        self._cuts = GenerationCuts(
            client, settings.upstream_root, settings.cut_token, server.instance_name
        )

    async def call(self, request: Request, path: str) -> Response:
        """Pass a call on to the endpoint, when it may run and be answered."""
        body, live = await request.body(), LiveCall(self.machine.number())
        self._calls[live.number] = live
        try:
            self.machine.feed(CallArrived(live.number, request.scope["episode"]))
            await until_told(live.admission, request)
            match live.admission.answer:
                case Refuse(code=code, detail=detail):
                    reply = refused(code, detail)
                case Admit():
                    reply = await self._delivered(live, request, path, body)
                case None:
                    reply = Response(status_code=499)  # nobody is there to read it
        except BaseException:
            self._over(live.number)
            raise
        return Delivered(reply, lambda: self._over(live.number))

    async def _delivered(
        self, live: LiveCall, request: Request, path: str, body: bytes
    ) -> Response:
        capturing = await self._capturing(request, path, body)
        if capturing is not None:
            self.machine.feed(capturing.event(live.number))
            body = capturing.content
        reply = await self._asked(live, request, path, body)
        if capturing is not None and reply.status_code == HTTPStatus.OK:
            content = await capturing.end(bytes(reply.body))
            reply = Response(content, media_type=reply.media_type)
        if not live.is_cancelled:
            self.machine.feed(ResponseReady(live.number))
            await until_told(live.delivery, request)
        if live.is_cancelled:
            return refused("stale_attempt", "this attempt has been retired")
        # Without a word of the machine its client has left.
        return Response(status_code=499) if live.delivery.answer is None else reply

    async def _capturing(
        self, request: Request, path: str, body: bytes
    ) -> Capturing | None:
        episode = request.scope["episode"]
        if self._capture is None or episode is None or path not in _CAPTURED:
            return None
        try:
            key = episode.capture_key
            cuts = self.machine.participant.part.restored_cuts
            return await self._capture.begin(key, body, cuts.get(key))
        except (LedgerError, OSError) as error:
            _log.error("call of %s not captured: %s", episode.capture_key, error)
            return None

    async def _asked(
        self, live: LiveCall, request: Request, path: str, body: bytes
    ) -> Response:
        if live.is_cancelled:
            return Response(status_code=499)
        headers = {n: request.headers[n] for n in _PASSED if n in request.headers}
        url, bounds = self._settings.upstream_root, self._bounds
        asking = self._client.send(
            "POST", url, path, body, bounds=bounds, headers=headers
        )
        live.asking = asyncio.ensure_future(asking)
        await until_ended(live.asking, request)
        if live.asking.cancelled():
            return Response(status_code=499)
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
                    live.take(action)
            case CancelCall(request):
                self._calls[request].cancel()
            case CutCalls():
                self._cut(action)
            case ImportLedger():
                self._import(action)
            case RetireLedger(removal, keys):
                self._work(lambda one: one.retire(keys), lambda _: Freed(removal))
            case _:
                raise TypeError(f"not a policy model's: {type(action).__name__}")

    def _cut(self, action: CutCalls) -> None:
        left = action.until - self.machine.time()
        seconds = min(self._settings.cut_seconds, left)
        cutting = asyncio.ensure_future(self._cuts.cut(action, seconds))
        cutting.add_done_callback(
            lambda done: self.machine.feed(CutsEnded(action.round, done.result()))
        )

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
