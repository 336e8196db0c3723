"""Measures calls of a built-in tool, compared with a server of the official SDK.

Ours is called through the manager, that server directly. Each side has one processor for all processes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from scripts.benchmarks.cases import ERAS
from scripts.benchmarks.environment import nginx, own_manager
from scripts.benchmarks.environment.processes import cores, running, wait_for
from scripts.benchmarks.load.comparison import compare
from scripts.benchmarks.load.wrk import Call, Target
from scripts.benchmarks.plan import ROOT, Plan
from scripts.benchmarks.results.rounds import Measured, as_data, ratio
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

CONNECTIONS = (1, 16)
SDK = ("json", "sse")
COLUMNS = (
    "case",
    "server",
    "µs/call",
    "manager's part",
    "calls/s",
    "ours ×",
    "p50 µs",
    "p99 µs",
    "RSS MB",
    "refused",
)
TOOL = "calculator"
ARGUMENTS = {"expression": "round(100 * 1.07 ** 5, 2) + sqrt(16)"}
ANSWER = b"144.26"

Found = dict[tuple[str, int], dict[str, Measured]]


@contextlib.contextmanager
def _sdk(plan: Plan, form: str) -> Iterator[dict[str, Target]]:
    """Run the server of the SDK, with answers in this form, until the block ends."""
    port = nginx.free_port()
    command = (sys.executable, "-m", "scripts.benchmarks.tools.sdk_server", str(port), form)
    log = plan.folder / f"sdk-{form}.log"
    with running(*command, on=cores().measured, log=log, cwd=ROOT) as one:
        wait_for(lambda: nginx.reachable(port), what="the official SDK's server")
        url = f"http://127.0.0.1:{port}/mcp"
        session = own_manager.opened_session(url)
        yield {era: Target(f"SDK, {form}", one.pid, [url], [session]) for era in ERAS}


@contextlib.contextmanager
def _ours(plan: Plan) -> Iterator[dict[str, Target]]:
    """Run a manager, which starts a workspace server, until the block ends."""
    project = own_manager.project(plan.folder / "builtin")
    with own_manager.manager(plan.folder / "builtin-manager", cores().measured) as one:
        session = own_manager.bound_session(one, project)
        pure = one.address(f"/w/{one.workspace(project)}/mcp")
        urls = {"modern": pure, "legacy": one.address()}
        yield {era: Target("ours", one.pid, [urls[era]], [session]) for era in ERAS}


def run(plan: Plan) -> Section:
    """Measure all requested cases, in both eras."""
    cases = [(era, number) for number in CONNECTIONS for era in ERAS if plan.wants(f"{era} c={number}")]
    found: Found = {}
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(_ours(plan)), *(stack.enter_context(_sdk(plan, form)) for form in SDK)]
        for era, number in cases:
            plan.say(f"builtin: {era} c={number}")
            call = Call(era, TOOL, ARGUMENTS)
            named = {each[era].name: (call, each[era]) for each in targets}
            found[era, number] = compare(named, number, plan, ANSWER)
    data = {f"{era} c={number}": as_data(each) for (era, number), each in found.items()}
    return Section("builtin", table(COLUMNS, rows(found)), data, figures(found))


def times_of_sdk(plan: Plan) -> float:
    """The processor time of a stateless call to the SDK's server with JSON, relative to ours.

    At the most connections. Other work on the machine changes calls per second more than processor time.
    """
    with _ours(plan) as ours, _sdk(plan, "json") as sdk:
        call, number = Call("modern", TOOL, ARGUMENTS), max(CONNECTIONS)
        targets = {"ours": (call, ours["modern"]), "SDK": (call, sdk["modern"])}
        found = compare(targets, number, plan, ANSWER)
    return ratio(found["SDK"].cpu, found["ours"].cpu)


def rows(found: Found) -> Iterator[tuple[object, ...]]:
    """A row for each case and target."""
    for (era, number), each in found.items():
        for name, one in each.items():
            yield (
                f"{era} c={number}", name, one.cpu, one.alone if name == "ours" else None, one.rate,
                f"{ratio(each['ours'].rate, one.rate):.1f}", one.p50, one.p99, one.rss, int(one.refused),
            )  # fmt: skip


def figures(found: Found) -> dict[str, float]:
    """Calls per second relative to the SDK at 16 connections, of the worse era."""
    result: dict[str, float] = {}
    for (_, number), each in found.items():
        for form in SDK if number == max(CONNECTIONS) else ():
            times = ratio(each["ours"].rate, each[f"SDK, {form}"].rate)
            result[f"builtin {form}"] = min(times, result.get(f"builtin {form}", times))
    return result
