"""Judges figures sampled over a long run: slopes after the warm-up, and medians by quarter. Pure.

The first quarter of a run is its warm-up: modules are loaded late, caches and the heap fill up. Memory swings
with the traffic of the moment; what stays is the least of a while.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

QUARTERS: Final = 4
PARTS: Final = 12
"""Into so many parts a run is divided, of each of which the least counts."""


class Sample(NamedTuple):
    """Figures at a time in seconds from the begin of the run."""

    at: float
    figures: Mapping[str, float]


class Trend(NamedTuple):
    """A figure after the warm-up; `grown` is its slope times the seconds since then."""

    name: str
    first: float
    last: float
    per_hour: float
    grown: float


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the line that fits the values best, per second; zero for less than two values."""
    return statistics.linear_regression(at, values).slope if len(values) > 1 else 0.0


def warm(samples: Sequence[Sample]) -> list[Sample]:
    """The samples after the warm-up, by their time."""
    return [one for one in samples if _quarter(one, samples) > 0]


def trends(samples: Sequence[Sample]) -> Iterator[Trend]:
    """The trend of each figure after the warm-up; nothing without samples."""
    late = warm(samples)
    for name in late[0].figures if late else ():
        values = [one.figures[name] for one in late]
        per_s = slope([one.at for one in late], values)
        grown = per_s * (late[-1].at - late[0].at)
        yield Trend(name, values[0], values[-1], per_s * 3600, grown)


def least(samples: Sequence[Sample]) -> list[Sample]:
    """The least of each figure in each part of the run, at the time of the part's last sample."""
    parts: dict[int, list[Sample]] = {}
    for one in samples:
        parts.setdefault(_part(one, samples, PARTS), []).append(one)
    return [
        Sample(part[-1].at, {name: min(one.figures[name] for one in part) for name in part[0].figures})
        for part in parts.values()
    ]


def quarter_medians(samples: Sequence[Sample], name: str) -> list[float]:
    """The median of a figure in each quarter of the run; zero for a quarter without samples."""
    quarters: list[list[float]] = [[] for _ in range(QUARTERS)]
    for one in samples:
        quarters[_quarter(one, samples)].append(one.figures[name])
    return [statistics.median(values) if values else 0.0 for values in quarters]


def _quarter(sample: Sample, samples: Sequence[Sample]) -> int:
    return _part(sample, samples, QUARTERS)


def _part(sample: Sample, samples: Sequence[Sample], parts: int) -> int:
    whole = samples[-1].at
    return min(int(parts * sample.at / whole), parts - 1) if whole else 0
