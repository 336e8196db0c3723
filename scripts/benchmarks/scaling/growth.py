"""Measures processor time per call and memory as the number of sessions and workspaces grows.

One manager grows step by step. At each step it is measured in turns with nginx, and its processor time is
stated relative to nginx's, because the load of the machine changes between steps. Kept: each connection
keeps its session and workspace, as clients do. In turns: each call uses the next session or workspace.
The manager's processor time without calls is subtracted. Heartbeats cost more under load than at rest, so all
workspaces are registered from the first step on, and only the number of called ones grows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from scripts.benchmarks.environment import nginx, own_manager
from scripts.benchmarks.environment.processes import cores, cpu_ns, process_tree, rss_mb
from scripts.benchmarks.load import population
from scripts.benchmarks.load.wrk import Call, Target, check_answer, measure
from scripts.benchmarks.plan import RESULTS, ROOT, Plan
from scripts.benchmarks.results import chart
from scripts.benchmarks.results.rounds import Measured, in_turns, ratio
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

SESSIONS = (10, 100, 1_000, 10_000)
WORKSPACES = (1, 10, 100)
CONNECTIONS = 16
IDLE_S = 2.0
CALL = Call("legacy", "200B.json")


@dataclass(frozen=True)
class Step:
    """The results of one step: `number` sessions or workspaces."""

    number: int
    nginx: Measured
    kept: Measured
    in_turns: Measured
    memory: float

    def relative_to(self, first: Step, kind: str) -> float:
        """Processor time of a call relative to that of the first step, both relative to nginx's."""
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
        baseline = Target("nginx", pid, [f"http://127.0.0.1:{port}/mcp"])
        series = {
            "sessions": list(_sessions(plan, baseline, behind, backend)),
            "workspaces": list(_workspaces(plan, baseline, behind, backend)),
        }
    data = {name: [asdict(one) for one in steps] for name, steps in series.items()}
    figures = {
        f"growth {name} {kind}": steps[-1].relative_to(steps[0], kind)
        for name, steps in series.items() for kind in ("kept", "in_turns")
    }  # fmt: skip
    svg = picture(series)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "growth.svg").write_text(svg)
    if plan.write_docs:
        (ROOT / "docs" / "build" / "growth.svg").write_text(svg)
    return Section("growth", text(series), data, figures)


def _sessions(plan: Plan, baseline: Target, behind: int, backend: int) -> Iterator[Step]:
    """The steps with one workspace and a growing number of sessions."""
    project = own_manager.project(plan.folder / "growing")
    limits = {"session_limit": population.MANY}
    with (
        own_manager.manager(
            plan.folder / "growing-sessions", cores().measured, fork_servers=False, **limits
        ) as one,
        own_manager.registered(one, [project], backend, behind),
    ):
        url = one.address(f"/w/{one.workspace(project)}/mcp")
        ids: list[str] = []
        for number in SESSIONS:
            ids += population.sessions(one.port, number - len(ids))
            plan.say(f"growth: {number:,} sessions")
            yield _step(plan, baseline, Target("ours", one.pid, [url], ids), number)


def _workspaces(plan: Plan, baseline: Target, behind: int, backend: int) -> Iterator[Step]:
    """The steps with a hundred sessions and a growing number of called workspaces."""
    projects = [
        own_manager.project(plan.folder / "workspaces" / f"p{number}") for number in range(max(WORKSPACES))
    ]
    with own_manager.manager(plan.folder / "growing-workspaces", cores().measured, fork_servers=False) as one:
        ids = population.sessions(one.port, max(WORKSPACES))
        memory = []
        for number in WORKSPACES:
            with own_manager.registered(one, projects[:number], backend, behind):
                memory.append(rss_mb([one.pid]))
        with own_manager.registered(one, projects, backend, behind):
            urls = [one.address(f"/w/{one.workspace(each)}/mcp") for each in projects]
            for number, held in zip(WORKSPACES, memory, strict=True):
                plan.say(f"growth: {number} workspaces")
                ours = Target("ours", one.pid, urls[:number], ids)
                yield replace(_step(plan, baseline, ours, number), memory=held)


def _step(plan: Plan, baseline: Target, ours: Target, number: int) -> Step:
    check_answer(CALL, ours, b"x" * 200)
    nginx_target = replace(baseline, sessions=ours.sessions)
    targets = {"nginx": nginx_target, "kept": replace(ours, sticky=True), "in_turns": ours}
    time.sleep(IDLE_S)  # the manager saves sessions after it has answered
    own = process_tree(ours.pid)
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
        (f"{one.number:,} {name}", one.nginx.cpu, one.kept.cpu, f"{one.relative_to(steps[0], 'kept'):.2f}",
         one.in_turns.cpu, f"{one.relative_to(steps[0], 'in_turns'):.2f}", one.kept.rate, one.memory)
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
