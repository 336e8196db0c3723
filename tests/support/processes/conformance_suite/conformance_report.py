"""Prints the table of `scripts/conformance`: the suite against the server directly and through the manager.

A program: `python -m support.processes.conformance_suite.conformance_report FOLDER [options]`; FOLDER contains the installed suite. It exits
with 1 if a check fails that succeeds directly and is not listed as an expected failure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.processes.conformance_suite.conformance import (
    LEGS,
    NEED_NO_WORKSPACE,
    Leg,
    Run,
    Suite,
    expected_failures,
)
from support.processes.conformance_suite.conformance_chain import (
    ENDPOINTS,
    Chain,
    conformance_chain,
    endpoints_of,
    kinds_of,
)

DIRECT = "direct"


def main() -> int:
    """Run what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    parser.add_argument("folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--leg", action="append", choices=LEGS)
    parser.add_argument("--endpoint", action="append", choices=ENDPOINTS)
    parser.add_argument("--scenario", default="", help="one scenario only")
    parser.add_argument("--verbose", action="store_true", help="print what the suite prints")
    options = parser.parse_args()
    wanted = options.endpoint or ENDPOINTS
    with (
        tempfile.TemporaryDirectory(prefix="lmtb-") as folder,
        conformance_chain(Path(folder), *wanted) as chain,
    ):
        return Report(Suite(options.folder), chain, options.scenario, options.verbose).all_of(
            options.leg or list(LEGS), wanted
        )


class Report:
    """What was found so far, and whether something of it is news."""

    def __init__(self, suite: Suite, chain: Chain, scenario: str, verbose: bool) -> None:
        self._suite = suite
        self._chain = chain
        self._scenario = scenario
        self._verbose = verbose
        self._found: dict[tuple[str, str], str] = {}
        self._is_news = False

    def all_of(self, legs: Sequence[str], wanted: Sequence[str]) -> int:
        """Run it and print it; 1 if there is news."""
        for leg in map(LEGS.__getitem__, legs):
            there: Run | None = None
            for endpoint in endpoints_of(leg.name):
                if endpoint in wanted or endpoint == DIRECT:
                    run = self._run(leg, endpoint)
                    there = run if endpoint == DIRECT else there
                    if endpoint != DIRECT:
                        self._judge(leg, endpoint, run, there)
        self._print_table(legs)
        return self._is_news

    def _run(self, leg: Leg, endpoint: str) -> Run:
        run = self._suite.run(leg, self._chain.url(endpoint), self._scenario)
        if endpoint == "bare":
            run = run.only(NEED_NO_WORKSPACE[leg.name])
        passed = self._found[leg.name, endpoint] = f"{run.passed}/{run.total}"
        print(f"{leg.name:<12}{endpoint:<22}{passed:>9}{run.seconds:>7.1f} s", flush=True)
        if self._verbose:
            print(run.said)
        return run

    def _judge(self, leg: Leg, endpoint: str, run: Run, there: Run | None) -> None:
        """Print what went less well than directly, or wrong where nothing is to be compared with."""
        less = run.wrong if there is None else run.less_than(there)
        expected = expected_failures(leg, run, *kinds_of(endpoint))
        for key, why in less.items():
            print(f"    {'expected' if key in expected else 'NEW'}: {key}: {why[:300]}")
        for key in expected.keys() - less.keys():
            print(f"    AS DIRECTLY, though expected otherwise: {key}")
        self._is_news |= less.keys() != expected.keys()

    def _print_table(self, legs: Sequence[str]) -> None:
        rows = [endpoint for endpoint in ENDPOINTS if any((leg, endpoint) in self._found for leg in legs)]
        print("\n| |", " | ".join(legs), "|")
        print("|---" * (len(legs) + 1) + "|")
        for endpoint in rows:
            print(f"| {endpoint} |", " | ".join(self._found.get((leg, endpoint), "") for leg in legs), "|")


if __name__ == "__main__":
    sys.exit(main())
