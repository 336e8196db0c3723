"""Measures the manager's memory per session, idle connection and open server stream."""

from __future__ import annotations

import time

from scripts.benchmarks.environment import own_manager
from scripts.benchmarks.environment.processes import cores, rss_mb
from scripts.benchmarks.load import population
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

FIRST = 1_200
"""Sessions opened before the measurement, since caches stop growing at 1,024."""
NUMBER = 2_000
REST_S = 2.0
"""Seconds before memory is measured."""


def run(plan: Plan) -> Section:
    """Measure sessions, connections and streams one after the other."""
    number = min(NUMBER, population.allow_files())
    limits = {"connection_limit": population.MANY, "session_limit": population.MANY}
    with own_manager.manager(plan.folder / "memory", cores().measured, fork_servers=False, **limits) as one:
        population.sessions(one.port, FIRST)
        plan.say(f"memory: {number:,} sessions")
        base = settled(one.pid)
        ids = population.sessions(one.port, number)
        with_sessions = settled(one.pid)
        plan.say(f"memory: {number:,} connections")
        with population.connections(one.port, number) as opened:
            with_connections = settled(one.pid)
            plan.say(f"memory: {number:,} streams")
            population.open_streams(one.port, opened, ids)
            with_streams = settled(one.pid)
    each = [
        1024 * (now - before) / number
        for before, now in (
            (base, with_sessions), (with_sessions, with_connections), (with_connections, with_streams),
        )
    ]  # fmt: skip
    found = {"session": each[0], "connection": each[1], "stream": each[1] + each[2]}
    return Section(
        "memory", text(found, number), found, {"session KiB": found["session"], "stream KiB": found["stream"]}
    )


def settled(pid: int) -> float:
    """Wait `REST_S` and return the resident memory in MiB."""
    time.sleep(REST_S)
    return rss_mb([pid])


def text(found: dict[str, float], number: int) -> str:
    """The table."""
    named = {
        "session": "session, idle", "connection": "connection, idle",
        "stream": "open stream of a session, its connection included",
    }  # fmt: skip
    rows = [(named[name], value) for name, value in found.items()]
    note = f"Resident memory, {number:,} of each, after {FIRST:,} sessions."
    return f"{table(('what', 'KiB each'), rows)}\n\n{note}"
