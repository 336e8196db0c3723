"""Measures how long the manager and a workspace server take to their first answer, and idle memory.

`fresh_start.py` and `cold.py` take the times. No process is pinned to a processor.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section
from scripts.benchmarks.startup import cold, fresh_start

WORKSPACES = 20
ROUNDS = 5
REST_S = 1.5
"""Seconds before memory is measured: a server opens its internal channel after one second."""


def run(plan: Plan) -> Section:
    """Measure the start of managers and of workspace servers."""
    plan.say("start: manager")
    fresh = [_fresh(plan, number) for number in range(max(ROUNDS, plan.rounds))]
    started, resident, spent = (statistics.median(column) for column in zip(*fresh, strict=True))
    plan.say("start: workspace servers")
    times, manager_and_fork_server, each = _workspaces(plan)
    p50, p95 = statistics.median(times), at_share(times, 0.95)
    rows = [
        ("manager, from start to first answer", f"{started:.0f} ms, median of {len(fresh)}"),
        ("manager, idle memory (RSS)", f"{resident:.1f} MB"),
        ("manager and fork server, idle (PSS)", f"{manager_and_fork_server:.1f} MB"),
        ("`lmtb status`, processor time", f"{spent:.0f} ms"),
        (
            "handshake that starts a server, and first answer of a tool",
            f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, of {len(times)}",
        ),
        ("memory of a further workspace (PSS)", f"{each:.1f} MB"),
    ]
    figures = {
        "start s": started / 1000, "idle MB": resident, "status ms": spent, "cold ms": p95,
        "workspace MB": each,
    }  # fmt: skip
    data = {"fresh": fresh, "cold ms": times, "fork server MB": manager_and_fork_server}
    return Section("start", table(("what", "measured"), rows), data, figures)


def at_share(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]


def _fresh(plan: Plan, number: int) -> tuple[float, float, float]:
    folder = plan.folder / f"fresh-{number}"
    folder.mkdir()
    return fresh_start.one_round(folder)


def _workspaces(plan: Plan) -> tuple[list[float], float, float]:
    """Milliseconds of each cold start; MB of manager and fork server; MB that each further workspace adds."""
    with cold.manager(plan.folder / "cold", forks=True) as one:
        one.record_memory()
        for number in range(WORKSPACES):
            one.cold_start()
            if number in {0, WORKSPACES - 1}:
                time.sleep(REST_S)
                one.record_memory()
    idle, first, last = one.memory
    return one.times, idle / 1024, (last - first) / 1024 / (WORKSPACES - 1)
