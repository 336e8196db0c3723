"""Measures what grows unseen with each change: modules, memory, the work of a start and of a built-in call.

The speed of the machine changes none of it: modules are counted, memory does not depend on load, a start is
compared with a bare aiohttp server and calls with the SDK's server, in turns. `results/targets.py` has the
recorded figures.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from scripts.benchmarks.environment import own_manager
from scripts.benchmarks.environment.processes import cores, rss_mb
from scripts.benchmarks.plan import ROOT, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.results.targets import RECORDED
from scripts.benchmarks.section import Section
from scripts.benchmarks.startup import cold, start_work
from scripts.benchmarks.tools import builtin
from scripts.call_trace.__main__ import trace_call

IMPORT_LINE = "import time:"
"""Begins a line of `-X importtime`."""
WITH_IMPORT_TIMES = (sys.executable, "-I", "-X", "importtime", "-m", "manager", "serve")
FORK_SERVER_MODULES = (
    "import sys; from workspace_server import fork_server; fork_server.load_everything(); "
    "print(len(sys.modules))"
)
"""Prints how many modules a workspace server has, which a fork server has loaded for it."""
WORKSPACES = 6
REST_S = 3.0
"""Seconds before memory is measured: a manager loads modules half a second, a server one second later."""


def run(plan: Plan) -> Section:
    """Measure all of it once: only the built-in call varies from run to run."""
    found = measure(plan)
    rows = [(name, found[name], value) for name, value in RECORDED.items()]
    return Section("unseen-growth", table(("what", "measured", "recorded"), rows), found, found)


def measure(plan: Plan) -> dict[str, float]:
    """All figures by name."""
    plan.say("unseen growth: modules")
    found: dict[str, float] = {
        "modules of an idle manager": manager_modules(plan.folder / "modules"),
        "modules of a workspace server": workspace_server_modules(),
    }
    plan.say("unseen growth: the way of a call")
    for program, trace in trace_call("lm_readFile").items():
        found[f"modules of a call in {program}"] = len(trace.modules)
    plan.say("unseen growth: starts")
    bare_s, manager_s = start_work.measure_starts(plan.folder / "starts")
    found["start × a bare aiohttp server"] = manager_s / bare_s
    plan.say("unseen growth: memory")
    found |= memory(plan.folder / "memory")
    plan.say("unseen growth: built-in call")
    return found | {"built-in call": builtin.times_of_sdk(plan)}


def manager_modules(folder: Path) -> int:
    """How many modules a manager has loaded that nobody has called."""
    with own_manager.manager_of(WITH_IMPORT_TIMES, folder, cores().measured, {"fork_servers": False}):
        time.sleep(REST_S)
        return count_imports((folder / "manager.log").read_text("utf-8", "replace").splitlines())


def count_imports(lines: Iterable[str]) -> int:
    """How many modules the output of `-X importtime` names, without its headline."""
    return sum(line.startswith(IMPORT_LINE) and "self [us]" not in line for line in lines)


def workspace_server_modules() -> int:
    """How many modules a forked workspace server has."""
    command = (sys.executable, "-I", "-c", FORK_SERVER_MODULES)
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return int(ran.stdout)


def memory(folder: Path) -> dict[str, float]:
    """The resident memory of an idle manager, and what each further workspace adds (PSS), in MB."""
    with cold.manager(folder, forks=True) as one:
        time.sleep(REST_S)
        idle = rss_mb([one.process.pid])
        for _ in range(WORKSPACES):
            one.cold_start()
            time.sleep(REST_S)
            one.record_memory()
    added = statistics.median(b - a for a, b in zip(one.memory, one.memory[1:], strict=False)) / 1024
    return {"idle manager MB": idle, "further workspace MB": added}
