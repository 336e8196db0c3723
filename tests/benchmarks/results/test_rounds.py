"""Rounds in turns, medians and ratios."""

from __future__ import annotations

from dataclasses import replace

from scripts.benchmarks.results.rounds import Measured, in_turns, median, ratio

ONE = Measured(
    cpu=10,
    alone=10,
    rate=100,
    p50=1,
    p99=2,
    refused=0,
    busy=0.5,
    load=0.1,
    backend=0.2,
    others=0,
    size=500,
    rss=40,
)


def test_all_are_measured_in_turns() -> None:
    measured: list[str] = []

    def measure(name: str) -> Measured:
        measured.append(name)
        return replace(ONE, cpu=len(measured))

    found = in_turns(["A", "B"], 3, measure)
    assert measured == ["A", "B"] * 3
    assert (found["A"].cpu, found["B"].cpu) == (3, 4)


def test_an_outlier_does_not_move_the_median_and_refused_calls_add_up() -> None:
    found = median([ONE, replace(ONE, cpu=11, refused=2), replace(ONE, cpu=900, refused=1)])
    assert (found.cpu, found.refused) == (11, 3)


def test_a_ratio_to_zero_is_infinite() -> None:
    assert ratio(3, 2) == 1.5
    assert ratio(3, 0) == float("inf")
