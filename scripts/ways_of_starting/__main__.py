"""Runs the command `scripts/ways-of-starting`: one agent after the other, each with each entry in each way.

Exit codes: 0 success; 1 another project answered; 75 the agents cannot be installed here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from scripts.benchmarks.environment import machine, own_manager
from scripts.benchmarks.results import documents
from scripts.ways_of_starting import report
from scripts.ways_of_starting.measuring import Cell, run_cell
from support.clients.agent_table import AGENTS
from support.clients.agents import InstalledAgents
from support.clients.ways.entries import ENTRIES
from support.clients.ways.outcomes import Outcome
from support.clients.ways.table import WAYS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/build/ways-of-starting.md"


def options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/ways-of-starting", description="Tells which project answers agents, however they start."
    )
    option = parser.add_argument
    for name, known in (("agents", AGENTS), ("entries", ENTRIES), ("ways", WAYS)):
        text = f"only these; known: {', '.join(known)}"
        option(f"--{name}", type=_names_of(known), default=list(known), metavar="NAME,…", help=text)
    option("--starts", type=int, default=0, metavar="N", help="measure N starts of each entry instead")
    option("--json", type=Path, metavar="FILE", help="also write all that was seen into a file")
    option("--join", type=Path, nargs="+", metavar="FILE", help="run nothing: make the tables of such files")
    option("--write-docs", action="store_true", help=f"put the tables into {DOCUMENT.relative_to(ROOT)}")
    return parser.parse_args(arguments)


def _names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Reads a list of names, each of which must be known."""
    names = list(known)

    def read(text: str) -> list[str]:
        if unknown := [name for name in text.split(",") if name not in names]:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(names)}")
        return text.split(",")

    return read


def chosen_cells(chosen: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Agent, entry and way of each cell; with --starts the entries in turns."""
    for agent in chosen.agents:
        if chosen.starts:
            for _ in range(chosen.starts):
                yield from ((agent, entry, "terminal") for entry in ("none", *chosen.entries))
        else:
            ways = [way for way in chosen.ways if agent in WAYS[way].agents]
            yield from ((agent, entry, way) for entry in chosen.entries for way in ways)


async def measure(chosen: argparse.Namespace, installed: InstalledAgents) -> list[Cell]:
    """All cells, each printed as soon as it is there."""
    cells = []
    for agent, entry, way in chosen_cells(chosen):
        began = time.monotonic()
        if cell := await run_cell(agent, entry, way, installed):
            cells.append(cell)
            spent = time.monotonic() - began
            print(f"{agent} {entry} {way}: {cell.outcome.name} ({spent:.0f} s) {cell.cause}", flush=True)
            save(chosen, cells, where())
    return cells


def read(files: Iterable[Path]) -> tuple[list[Cell], str]:
    """The cells of earlier runs, of a cell that was run again the last; and where they were run."""
    runs = [json.loads(file.read_text("utf-8")) for file in files]
    cells = [Cell.from_json(members) for run in runs for members in run["cells"]]
    last = {(cell.agent, cell.entry, cell.way): cell for cell in cells}
    return list(last.values()), " ".join(dict.fromkeys(run["where"] for run in runs))


def save(chosen: argparse.Namespace, cells: list[Cell], place: str) -> None:
    """Write all that was seen into the file that was asked for."""
    if chosen.json:
        seen = {"where": place, "cells": [cell.as_json() for cell in cells]}
        chosen.json.write_text(json.dumps(seen, indent=1, ensure_ascii=False))


def where() -> str:
    """A sentence about the day, the machine and the version."""
    facts = (time.strftime("%d %B %Y"), machine.described()["processors"], own_manager.version())
    return "{}; {}; lm-tools-bridge {}.".format(*facts)


def ended(chosen: argparse.Namespace, cells: list[Cell], place: str) -> int:
    """Print the table, and put it where it was asked for; the exit code."""
    text = report.starts_text(cells) if chosen.starts else report.ways_text(cells)
    print(f"\n{place}\n\n{text}\n\n{report.summary(cells)}")
    save(chosen, cells, place)
    if chosen.write_docs:
        name = "starts" if chosen.starts else "ways"
        documents.write(DOCUMENT, {name: f"{place}\n\n{text}"})
    return 1 if any(cell.outcome == Outcome.WRONG for cell in cells) else 0


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    chosen = options(arguments)
    if chosen.join:
        return ended(chosen, *read(chosen.join))
    done = subprocess.run([ROOT / "scripts/agents"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return done.returncode
    installed = InstalledAgents(Path(done.stdout.splitlines()[-1]))
    return ended(chosen, asyncio.run(measure(chosen, installed)), where())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
