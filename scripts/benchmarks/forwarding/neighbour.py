"""Measures the latency of small calls while four streams of 1 MB pass through the same process.

The streams never pause; a small call is sent every two milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from scripts.benchmarks.forwarding import hop
from scripts.benchmarks.load.wrk import (
    Call,
    Target,
    WrkResult,
    check_answer,
    lua_script,
    measure_during,
    request_heads,
    wrk_load,
)
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.rounds import Measured, as_data, in_turns, ratio
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

LARGE, STREAMS = Call("modern", "1MB.sse"), 4
SMALL, CONNECTIONS, PAUSE_MS = Call("modern", "200B.json"), 16, 32
"""About 500 small calls a second, from each target."""
SECONDS = 3
"""Long enough for a p99 of about 1,500 calls."""
BEFORE_S, AROUND_S = 0.5, 2


def run(plan: Plan) -> Section:
    """Measure nginx and ours in turns."""
    with hop.testbed(plan) as ready:
        targets = {"nginx": ready.nginx["modern"], "ours": ready.ours["modern"]}
        for each in targets.values():
            check_answer(LARGE, each, b"x" * 1_000_000)
        plan.say("neighbour: small calls beside four streams of 1 MB")
        large: dict[str, list[WrkResult]] = {name: [] for name in targets}
        found = in_turns(targets, plan.rounds, lambda name: _beside(plan, targets[name], large[name]))
    rates = {
        name: sum(one.calls for one in each) / sum(one.seconds for one in each)
        for name, each in large.items()
    }
    figures = {"neighbour": ratio(found["ours"].p99, found["nginx"].p99)}
    return Section("neighbour", text(found, rates), as_data(found), figures)


def _beside(plan: Plan, target: Target, large: list[WrkResult]) -> Measured:
    seconds = max(SECONDS, plan.seconds)
    lua = lua_script(request_heads(target, LARGE), LARGE.body)
    with wrk_load(plan.folder, target.urls[0], lua, STREAMS, seconds + AROUND_S) as streams:
        time.sleep(BEFORE_S)
        small = lua_script(request_heads(target, SMALL), SMALL.body, delay_ms=PAUSE_MS)
        found = measure_during(
            lambda: wrk_load(plan.folder, target.urls[0], small, CONNECTIONS, seconds), target
        )
        large.append(streams.wait())
    return found


def text(found: Mapping[str, Measured], rates: Mapping[str, float]) -> str:
    """The table."""
    rows = [(name, one.rate, one.p50, one.p99, rates[name], int(one.refused)) for name, one in found.items()]
    return table(("proxy", "small calls/s", "p50 µs", "p99 µs", "large calls/s", "refused"), rows)
