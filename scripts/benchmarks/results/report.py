"""Prints results, saves them in `.bench/`, and writes them into the documents on request."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.benchmarks.plan import RESULTS, ROOT, Plan
from scripts.benchmarks.results import documents
from scripts.benchmarks.results.table import figure
from scripts.benchmarks.results.targets import TARGETS, against
from scripts.benchmarks.section import Section

Machine = Mapping[str, str]


def targets_text(found: Sequence[Section], *, whole: bool) -> str:
    """The table of all targets, or of the measured ones."""
    figures = figures_of(found)
    return against(figures, [one for one in TARGETS if whole or one.figure in figures])


def figures_of(found: Sequence[Section]) -> dict[str, float]:
    """All figures of all sections."""
    return {name: value for each in found for name, value in each.figures.items()}


def machine_text(where: Machine, plan: Plan, *, is_single: bool = False) -> str:
    """A sentence about the machine and the rounds."""
    machine = ", ".join(f"{key} {value}" for key, value in where.items())
    how = (
        "One run"
        if is_single
        else f"Medians of {plan.rounds} rounds of {plan.seconds} s, in turns, in one run"
    )
    return f"{how}. {machine}."


def quick_text(figures: Mapping[str, float]) -> str:
    """The figures in a sentence, for the beginning of the page."""
    modern, legacy = (figure(figures[f"cpu {era}"]) for era in ("modern", "legacy"))
    added = figure(max(figures[f"added p50 {era}"] for era in ("modern", "legacy")))
    return (
        f"A call that is passed on takes {modern} × the processor time that nginx takes for the same hop,\n"
        f"{legacy} × in a session, and adds {added} × the latency. `scripts/bench --quick` measures that\n"
        "on your machine, in a minute."
    )


def save(where: Machine, found: Sequence[Section], plan: Plan) -> Path:
    """Save the results in a new file and return its path."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    results = {
        "machine": where, "rounds": plan.rounds, "seconds": plan.seconds,
        "sections": {one.name: {"data": one.data, "figures": one.figures} for one in found},
    }  # fmt: skip
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    return file


def write_documents(where: Machine, found: Sequence[Section], plan: Plan, *, whole: bool) -> None:
    """Write the results of the measured sections between the marks of the documents."""
    sections = [] if plan.quick else found
    texts = {
        one.name: f"{one.text}\n\n{machine_text(where, plan, is_single=one.is_single)}" for one in sections
    }
    if plan.quick or whole:
        texts["quick"] = quick_text(figures_of(found))
    if whole:
        texts["targets"] = f"{targets_text(found, whole=True)}\n\n{machine_text(where, plan)}"
    documents.write(ROOT / "docs" / "build" / "performance.md", texts)
