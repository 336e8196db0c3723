"""Starts: the manager's until its first answer, a workspace server's until that of a tool; idle memory.

Nothing is pinned here: what starts may use the whole machine.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from protocol import names
from scripts.benchmarks import chain, nginx
from scripts.benchmarks.load import Call
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.processes import READY_S, end, family, pss_mb, rss_mb, start
from scripts.benchmarks.section import Section
from scripts.benchmarks.table import table

WORKSPACES = 20
REST_S = 3.0
"""Until a manager that just started has nothing to do any more."""
CALCULATE = Call("modern", "calculator", {"expression": "6 * 7"})


def run(plan: Plan) -> Section:
    """Measure all."""
    plan.say("start: manager")
    starts = [_until_first_answer(plan, number) for number in range(max(5, plan.rounds))]
    plan.say("start: workspace servers")
    figures, colds = _workspaces(plan)
    figures |= {"start s": statistics.median(starts), "cold ms": at_share(colds, 0.95)}
    rows = [
        (
            "manager, from start to first answer",
            f"{figures['start s'] * 1000:.0f} ms, median of {len(starts)}",
        ),
        ("manager, memory when idle (RSS)", f"{figures['idle MB']:.1f} MB"),
        ("the same, with the processes it starts for itself (PSS)", f"{figures['idle family MB']:.1f} MB"),
        ("`lmtb status`, processor time", f"{figures['status ms']:.0f} ms, median"),
        (
            "handshake that starts a server, and the first answer of a tool",
            f"p50 {statistics.median(colds):.0f} ms, p95 {figures['cold ms']:.0f} ms, of {len(colds)}",
        ),
        ("memory of a further workspace (PSS)", f"{figures['workspace MB']:.1f} MB"),
    ]
    return Section("start", table(("what", "measured"), rows), {"starts": starts, "colds": colds}, figures)


def at_share(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]


def everywhere() -> frozenset[int]:
    """All processors."""
    return frozenset(os.sched_getaffinity(0))


def _until_first_answer(plan: Plan, number: int) -> float:
    """Seconds from the start of a process to its answer to `initialize`."""
    folder = plan.folder / f"start-{number}"
    folder.mkdir()
    port = nginx.free_port()
    environ = chain.environment(folder) | {"LMTB_HTTP_PORT": str(port)}
    began = time.perf_counter()
    one = start(*chain.COMMAND, on=everywhere(), log=folder / "manager.log", cwd=folder, env=environ)
    try:
        while True:
            with contextlib.suppress(OSError):
                chain.opened_session(f"http://127.0.0.1:{port}{names.MCP_PATH}")
                return time.perf_counter() - began
            if time.perf_counter() - began > READY_S or one.poll() is not None:
                raise TimeoutError((folder / "manager.log").read_text())
            time.sleep(0.002)
    finally:
        end(one)


def _workspaces(plan: Plan) -> tuple[dict[str, float], list[float]]:
    """What an idle manager takes, and what each workspace adds."""
    with chain.manager(plan.folder / "cold", everywhere()) as one:
        time.sleep(REST_S)
        idle, idle_family = rss_mb([one.pid]), pss_mb(family(one.pid))
        status = statistics.median(_cpu_ms(plan, one) for _ in range(max(5, plan.rounds)))
        colds = [_cold(one, plan.folder / "projects" / "0")]
        time.sleep(1)
        first = pss_mb(family(one.pid))
        colds += [_cold(one, plan.folder / "projects" / str(number)) for number in range(1, WORKSPACES)]
        time.sleep(1)
        each = (pss_mb(family(one.pid)) - first) / (WORKSPACES - 1)
    figures = {"idle MB": idle, "idle family MB": idle_family, "status ms": status, "workspace MB": each}
    return figures, colds


def _cold(one: chain.Manager, folder: Path) -> float:
    """Milliseconds from a handshake to the answer of a tool, in a project nobody knew."""
    project = chain.project(folder)
    handshake = Call("modern", names.HANDSHAKE, {"cwd": str(project)})
    began = time.perf_counter()
    chain.post(one.address(), handshake.body, handshake.fields(""))
    said, _ = chain.post(one.address(f"/mcp?cwd={quote(str(project))}"), CALCULATE.body, CALCULATE.fields(""))
    took = (time.perf_counter() - began) * 1000
    if b"42" not in said:
        raise RuntimeError(f"the calculator answered {said[:300]!r}")
    return took


def _cpu_ms(plan: Plan, one: chain.Manager) -> float:
    """Processor time of `lmtb status`."""
    command = (sys.executable, "-I", "-m", "manager", "status")
    process = start(
        *command, on=everywhere(), log=plan.folder / "status.log", cwd=plan.folder, env=one.environ
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError((plan.folder / "status.log").read_text())
    return (used.ru_utime + used.ru_stime) * 1000
