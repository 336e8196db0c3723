"""Targets compared with measured figures."""

from __future__ import annotations

import pytest

from scripts.benchmarks.results.targets import TARGETS, Target, against, broken, verdict

COST = Target("cost", "cost of a call", 1.5, " × nginx")
SPEED = Target("speed", "calls a second", 12, " ×", at_least=True)


@pytest.mark.parametrize(
    ("target", "value", "word"),
    [(COST, 1.5, "met"), (COST, 1.51, "**not met**"), (SPEED, 12.0, "met"), (SPEED, 11.9, "**not met**"),
     (COST, None, "not measured")],
)  # fmt: skip
def test_a_target_is_met_up_to_its_limit(target: Target, value: float | None, word: str) -> None:
    assert verdict(target, value) == word


def test_what_was_not_measured_is_said_and_breaks_nothing() -> None:
    assert against({"cost": 1.234}, [COST, SPEED]).splitlines()[2:] == [
        "| cost of a call | ≤ 1.5 × nginx | 1.23 × nginx | met |",
        "| calls a second | ≥ 12 × | – | not measured |",
    ]
    assert broken({"cost": 1.6, "other": 9}, [COST, SPEED]) == [COST]


def test_every_target_has_a_figure_of_its_own() -> None:
    assert len({one.figure for one in TARGETS}) == len(TARGETS)
