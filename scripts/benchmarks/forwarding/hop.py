"""Measures what forwarding a call costs the manager, compared with nginx as a reverse proxy.

The workspace server is an nginx that answers like ours; it is registered with the manager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from scripts.benchmarks.cases import ALL, ERAS, QUICK, SIZES, Case
from scripts.benchmarks.environment import nginx, own_manager
from scripts.benchmarks.environment.processes import cores
from scripts.benchmarks.load.comparison import compare
from scripts.benchmarks.load.wrk import Call, Target, WrkRun, lua_script, measure_during, wrk_load
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.rounds import Measured, as_data, ratio
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

MANY = 64
"""Connections above which rounds are longer, because opening the connections takes time."""
STATIC = "GET /static HTTP/1.1\r\nHost: bench\r\nX-Id: "
COLUMNS = (
    "case", "µs/call nginx", "ours", "ratio", "calls/s nginx", "ours", "ratio", "p50 µs nginx", "ours",
    "p99 µs nginx", "ours", "busy nginx", "ours", "others", "RSS MB", "refused",
)  # fmt: skip

Found = dict[Case, dict[str, Measured]]


@dataclass(frozen=True)
class Testbed:
    """The targets for each era: the workspace server itself (direct), nginx as a proxy, the manager."""

    direct: Mapping[str, Target]
    nginx: Mapping[str, Target]
    ours: Mapping[str, Target]
    static: Target

    def targets(self, case: Case) -> dict[str, Target]:
        """The targets of a case; the direct one only in the cases that measure latency."""
        named = {"nginx": self.nginx[case.era], "ours": self.ours[case.era]}
        latency = case.connections == 1 and case.size == "200B"
        return named | ({"direct": self.direct[case.era]} if latency else {})


@contextlib.contextmanager
def testbed(plan: Plan) -> Iterator[Testbed]:
    """Run a workspace server, nginx as its proxy, and a manager, until the block ends."""
    on = cores()
    project = own_manager.project(plan.folder / "project")
    with contextlib.ExitStack() as stack:
        behind, backend = stack.enter_context(nginx.server(plan.folder, on.backend))
        proxy, port = stack.enter_context(nginx.proxy(plan.folder, backend, on.measured))
        one = stack.enter_context(
            own_manager.manager(plan.folder / "manager", on.measured, fork_servers=False)
        )
        stack.enter_context(own_manager.registered(one, [project], backend, behind))
        sessions = [own_manager.bound_session(one, project)]
        pure = one.address(f"/w/{one.workspace(project)}/mcp")
        urls = {"modern": pure, "legacy": one.address()}

        def same_address(name: str, pid: int, where: int) -> dict[str, Target]:
            address = [f"http://127.0.0.1:{where}/mcp"]
            return {era: Target(name, pid, address, sessions, [behind]) for era in ERAS}

        yield Testbed(
            direct=same_address("direct", 0, backend),
            nginx=same_address("nginx", proxy, port),
            ours={era: Target("ours", one.pid, [urls[era]], sessions, [behind]) for era in ERAS},
            static=Target("static", behind, [f"http://127.0.0.1:{backend}/static"]),
        )


def run(plan: Plan) -> Section:
    """Measure all requested cases."""
    cases = [case for case in (QUICK if plan.quick else ALL) if plan.wants(case.label)]
    found: Found = {}
    with testbed(plan) as ready:
        ceiling = measure_during(lambda: _static(plan, ready), ready.static)
        for number, case in enumerate(cases, 1):
            plan.say(f"hop {number}/{len(cases)}: {case.label}")
            found[case] = _measured(plan, case, ready.targets(case))
    data = {case.label: as_data(each) for case, each in found.items()}
    return Section("hop", text(found, ceiling), data, figures(found))


def _measured(plan: Plan, case: Case, targets: Mapping[str, Target]) -> dict[str, Measured]:
    if case.connections > MANY:
        plan = replace(plan, seconds=2 * plan.seconds)
    call = Call(case.era, case.tool)
    with_call = {name: (call, each) for name, each in targets.items()}
    return compare(with_call, case.connections, plan, b"x" * SIZES[case.size])


def _static(plan: Plan, ready: Testbed) -> contextlib.AbstractContextManager[WrkRun]:
    lua = lua_script([STATIC], b"1000000\r\n\r\n")
    return wrk_load(plan.folder, ready.static.urls[0], lua, 16, plan.seconds)


def text(found: Found, ceiling: Measured) -> str:
    """The table, and how far the load generator is from its limit."""
    rows = [row(case, each["nginx"], each["ours"]) for case, each in found.items()]
    load, server = f"{ceiling.load:.0%}", f"{ceiling.busy:.0%}"
    return f"""{table(COLUMNS, rows)}

wrk reaches {ceiling.rate:,.0f} calls/s against an nginx that answers with two bytes; it uses {load} of
a processor in that case, nginx {server}. Busy is the share of its processor that nginx or the manager used.
Near 100 % it limits the calls; otherwise the machine does. Others is the share that all other programs used.
In cases with `-read`, the server announces no result trim. RSS is the manager's, without a fork server."""


def row(case: Case, theirs: Measured, ours: Measured) -> tuple[object, ...]:
    """The row of a case."""
    return (
        case.label, theirs.cpu, ours.cpu, f"**{ratio(ours.cpu, theirs.cpu):.2f}**",
        theirs.rate, ours.rate, f"{ratio(ours.rate, theirs.rate):.2f}",
        theirs.p50, ours.p50, theirs.p99, ours.p99, f"{theirs.busy:.0%}", f"{ours.busy:.0%}",
        f"{max(ours.others, theirs.others):.0%}",
        ours.rss, int(theirs.refused + ours.refused),
    )  # fmt: skip


def figures(found: Found) -> dict[str, float]:
    """The figures for the targets, of the measured cases."""
    result: dict[str, float] = {
        "refused calls": sum(one.refused for each in found.values() for one in each.values())
    }
    for era in ERAS:
        if each := found.get(Case(era, "json", "200B", 16)):
            result[f"cpu {era}"] = ratio(each["ours"].cpu, each["nginx"].cpu)
            result[f"rate {era}"] = each["ours"].rate
        if each := found.get(Case(era, "json", "200B", 1)):
            result[f"added p50 {era}"] = ratio(
                *(each[one].p50 - each["direct"].p50 for one in ("ours", "nginx"))
            )
    for case, each in found.items():
        if case.size != "200B":
            name = f"rate {case.size} {case.form}"
            result[name] = min(result.get(name, float("inf")), ratio(each["ours"].rate, each["nginx"].rate))
    memory = {size: [each["ours"].rss for case, each in found.items() if case.size == size] for size in SIZES}
    if memory["200B"] and memory["1MB"]:
        result["large memory"] = ratio(max(memory["1MB"]), max(memory["200B"]))
    return result
