"""Measures processor time per call and memory as the number of sessions and workspaces grows.

One manager grows step by step. At each step it is measured in turns with nginx, and its processor time is
compared relative to nginx's, because the load of the machine changes between steps. Kept: each connection
keeps its session and workspace, as clients do. In turns: each call uses another session or workspace than the
one before. The manager's own processor time for heartbeats is subtracted. It is higher under load than at
rest, so all workspaces exist from the first step on, and only the number of called ones grows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from scripts.benchmarks import chain, chart, nginx, population
from scripts.benchmarks.load import Call, Target, answers, measure
from scripts.benchmarks.plan import RESULTS, ROOT, Plan
from scripts.benchmarks.processes import cores, cpu_ns, family, rss_mb
from scripts.benchmarks.rounds import Measured, in_turns, ratio
from scripts.benchmarks.section import Section
from scripts.benchmarks.table import table

SESSIONS = (10, 100, 1_000, 10_000)
WORKSPACES = (1, 10, 100)
CONNECTIONS = 16
IDLE_S = 2.0
CALL = Call("legacy", "200B.json")


@dataclass(frozen=True)
class Step:
    """What was found at one size."""

    number: int
    nginx: Measured
    kept: Measured
    in_turns: Measured
    memory: float

    def beside(self, first: Step, kind: str) -> float:
        """Processor time of a call beside that at the first step, both in relation to nginx's."""
        now, then = (
            ratio(getattr(self, kind).cpu, self.nginx.cpu),
            ratio(getattr(first, kind).cpu, first.nginx.cpu),
        )
        return ratio(now, then)


def run(plan: Plan) -> Section:
    """Measure both series, and draw them."""
    with contextlib.ExitStack() as stack:
        behind, backend = stack.enter_context(nginx.server(plan.folder, cores().backend))
        pid, port = stack.enter_context(nginx.proxy(plan.folder, backend, cores().measured))
        yardstick = Target("nginx", pid, [f"http://127.0.0.1:{port}/mcp"])
        series = {
            "sessions": list(_sessions(plan, yardstick, behind, backend)),
            "workspaces": list(_workspaces(plan, yardstick, behind, backend)),
        }
    data = {name: [asdict(one) for one in steps] for name, steps in series.items()}
    figures = {
        f"growth {name} {kind}": steps[-1].beside(steps[0], kind)
        for name, steps in series.items() for kind in ("kept", "in_turns")
    }  # fmt: skip
    drawn = picture(series)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "growth.svg").write_text(drawn)
    if plan.write_docs:
        (ROOT / "docs" / "growth.svg").write_text(drawn)
    return Section("growth", text(series), data, figures)


def _sessions(plan: Plan, yardstick: Target, behind: int, backend: int) -> Iterator[Step]:
    """One workspace, ever more sessions."""
    project = chain.project(plan.folder / "growing")
    limits = {"session_limit": population.MANY}
    with (
        chain.manager(
            plan.folder / "growing-sessions", cores().measured, fork_servers=False, **limits
        ) as one,
        chain.registered(one, [project], backend, behind),
    ):
        url = one.address(f"/w/{one.workspace(project)}/mcp")
        ids: list[str] = []
        for number in SESSIONS:
            ids += population.sessions(one.port, number - len(ids))
            plan.say(f"growth: {number:,} sessions")
            yield _step(plan, yardstick, Target("ours", one.pid, [url], ids), number)


def _workspaces(plan: Plan, yardstick: Target, behind: int, backend: int) -> Iterator[Step]:
    """A hundred sessions, ever more workspaces."""
    projects = [chain.project(plan.folder / "workspaces" / f"p{number}") for number in range(max(WORKSPACES))]
    with chain.manager(plan.folder / "growing-workspaces", cores().measured, fork_servers=False) as one:
        ids = population.sessions(one.port, max(WORKSPACES))
        memory = []
        for number in WORKSPACES:
            with chain.registered(one, projects[:number], backend, behind):
                memory.append(rss_mb([one.pid]))
        with chain.registered(one, projects, backend, behind):
            urls = [one.address(f"/w/{one.workspace(each)}/mcp") for each in projects]
            for number, held in zip(WORKSPACES, memory, strict=True):
                plan.say(f"growth: {number} workspaces")
                ours = Target("ours", one.pid, urls[:number], ids)
                yield replace(_step(plan, yardstick, ours, number), memory=held)


def _step(plan: Plan, yardstick: Target, ours: Target, number: int) -> Step:
    answers(CALL, ours, b"x" * 200)
    plain = replace(yardstick, sessions=ours.sessions)
    targets = {"nginx": plain, "kept": replace(ours, kept=True), "in_turns": ours}
    time.sleep(IDLE_S)  # sessions are written down behind the answer
    own = family(ours.pid)
    before = cpu_ns(own)
    time.sleep(IDLE_S)
    idle = (cpu_ns(own) - before) / 1000 / IDLE_S
    found = in_turns(targets, plan.rounds, lambda name: measure(CALL, CONNECTIONS, targets[name], plan))
    kept, turns = (
        replace(one, cpu=one.cpu - idle / max(1.0, one.rate)) for one in (found["kept"], found["in_turns"])
    )
    return Step(number, found["nginx"], kept, turns, rss_mb([ours.pid]))


def text(series: dict[str, list[Step]]) -> str:
    """The table."""
    rows = [
        (f"{one.number:,} {name}", one.nginx.cpu, one.kept.cpu, f"{one.beside(steps[0], 'kept'):.2f}",
         one.in_turns.cpu, f"{one.beside(steps[0], 'in_turns'):.2f}", one.kept.rate, one.memory)
        for name, steps in series.items() for one in steps
    ]  # fmt: skip
    columns = (
        "of", "µs/call nginx", "ours, kept", "relative to the first", "ours, in turns",
        "relative to the first", "calls/s ours, kept", "RSS MB",
    )  # fmt: skip
    return table(columns, rows)


def picture(series: dict[str, list[Step]]) -> str:
    """The chart."""
    return chart.grid(
        "Growth of one manager",
        [
            [chart.Panel("calls a second", name, [
                chart.Line("manager", [(one.number, one.kept.rate) for one in steps]),
                chart.Line("nginx", [(one.number, one.nginx.rate) for one in steps], muted=True),
            ]) for name, steps in series.items()],
            [chart.Panel("memory, MB", name, [
                chart.Line("manager", [(one.number, one.memory) for one in steps]),
            ]) for name, steps in series.items()],
        ],
    )  # fmt: skip
