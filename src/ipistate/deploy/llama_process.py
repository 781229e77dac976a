"""llama.cpp's server in a process of its own, by the package ``xllamacpp``.

``python -m ipistate.deploy.llama_process`` reads one line of JSON from its standard input
and serves until that input ends. It is an engine for a worker, and no part of the
deployment that is checkpointed.
"""

from __future__ import annotations

import sys
import threading

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ipistate.deploy.plan import LlamaPlan
from ipistate.deploy.process import ServerOrder
from ipistate.deploy.server_process import end_with_input
from ipistate.kernel import decode, structure


if TYPE_CHECKING:
    from typing import NoReturn


def serve_llama(plan: LlamaPlan) -> object:
    """Start the server, and return it; it ends when it is freed.

    Raises:
        ModuleNotFoundError: ``xllamacpp`` is not installed.
    """
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = plan.weights
    params.n_parallel = plan.slots
    params.n_ctx = plan.slots * plan.slot_tokens
    # One token at a time also in a prompt, so that what goes on after a cut is computed
    # as it would have been without.
    params.n_ubatch = 1
    params.hostnames, params.port = [plan.host], plan.port
    return cast("object", xllamacpp.Server(params))


def main() -> NoReturn:
    """Serve until the input ends."""
    order = structure(decode(sys.stdin.buffer.readline()), ServerOrder)
    plan = cast("LlamaPlan", order.server())
    server = serve_llama(plan)
    end_with_input()
    sys.stderr.write(f"ipistate: serving on {plan.url}\n")
    sys.stderr.flush()
    threading.Event().wait()
    raise SystemExit(server is None)


if __name__ == "__main__":
    main()
