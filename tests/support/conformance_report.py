"""The table of `scripts/conformance`: every leg of the suite against the server directly and behind the manager.

A program: `python -m support.conformance_report FOLDER [options]`, FOLDER with the installed suite. Exit code 1: a check
fails that succeeds directly, and that is no expected failure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from support.conformance import LEGS, Suite, expected_failures
from support.conformance_chain import SOURCES, Chain, conformance_chain, kinds_of

DIRECT = "direct"


def main() -> int:
    """Run what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    parser.add_argument("folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--leg", action="append", choices=LEGS)
    parser.add_argument("--source", action="append", choices=SOURCES)
    parser.add_argument("--scenario", default="", help="one scenario only")
    parser.add_argument("--verbose", action="store_true", help="print what the suite prints")
    options = parser.parse_args()
    sources = [DIRECT, *(one for one in options.source or SOURCES if one != DIRECT)]
    with (
        tempfile.TemporaryDirectory(prefix="lmtb-") as folder,
        conformance_chain(Path(folder), *sources[1:]) as chain,
    ):
        return report(Suite(options.folder), chain, sources, options)


def report(suite: Suite, chain: Chain, sources: list[str], options: argparse.Namespace) -> int:
    """Print a line for each leg and source, and below it what went less well than directly; 1 if that is news."""
    bad = 0
    print(f"{'leg':<12}{'source':<14}{'passed':>9}{'seconds':>9}")
    for leg in (LEGS[name] for name in options.leg or LEGS):
        there = None
        for source in sources:
            url = chain.direct if source == DIRECT else chain.pure[source]
            run = suite.run(leg, url, options.scenario)
            there = there or run
            print(
                f"{leg.name:<12}{source:<14}{f'{run.passed}/{run.total}':>9}{run.seconds:>9.1f}", flush=True
            )
            if options.verbose:
                print(run.said)
            if source != DIRECT:
                bad |= _explain(run.less_than(there), expected_failures(leg, run, *kinds_of(source)))
    return bad


def _explain(less: dict[str, str], expected: dict[str, str]) -> bool:
    for key, why in less.items():
        print(f"    {'expected' if key in expected else 'NEW'}: {key}: {why[:300]}")
    for key in expected.keys() - less.keys():
        print(f"    AS DIRECTLY, though expected otherwise: {key}")
    return less.keys() != expected.keys()


if __name__ == "__main__":
    sys.exit(main())
