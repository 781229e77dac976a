"""Rounds of cuts: a worker is asked to stage what calls have by now.

A cut is an extra: whatever goes wrong with it, the call is made again from its beginning.
See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import logging

from typing import TYPE_CHECKING, Final

from ipistate.capture import CutContinuation, CutInventory, CutReceipt, checked_receipt
from ipistate.clients import JSON, Bounds, HttpError
from ipistate.deploy.worker_server import CUT_PATH
from ipistate.errors import IpiStateError
from ipistate.kernel import decode, encode, structure, unstructure


if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import Secret

    from ipistate.clients import HttpClient
    from ipistate.protocol import CutCalls

_MAX_RECEIPT: Final = 64 * 2**20

_log: Final = logging.getLogger("ipistate.deploy.cuts")


class GenerationCuts:
    """Asks a worker for cuts.

    Args:
        client: Connections to it.
        root: Its base, without ``/v1``.
        token: Its bearer token; without it nothing is cut.
        name: Of the policy model in the deployment.
    """

    def __init__(
        self, client: HttpClient, root: str, token: Secret | None, name: str
    ) -> None:
        self._client = client
        self._root = root
        self._token = token
        self._name = name

    async def cut(
        self, action: CutCalls, seconds: float
    ) -> Mapping[int, CutContinuation]:
        """Return how calls go on that were cut, by their request; it raises nothing."""
        inventory = CutInventory.of(
            f"round-{action.round}", self._name, action.calls.values()
        )
        try:
            receipt = await self._asked(inventory, seconds)
            acknowledged = checked_receipt(inventory, receipt)
        except IpiStateError as error:
            _log.warning("no generation was cut: %s", error)
            return {}
        found = {one.ticket_id: one.continuation for one in acknowledged}
        cuts = {n: found[call.ticket_id] for n, call in action.calls.items()}
        return {n: cut for n, cut in cuts.items() if cut is not None}

    async def _asked(self, inventory: CutInventory, seconds: float) -> CutReceipt:
        answer = await self._client.send(
            "POST",
            self._root,
            CUT_PATH,
            encode(unstructure(inventory)),
            bounds=Bounds(size=_MAX_RECEIPT, total=max(0.0, seconds)),
            headers={**JSON, "Authorization": f"Bearer {self._token}"},
        )
        if answer.status != 200:
            raise HttpError("broken", f"the worker answers {answer.status}")
        return structure(decode(answer.content), CutReceipt)
