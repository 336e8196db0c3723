"""Several targets called alike, in turns: whole answers before, and answers as large under load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scripts.benchmarks.load import Call, Target, answers, measure
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.rounds import Measured, in_turns

SHARE, HEAD = 0.1, 40
"""How much larger or smaller: dates, numbers and pieces differ. A refusal differs by more."""


def contest(
    players: Mapping[str, tuple[Call, Target]], connections: int, plan: Plan, expected: bytes
) -> dict[str, Measured]:
    """The medians of each.

    Raises:
        RuntimeError: one does not answer what is expected.
    """
    sizes = {name: answers(call, target, expected) for name, (call, target) in players.items()}

    def one(name: str) -> Measured:
        call, target = players[name]
        return measure(call, connections, target, plan)

    found = in_turns(players, plan.rounds, one)
    for name, each in found.items():
        if not alike(each.size, sizes[name]):
            plan.say(f"{name} answered otherwise under load: {each.size:.0f} bytes, not {sizes[name]}")
            found[name] = replace(each, refused=max(1.0, each.refused))
    return found


def alike(size: float, expected: float) -> bool:
    """Is an average answer as large as the one that was looked at?"""
    return not size or abs(size - expected) <= SHARE * expected + HEAD
