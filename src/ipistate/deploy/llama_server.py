"""llama.cpp's server by the package ``xllamacpp``: an engine for a worker.

It is no application of ours, and no part of what is checkpointed.
"""

from __future__ import annotations

import sys
import threading

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ipistate.deploy.server_process import ServerFailedError
from ipistate.server import LogForm, ready_line


if TYPE_CHECKING:
    from typing import NoReturn

    from ipistate.deploy.plan import LlamaPlan


def serve_llama(plan: LlamaPlan) -> NoReturn:
    """Serve until a signal ends the process.

    Raises:
        ServerFailedError: ``engine_missing``: ``xllamacpp`` is not installed;
            ``server_failed``: it cannot serve these weights.
    """
    try:
        xllamacpp: Any = import_module("xllamacpp")
    except ModuleNotFoundError as error:
        message = "a llama server needs an engine: pip install xllamacpp"
        raise ServerFailedError("engine_missing", message) from error
    try:
        server = xllamacpp.Server(_params(xllamacpp, plan))
    except RuntimeError as error:
        raise ServerFailedError("server_failed", str(error)) from error
    sys.stderr.write(f"{ready_line(LogForm.TEXT, plan.url)}\n")
    sys.stderr.flush()
    threading.Event().wait()
    # It ends when it is freed.
    raise SystemExit(server is None)


def _params(xllamacpp: Any, plan: LlamaPlan) -> object:
    params = xllamacpp.CommonParams()
    params.model.path = plan.weights
    params.n_parallel = plan.slots
    params.n_ctx = plan.slots * plan.slot_tokens
    # One token at a time also in a prompt, so that what goes on after a cut is computed
    # as it would have been without.
    params.n_ubatch = 1
    params.hostnames, params.port = [plan.host], plan.port
    return cast("object", params)
