"""Runs the commands `scripts/faults`, `scripts/attacks` and `scripts/soak`.

Exit codes: 0 success; 1 a row fails, random faults broke a promise, or something grows.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

from scripts.benchmarks.environment import machine, own_manager
from scripts.benchmarks.results import documents
from scripts.reliability import chaos, crowds, peer_faults, soak, suite, table

DOCS = suite.ROOT / "docs" / "build"
QUICK_S, LONG_S = 20.0, 300.0
"""Seconds of random faults, with and without --quick."""


def options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="scripts", description="Shows which faults and attacks are held.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    faults = verbs.add_parser(
        "faults", prog="scripts/faults", help="the tests of all rows, then random faults"
    )
    attacks = verbs.add_parser("attacks", prog="scripts/attacks", help="the tests of all rows")
    for verb in (faults, attacks):
        verb.add_argument("--only", default="", metavar="WORDS", help="only rows with these words")
        verb.add_argument("--list", action="store_true", help="print rows and their tests, and run nothing")
    faults.add_argument("--quick", action="store_true", help=f"only random faults, for {QUICK_S:.0f} s")
    faults.add_argument("--seed", type=int, help="repeat the random faults of this seed")
    faults.add_argument("--seconds", type=float, help=f"of random faults; 0: none; default: {LONG_S:.0f}")
    hours = verbs.add_parser("soak", prog="scripts/soak", help="an hour of churn")
    hours.add_argument("--minutes", type=float, default=60.0, metavar="N", help="default: 60")
    for verb in (faults, attacks, hours):
        verb.add_argument("--write-docs", action="store_true", help="put the results into the documents")
    return parser.parse_args(arguments)


def where() -> str:
    """A sentence about the machine and the version."""
    facts = {"processors": machine.described()["processors"], "lm-tools-bridge": own_manager.version()}
    return ", ".join(f"{name} {value}" for name, value in facts.items()) + "."


def tried(name: str, column: str, wanted: argparse.Namespace, folder: Path) -> tuple[str, bool]:
    """Run the tests of a table; return its text, and whether nothing failed."""
    rows = [one for one in table.read(name) if wanted.only.lower() in f"{one.group} {one.what}".lower()]
    found = table.results(rows, suite.run((test for row in rows for test in row.tests), folder))
    text = f"{table.summary(found)} {where()}\n\n{table.markdown(found, column)}"
    print(f"\n{text}\n", flush=True)
    return text, not any(one.failed for one in found)


def listed(name: str, words: str) -> None:
    """Print the rows of a table with their tests."""
    for row in table.read(name):
        if words.lower() in f"{row.group} {row.what}".lower():
            print(f"{row.what}: {row.expected}")
            for line in (*row.tests, *([f"limit: {row.limit}"] if row.limit else [])):
                print(f"  {line}")


def compared(folder: Path) -> str:
    """A table of other proxies beside the manager."""
    place = folder / "peers"
    place.mkdir()
    return peer_faults.run(place, lambda text: print(f"peers: {text}", flush=True))


def faults(wanted: argparse.Namespace, folder: Path) -> bool:
    """Run the tests of the table, unless only a quick run is wanted, and the random faults."""
    texts: dict[str, str] = {}
    holds = True
    if not wanted.quick:
        texts["faults"], holds = tried("faults", "fault", wanted, folder)
    default = QUICK_S if wanted.quick else LONG_S
    seconds = default if wanted.seconds is None else wanted.seconds
    if seconds and not wanted.only:
        seed = secrets.randbelow(10**6) if wanted.seed is None else wanted.seed
        found = asyncio.run(chaos.run(folder, seed, seconds))
        texts["chaos"] = f"{found.text()}\n\nSeed {seed}, {seconds:.0f} s of faults. {where()}"
        print(f"\n{texts['chaos']}\n")
        holds = holds and found.holds
        if not wanted.quick:
            texts["crowds"] = f"{asyncio.run(crowds.run(folder / 'crowds'))}\n\n{where()}"
            print(f"{texts['crowds']}\n")
            texts["peers"] = f"{compared(folder)}\n\n{where()}"
            print(f"{texts['peers']}\n")
    if wanted.write_docs and not wanted.only:
        documents.write(DOCS / "reliability.md", texts)
    return holds


def attacks(wanted: argparse.Namespace, folder: Path) -> bool:
    """Run the tests of the table."""
    text, holds = tried("attacks", "attack", wanted, folder)
    if wanted.write_docs and not wanted.only:
        documents.write(DOCS / "threat-model.md", {"attacks": text})
    return holds


def soaked(wanted: argparse.Namespace, folder: Path) -> bool:
    """Run the churn."""
    found = asyncio.run(soak.run(folder, wanted.minutes * 60))
    text = f"{found.text()}\n\n{wanted.minutes:g} minutes. {where()}"
    print(f"\n{text}\n")
    if wanted.write_docs:
        documents.write(DOCS / "reliability.md", {"soak": text})
    return found.holds


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    wanted = options(arguments)
    if getattr(wanted, "list", False):
        listed(wanted.verb, wanted.only)
        return 0
    with tempfile.TemporaryDirectory(prefix="lmtb-reliability-") as name:
        holds = {"faults": faults, "attacks": attacks, "soak": soaked}[wanted.verb](wanted, Path(name))
    return 0 if holds else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
