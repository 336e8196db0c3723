"""Runs the command `scripts/bench`: measures the chosen sections, prints and saves the results.

Exit codes: 0 success; 1 a section failed, or with --quick a target is not met; 2 a program is not installed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from scripts.benchmarks import prerequisites
from scripts.benchmarks.environment import machine, own_manager
from scripts.benchmarks.forwarding import hop, neighbour, recorder, stopped_readers
from scripts.benchmarks.other_hosts import team
from scripts.benchmarks.other_proxies import peers
from scripts.benchmarks.plan import Missing, Plan
from scripts.benchmarks.results import report, targets
from scripts.benchmarks.scaling import growth, memory, sharing, unseen_growth
from scripts.benchmarks.section import Section
from scripts.benchmarks.startup import first_use, starting
from scripts.benchmarks.tools import builtin, code_servers, intelligence, search


def _agent(plan: Plan) -> Section:
    """Measure the terminal agent; needs what tests need, such as a terminal that draws what it is sent."""
    try:
        from scripts.benchmarks.startup import agent
    except ImportError as gone:
        raise RuntimeError(f"{gone.name} is not installed; next step: scripts/venv dev") from gone
    return agent.run(plan)


def _remote(plan: Plan) -> Section:
    """Measure projects on another host; needs what tests need, and a real sshd."""
    try:
        from scripts.benchmarks.other_hosts import remote
    except ImportError as gone:
        raise RuntimeError(f"{gone.name} is not installed; next step: scripts/venv dev") from gone
    return remote.run(plan)


SECTIONS: Mapping[str, Callable[[Plan], Section]] = {
    "hop": hop.run,
    "neighbour": neighbour.run,
    "builtin": builtin.run,
    "peers": peers.run,
    "growth": growth.run,
    "unseen-growth": unseen_growth.run,
    "recorder": recorder.run,
    "memory": memory.run,
    "sharing": sharing.run,
    "start": starting.run,
    "search": search.run,
    "intelligence": intelligence.run,
    "code-servers": code_servers.run,
    "install": first_use.run,
    "stopped-readers": stopped_readers.run,
    "team": team.run,
    "agent": _agent,
    "remote": _remote,
}
"""The sections, in the order in which they run."""
QUICK = ("hop", "unseen-growth")
"""The sections of a quick run, which fails if one of their targets is not met."""
WITHOUT_PEERS = (
    "search", "intelligence", "code-servers", "install", "sharing", "stopped-readers", "team", "agent",
    "remote",
)  # fmt: skip
"""Sections that need neither nginx nor wrk, if they run alone."""


def options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures what the manager costs, in turns with nginx and other MCP proxies.",
        epilog=f"Sections: {', '.join(SECTIONS)}. On a machine with other work, `chrt --rr 5 scripts/bench` "
        "gives the bench precedence (as root).",
    )
    option = parser.add_argument
    option(
        "--quick",
        action="store_true",
        help="the hop beside nginx, and what grows unseen, in two minutes; fails if a target is not met",
    )
    option("--only", default="", metavar="SECTION,…", help="only these sections")
    option(
        "--cases",
        default="",
        metavar="WORDS",
        help="only cases (of the hop) with all these words in their labels",
    )
    option("--rounds", type=int, metavar="N", help="default: 5, with --quick 3")
    option("--seconds", type=int, default=1, metavar="S", help="seconds of each round")
    option("--write-docs", action="store_true", help="put the results into the documents")
    parsed = parser.parse_args(arguments)
    unknown = sorted(set(filter(None, parsed.only.split(","))) - set(SECTIONS))
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are: {', '.join(SECTIONS)}")
    return parsed


def run_sections(chosen: list[str], plan: Plan) -> list[Section]:
    """Run the chosen sections, print each result at once, and return those that succeeded."""
    found = []
    for name in chosen:
        began, busy, own = time.monotonic(), machine.busy_s(), machine.own_s()
        try:
            (plan.folder / name).mkdir()
            found.append(SECTIONS[name](replace(plan, folder=plan.folder / name)))
        except (RuntimeError, OSError, TimeoutError) as fault:
            plan.say(f"{name} failed: {fault}")
            continue
        others = (machine.busy_s() - busy - machine.own_s() + own) / (time.monotonic() - began)
        print(f"\n## {name}\n\n{found[-1].text}\n", flush=True)
        print(f"Others used {others:.2f} processors meanwhile.\n", flush=True)
    return found


def run(wanted: argparse.Namespace, plan: Plan, versions: dict[str, str]) -> int:
    """Measure, print and save."""
    where = machine.described() | versions | {"lm-tools-bridge": own_manager.version()}
    print(report.machine_text(where, plan), flush=True)
    chosen = [one for one in SECTIONS if one in wanted.only.split(",") or not wanted.only]
    chosen = ([one for one in QUICK if one in chosen] or list(QUICK)) if plan.quick else chosen
    chosen = ["hop"] if plan.words and not wanted.only else chosen
    found = run_sections(chosen, plan)
    whole = len(found) == len(SECTIONS) and not plan.words
    print(f"## targets\n\n{report.targets_text(found, whole=whole)}", flush=True)
    plan.say(f"written to {report.save(where, found, plan)}")
    if plan.write_docs:
        report.write_documents(where, found, plan, whole=whole)
    limits_hold = not (plan.quick and targets.broken(report.figures_of(found)))
    return 0 if limits_hold and len(found) == len(chosen) else 1


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    wanted = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the blocks end their processes
    try:
        versions = {} if wanted.only in WITHOUT_PEERS else prerequisites.versions()
    except Missing as gone:
        print(gone, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="lmtb-bench-") as name:
        plan = Plan(
            folder=Path(name), rounds=wanted.rounds or (3 if wanted.quick else 5), seconds=wanted.seconds,
            words=tuple(wanted.cases.replace(",", " ").split()), quick=wanted.quick,
            write_docs=wanted.write_docs,
        )  # fmt: skip
        return run(wanted, plan, versions)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
