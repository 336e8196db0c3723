"""Measures several targets with the same load in turns, and checks the answers of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scripts.benchmarks.load.wrk import Call, Target, check_answer, measure
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.rounds import Measured, in_turns

RELATIVE_TOLERANCE, TOLERANCE_BYTES = 0.1, 40
"""The tolerance for sizes, relative and in bytes. Dates and numbers vary; a refusal differs by more."""


def compare(
    targets: Mapping[str, tuple[Call, Target]], connections: int, plan: Plan, expected: bytes
) -> dict[str, Measured]:
    """Measure the targets in turns and return the medians of each.

    Raises:
        RuntimeError: the answer of a target does not contain `expected`.
    """
    sizes = {name: check_answer(call, target, expected) for name, (call, target) in targets.items()}

    def one(name: str) -> Measured:
        call, target = targets[name]
        return measure(call, connections, target, plan)

    found = in_turns(targets, plan.rounds, one)
    for name, each in found.items():
        if not is_same_size(each.size, sizes[name]):
            plan.say(f"{name} answered differently under load: {each.size:.0f} bytes, not {sizes[name]}")
            found[name] = replace(each, refused=max(1.0, each.refused))
    return found


def is_same_size(size: float, expected: float) -> bool:
    """Whether the average answer is as large as the one that was checked; true if there was none."""
    return not size or abs(size - expected) <= RELATIVE_TOLERANCE * expected + TOLERANCE_BYTES
