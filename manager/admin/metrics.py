"""Formats the counters of `measures.py` in the text format of Prometheus, for `/metrics`.

Imported with the first request for it, because the library is slow to load; the library's own counters, which
lock, are not used. Names and labels are a contract: `docs/operations.md` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from manager.admin.measures import Measured, WorkspaceMeasures
from manager.routing.state.timings import BOUNDS, Histogram

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
EVERY: Final = 2
"""Of the buckets' bounds so many are shown as one: 1, 2 and 5 of each power of ten."""

_BOUNDS: Final = (*map(str, BOUNDS[::EVERY]), "+Inf")
_OF_WORKSPACE: Final = ("workspace",)


def render(measured: Measured) -> bytes:
    """The whole page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(measured))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Told(Collector):
    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterable[Metric]:
        yield from _of_manager(self._measured)
        yield from _of_workspaces(self._measured.workspaces)


def _of_manager(measured: Measured) -> Iterator[Metric]:
    yield InfoMetricFamily("lmtb", "The manager.", {"version": measured.version})
    for name, text, value in (
        ("sessions", "Open sessions of clients.", measured.sessions),
        ("streams", "Standing streams of clients.", measured.streams),
        ("workspaces", "Known workspaces.", len(measured.workspaces) + measured.left_out),
        ("workspaces_left_out", "Known workspaces that have no figures here.", measured.left_out),
    ):
        yield GaugeMetricFamily(f"lmtb_{name}", text, value)
    lag = HistogramMetricFamily("lmtb_loop_lag_seconds", "How late the loop came to a look once a second.")
    lag.add_metric((), *_shown(measured.loop_lag))
    yield lag


def _of_workspaces(workspaces: tuple[WorkspaceMeasures, ...]) -> Iterator[Metric]:
    calls = CounterMetricFamily("lmtb_calls", "Tool calls sent on.", labels=_OF_WORKSPACE)
    errors = CounterMetricFamily(
        "lmtb_errors", "Requests that got no answer of the server's.", labels=("workspace", "reason")
    )
    restarts = CounterMetricFamily("lmtb_restarts", "Unwanted ends of the server.", labels=_OF_WORKSPACE)
    for one in workspaces:
        calls.add_metric((one.id,), one.calls)
        restarts.add_metric((one.id,), one.restarts)
        for reason, times in one.failures.items():
            errors.add_metric((one.id, reason), times)
    yield from (calls, errors, restarts)
    yield from _gauges(workspaces)
    yield from _durations(workspaces)


def _gauges(workspaces: tuple[WorkspaceMeasures, ...]) -> Iterator[Metric]:
    serving = GaugeMetricFamily("lmtb_serving", "Whether the server answers.", labels=_OF_WORKSPACE)
    in_flight = GaugeMetricFamily("lmtb_in_flight", "Requests being answered.", labels=_OF_WORKSPACE)
    listening = GaugeMetricFamily(
        "lmtb_listening", "Streams on which changes are waited for.", labels=_OF_WORKSPACE
    )
    tasks = GaugeMetricFamily("lmtb_tasks", "Calls that go on without their clients.", labels=_OF_WORKSPACE)
    for one in workspaces:
        serving.add_metric((one.id,), int(one.is_serving))
        in_flight.add_metric((one.id,), one.in_flight)
        listening.add_metric((one.id,), one.streams)
        tasks.add_metric((one.id,), one.tasks)
    yield from (serving, in_flight, listening, tasks)


def _durations(workspaces: tuple[WorkspaceMeasures, ...]) -> Iterator[Metric]:
    calls = HistogramMetricFamily(
        "lmtb_call_duration_seconds",
        "Time of tool calls: the workspace server's, and the manager's own.",
        labels=("workspace", "hop"),
    )
    waits = HistogramMetricFamily(
        "lmtb_wait_duration_seconds",
        "What tool calls that could not be sent at once waited for.",
        labels=("workspace", "wait"),
    )
    for one in workspaces:
        for family, part, histogram in (
            (calls, "manager", one.manager),
            (calls, "server", one.server),
            (waits, "start", one.start),
            (waits, "connection", one.connection),
        ):
            if any(histogram.counts):  # most workspaces rest, and each line costs the calls of others
                family.add_metric((one.id, part), *_shown(histogram))
    yield from (calls, waits)


def _shown(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Buckets as the library wants them, each with all before it, and the sum."""
    below = list(accumulate(histogram.counts))
    return list(zip(_BOUNDS, [*below[:-1:EVERY], below[-1]], strict=True)), histogram.total
