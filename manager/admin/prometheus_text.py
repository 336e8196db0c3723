"""Formats the counters of `measures.py` in the text format of Prometheus, for `/metrics`.

Imported by `manager/installation.py`, because `prometheus_client` is slow to load. Its own counters,
which lock, are not used. Names and labels are a contract: `docs/operations.md` lists them.
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

from manager.admin.measures import Counter, MeasuresSnapshot, WorkspaceMeasures
from manager.supervision.instance import BOUNDS, Histogram

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
BOUNDS_PER_BUCKET: Final = 2
"""Bounds of a histogram that form one exported bucket, which leaves 1, 2 and 5 of each power of ten."""

_BOUNDS: Final = (*map(str, BOUNDS[::BOUNDS_PER_BUCKET]), "+Inf")
_WORKSPACE_LABEL: Final = ("workspace",)


def render(snapshot: MeasuresSnapshot) -> bytes:
    """The complete page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_SnapshotCollector(snapshot))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: MeasuresSnapshot) -> None:
        self._measured = snapshot

    def collect(self) -> Iterable[Metric]:
        yield from _manager_metrics(self._measured)
        yield from _workspace_metrics(self._measured.workspaces)
        yield from _feature_metrics(self._measured.counters)


def _manager_metrics(snapshot: MeasuresSnapshot) -> Iterator[Metric]:
    yield InfoMetricFamily("lmtb", "The manager.", {"version": snapshot.version})
    for name, text, value in (
        ("sessions", "Open sessions of clients.", snapshot.sessions),
        ("streams", "Open server streams of clients.", snapshot.streams),
        ("buffered_bytes", "Bytes of large requests and responses.", snapshot.buffered),
        ("buffered_peak_bytes", "The most there were.", snapshot.buffered_peak),
        ("workspaces", "Known workspaces.", len(snapshot.workspaces) + snapshot.left_out),
        ("workspaces_left_out", "Known workspaces without metrics of their own.", snapshot.left_out),
    ):
        yield GaugeMetricFamily(f"lmtb_{name}", text, value)
    lag = HistogramMetricFamily("lmtb_loop_lag_seconds", "Lag of the event loop, measured once a second.")
    lag.add_metric((), *_buckets(snapshot.loop_lag))
    yield lag


def _workspace_metrics(workspaces: tuple[WorkspaceMeasures, ...]) -> Iterator[Metric]:
    calls = CounterMetricFamily("lmtb_calls", "Tool calls forwarded.", labels=_WORKSPACE_LABEL)
    errors = CounterMetricFamily(
        "lmtb_errors", "Requests without an answer of the server.", labels=("workspace", "reason")
    )
    restarts = CounterMetricFamily(
        "lmtb_restarts", "Unexpected exits of the server.", labels=_WORKSPACE_LABEL
    )
    for workspace in workspaces:
        calls.add_metric((workspace.id,), workspace.calls)
        restarts.add_metric((workspace.id,), workspace.restarts)
        for reason, times in workspace.failures.items():
            errors.add_metric((workspace.id, reason), times)
    yield from (calls, errors, restarts)
    yield from _gauges(workspaces)
    yield from _durations(workspaces)


def _feature_metrics(counters: Iterable[Counter]) -> Iterator[Metric]:
    for counter in counters:
        family = CounterMetricFamily(f"lmtb_{counter.name}", counter.text, labels=counter.labels)
        for values, count in counter.counts:
            family.add_metric(values, count)
        yield family


def _gauges(workspaces: tuple[WorkspaceMeasures, ...]) -> Iterator[Metric]:
    serving = GaugeMetricFamily(
        "lmtb_serving", "1 while the server answers health checks.", labels=_WORKSPACE_LABEL
    )
    in_flight = GaugeMetricFamily("lmtb_in_flight", "Requests in flight.", labels=_WORKSPACE_LABEL)
    listening = GaugeMetricFamily("lmtb_listening", "Open listen streams.", labels=_WORKSPACE_LABEL)
    tasks = GaugeMetricFamily("lmtb_tasks", "Running tasks.", labels=_WORKSPACE_LABEL)
    for workspace in workspaces:
        serving.add_metric((workspace.id,), int(workspace.is_serving))
        in_flight.add_metric((workspace.id,), workspace.in_flight)
        listening.add_metric((workspace.id,), workspace.streams)
        tasks.add_metric((workspace.id,), workspace.tasks)
    yield from (serving, in_flight, listening, tasks)


def _durations(workspaces: tuple[WorkspaceMeasures, ...]) -> Iterator[Metric]:
    calls = HistogramMetricFamily(
        "lmtb_call_duration_seconds",
        "Duration of tool calls: the workspace server's and the manager's own part.",
        labels=("workspace", "hop"),
    )
    waits = HistogramMetricFamily(
        "lmtb_wait_duration_seconds",
        "Time that tool calls waited for a server start or a connection.",
        labels=("workspace", "wait"),
    )
    for workspace in workspaces:
        for family, part, histogram in (
            (calls, "manager", workspace.manager),
            (calls, "server", workspace.server),
            (waits, "start", workspace.start),
            (waits, "connection", workspace.connection),
        ):
            if any(histogram.counts):  # most workspaces are idle, and each line costs time
                family.add_metric((workspace.id, part), *_buckets(histogram))
    yield from (calls, waits)


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets as `prometheus_client` expects them, and the sum."""
    below = list(accumulate(histogram.counts))
    return list(zip(_BOUNDS, [*below[:-1:BOUNDS_PER_BUCKET], below[-1]], strict=True)), histogram.total
