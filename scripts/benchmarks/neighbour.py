"""Measures the latency of small calls while four streams of 1 MB pass through the same process.

The streams never pause; a small call is sent every two milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from scripts.benchmarks import hop
from scripts.benchmarks.load import Call, Target, Told, answers, heads_of, pressing, script, under
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.rounds import Measured, as_data, in_turns, ratio
from scripts.benchmarks.section import Section
from scripts.benchmarks.table import table

LARGE, STREAMS = Call("modern", "1MB.sse"), 4
SMALL, CONNECTIONS, PAUSE_MS = Call("modern", "200B.json"), 16, 32
"""About 500 small calls a second, whoever answers them."""
SECONDS = 3
"""So that the slowest hundredth is more than a handful."""
BEFORE_S, AROUND_S = 0.5, 2


def run(plan: Plan) -> Section:
    """Measure nginx and ours in turns."""
    with hop.stage(plan) as ready:
        targets = {"nginx": ready.nginx["modern"], "ours": ready.ours["modern"]}
        for each in targets.values():
            answers(LARGE, each, b"x" * 1_000_000)
        plan.say("neighbour: small calls beside four streams of 1 MB")
        large: dict[str, list[Told]] = {name: [] for name in targets}
        found = in_turns(targets, plan.rounds, lambda name: _beside(plan, targets[name], large[name]))
    rates = {
        name: sum(one.calls for one in each) / sum(one.seconds for one in each)
        for name, each in large.items()
    }
    figures = {"neighbour": ratio(found["ours"].p99, found["nginx"].p99)}
    return Section("neighbour", text(found, rates), as_data(found), figures)


def _beside(plan: Plan, target: Target, large: list[Told]) -> Measured:
    seconds = max(SECONDS, plan.seconds)
    lua = script(heads_of(target, LARGE), LARGE.body)
    with pressing(plan.folder, target.urls[0], lua, STREAMS, seconds + AROUND_S) as streams:
        time.sleep(BEFORE_S)
        small = script(heads_of(target, SMALL), SMALL.body, delay_ms=PAUSE_MS)
        found = under(lambda: pressing(plan.folder, target.urls[0], small, CONNECTIONS, seconds), target)
        large.append(streams.wait())
    return found


def text(found: Mapping[str, Measured], rates: Mapping[str, float]) -> str:
    """The table."""
    rows = [(name, one.rate, one.p50, one.p99, rates[name], int(one.refused)) for name, one in found.items()]
    return table(("proxy", "small calls/s", "p50 µs", "p99 µs", "large calls/s", "refused"), rows)
