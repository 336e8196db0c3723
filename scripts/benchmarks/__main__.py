"""The command `scripts/bench`: what is asked for is measured, printed, and written to `.bench/`.

Exit codes: 0 measured; 1 measured, and with --quick a limit is broken; 2 something is missing.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.benchmarks import builtin, chain, growth, hop, load, machine, memory, nginx, peers, targets
from scripts.benchmarks.plan import RESULTS, Missing, Plan
from scripts.benchmarks.section import Section

SECTIONS: Mapping[str, Callable[[Plan], Section]] = {
    "hop": hop.run,
    "builtin": builtin.run,
    "peers": peers.run,
    "growth": growth.run,
    "memory": memory.run,
}
"""In the order in which they run."""


def asked(words: list[str]) -> argparse.Namespace:
    """The options."""
    said = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures what the manager costs, in turns with nginx and other MCP proxies.",
        epilog=f"Sections: {', '.join(SECTIONS)}.",
    )
    said.add_argument(
        "--quick", action="store_true", help="nginx only, under a minute; fails on a broken limit"
    )
    said.add_argument("--only", default="", metavar="SECTION,…", help="only these sections")
    said.add_argument(
        "--cases", default="", metavar="WORDS", help="only cases with these words in their labels"
    )
    said.add_argument("--rounds", type=int, metavar="N", help="5 where nothing is said, 3 with --quick")
    said.add_argument("--seconds", type=int, default=1, metavar="S", help="of each round")
    found = said.parse_args(words)
    unknown = sorted(set(filter(None, found.only.split(","))) - set(SECTIONS))
    if unknown:
        said.error(f"no section {', '.join(unknown)}; there are: {', '.join(SECTIONS)}")
    return found


def tools() -> dict[str, str]:
    """The versions of what every section needs.

    Raises:
        Missing: one is not here.
    """
    if sys.platform != "linux":
        raise Missing("The bench reads processor time from /proc. Next step: run it on Linux.")
    missing = [each.__name__.rpartition(".")[2] for each in (nginx, load) if not each.path()]
    if missing:
        names = " ".join(missing).replace("load", "wrk")
        raise Missing(f"Not installed: {names}. Next step (Debian, Ubuntu): apt-get install {names}")
    return {"nginx": nginx.version(), "wrk": load.version()}


def main(words: list[str]) -> int:
    """Measure."""
    wanted = asked(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is ended
    try:
        versions = tools()
    except Missing as gone:
        print(gone, file=sys.stderr)
        return 2
    chosen = [one for one in SECTIONS if one in wanted.only.split(",")] or list(SECTIONS)
    if wanted.quick:
        chosen = ["hop"]
    with tempfile.TemporaryDirectory(prefix="lmtb-bench-") as name:
        plan = Plan(
            Path(name), wanted.rounds or (3 if wanted.quick else 5), wanted.seconds,
            tuple(wanted.cases.replace(",", " ").split()), wanted.quick,
        )  # fmt: skip
        where = machine.described() | versions | {"lm-tools-bridge": chain.version()}
        print(", ".join(f"{key} {value}" for key, value in where.items()), flush=True)
        found = []
        for each in chosen:
            began = time.monotonic(), machine.busy_s(), machine.own_s()
            found.append(SECTIONS[each](plan))
            lasted = time.monotonic() - began[0]
            foreign = (machine.busy_s() - began[1] - (machine.own_s() - began[2])) / lasted
            print(
                f"\n## {each}\n\n{found[-1].text}\n\nOthers used {foreign:.2f} processors meanwhile.",
                flush=True,
            )
    figures = {name: value for each in found for name, value in each.figures.items()}
    whole = len(chosen) == len(SECTIONS) and not plan.words
    shown = [one for one in targets.TARGETS if whole or one.figure in figures]
    print(f"\n## targets\n\n{targets.against(figures, shown)}", flush=True)
    write(where, found, plan)
    return int(wanted.quick and bool(targets.broken(figures)))


def write(where: Mapping[str, str], found: list[Section], plan: Plan) -> None:
    """Keep what was found."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    said = {
        "machine": where, "rounds": plan.rounds, "seconds": plan.seconds,
        "sections": {one.name: {"data": one.data, "figures": one.figures} for one in found},
    }  # fmt: skip
    file.write_text(json.dumps(said, indent=1, ensure_ascii=False))
    plan.say(f"written to {file}")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
