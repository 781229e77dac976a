"""Prometheus metrics, all in a registry of their own; needs ``prometheus-client``.

The values of labels are names of this package, of its tools and of its codes: nothing
that a caller sends becomes one.
"""

from __future__ import annotations

import time

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.routing import Route

from ipistate.protocol import Phase
from ipistate.server.operating.collector import Pauses
from ipistate.server.operating.observer import CallTool, Observer, WorkStage


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from prometheus_client.metrics_core import Metric
    from starlette.requests import Request

    from ipistate.server.operating.observer import Watched
    from ipistate.server.operating.strictness import Strictness
    from ipistate.tools import Tool, Transition

PATH: Final = "/metrics"

UNKNOWN: Final = "(unknown)"
"""The label of all tools that do not exist."""

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics(Observer):
    """Counts what a server does, and shows it with its state under ``/metrics``."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        registry = self._registry = CollectorRegistry()
        self._calls = Counter(
            "ipistate_tool_calls",
            "Tool calls of sessions, by their outcome.",
            ["tool", "outcome"],
            registry=registry,
        )
        self._refusals = Counter(
            "ipistate_refusals",
            "Refused requests and control calls.",
            ["code"],
            registry=registry,
        )
        self._foreign = Counter(
            "ipistate_foreign_prefixes",
            "Requests whose rollout prefix and cookie are of different rollouts.",
            registry=registry,
        )
        self._swept = Counter(
            "ipistate_sessions_swept",
            "Sessions that were freed because they were unused.",
            registry=registry,
        )
        self._leaked = Gauge(
            "ipistate_leaked_sessions",
            "Live sessions that the scope of the last commit did not name.",
            registry=registry,
        )
        self._seconds = Histogram(
            "ipistate_checkpoint_seconds",
            "Time that a part of a checkpoint's work took.",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._bytes = Counter(
            "ipistate_checkpoint_bytes",
            "Bytes that a part of a checkpoint's work went through.",
            ["stage"],
            registry=registry,
        )
        for stage in WorkStage:
            self._seconds.labels(stage.value)
            self._bytes.labels(stage.value)
        self._strictness = _strictness(tools, registry)
        ProcessCollector(registry=registry)
        self._pauses = Pauses()
        self._published_at: float | None = None

    def routes(self, watched: Watched) -> list[Route]:
        self._registry.register(_State(watched, self._pauses, self._age))

        async def metrics(_: Request) -> Response:
            text = generate_latest(self._registry)
            return Response(text, headers={"content-type": _CONTENT_TYPE})

        return [Route(PATH, metrics, methods=["GET"])]

    def watching(self) -> AbstractContextManager[None]:
        return self._pauses.watched()

    def counting(self, call_tool: CallTool) -> CallTool:
        counters: dict[tuple[str, str], Counter] = {}
        strictness = self._strictness

        def counted(
            world: Any, name: str, arguments: Any, *, tools: Mapping[str, Tool]
        ) -> Transition:
            transition = call_tool(world, name, arguments, tools=tools)
            outcome = "ok" if transition.error is None else "error"
            key = (name, outcome) if name in tools else (UNKNOWN, "unknown")
            counter = counters.get(key)
            if counter is None:
                counter = counters[key] = self._calls.labels(*key)
            counter.inc()
            if strictness is not None and name in tools:
                strictness.count(name, arguments, transition)
            return transition

        return counted

    def refused(self, code: str) -> None:
        self._refusals.labels(code).inc()

    def foreign(self) -> None:
        self._foreign.inc()

    def swept(self, sessions: int) -> None:
        self._swept.inc(sessions)

    def leaked(self, sessions: int) -> None:
        self._leaked.set(sessions)

    def worked(self, stage: WorkStage, seconds: float, size: int) -> None:
        self._seconds.labels(stage.value).observe(seconds)
        self._bytes.labels(stage.value).inc(size)

    def published(self) -> None:
        self._published_at = time.time()

    def _age(self) -> float | None:
        at = self._published_at
        return None if at is None else max(0.0, time.time() - at)


def _strictness(
    tools: Mapping[str, Tool], registry: CollectorRegistry
) -> Strictness | None:
    # Without the library it is not known what strict arguments would refuse.
    if find_spec("jsonschema") is None:
        return None
    from ipistate.server.operating.strictness import Strictness  # noqa: PLC0415 - an extra's module

    return Strictness(tools, registry)


class _State(Collector):
    """What is true at the moment of a scrape; costs nothing between two."""

    def __init__(self, watched: Watched, pauses: Pauses, age: Any) -> None:
        self._watched = watched
        self._pauses = pauses
        self._age = age

    def describe(self) -> list[Metric]:
        # The server is not there yet when this is registered.
        return []

    def collect(self) -> Iterator[Metric]:
        status = cast("dict[str, Any]", self._watched.status())
        counts = status["report"]["counts"]
        numbers = {
            "sessions": (len(self._watched.sessions), "Worlds in memory."),
            "tracked_sessions": (
                counts["sessions"],
                "Sessions that the next checkpoint would hold.",
            ),
            "requests_in_flight": (counts["inflight"], "Requests that run."),
            "requests_waiting": (
                self._watched.waiting,
                "Requests that wait for a checkpoint to end.",
            ),
            "retired_rollouts": (status["retired_rollouts"], "Rollouts with a mark."),
            "retired_sessions": (
                status["retired_sessions"],
                "Sessions that are refused because of one.",
            ),
        }
        for name, (value, text) in numbers.items():
            yield GaugeMetricFamily(f"ipistate_{name}", text, value)
        age = self._age()
        if age is not None:
            text = "Seconds since a checkpoint was published."
            yield GaugeMetricFamily("ipistate_checkpoint_age_seconds", text, age)
        yield _phase(status["phase"])
        yield self._collections()

    def _collections(self) -> Metric:
        text = "Garbage collections; nothing else runs meanwhile."
        family = HistogramMetricFamily(
            "ipistate_gc_pause_seconds", text, labels=["generation"]
        )
        for generation, counts in enumerate(self._pauses.counts):
            total, buckets = 0, list[Any]()
            for bound, count in zip([*Pauses.BOUNDS, "+Inf"], counts, strict=True):
                total += count
                buckets.append([str(bound), total])
            seconds = self._pauses.seconds[generation]
            family.add_metric([str(generation)], buckets, seconds)
        return family


def _phase(current: str) -> Metric:
    text = "1 for the phase that the participant is in."
    family = GaugeMetricFamily("ipistate_phase", text, labels=["phase"])
    for phase in Phase:
        family.add_metric([phase.value], float(phase.value == current))
    return family
