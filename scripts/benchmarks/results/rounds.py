"""Measures in rounds, in turns (A B C, A B C, …), and computes medians. Pure except for the measurement."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True)
class Measured:
    """The figures of one round, or the medians of several rounds.

    cpu: µs of processor time for each call, of the process and its descendants; alone: of the process only.
    rate: calls a second.
    p50, p99: latencies in µs. refused: calls that failed. busy, load, backend,
    others: processor time per second of the measured processes, the load generator, the server behind and all
    other programs. size: bytes of an answer. rss: MiB of resident memory afterwards.
    """

    cpu: float
    alone: float
    rate: float
    p50: float
    p99: float
    refused: float
    busy: float
    load: float
    backend: float
    others: float
    size: float
    rss: float


def in_turns(names: Iterable[Name], rounds: int, measure: Callable[[Name], Measured]) -> dict[Name, Measured]:
    """Measure all in turns, so that other load affects all of them, and return the medians of each."""
    found: dict[Name, list[Measured]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, so_far in found.items():
            so_far.append(measure(name))
    return {name: median(each) for name, each in found.items()}


def median(rounds: Iterable[Measured]) -> Measured:
    """The median of each figure; of refused calls, the sum."""
    every = [asdict(one) for one in rounds]
    middle = {each.name: statistics.median(one[each.name] for one in every) for each in fields(Measured)}
    return Measured(**middle | {"refused": sum(one["refused"] for one in every)})


def ratio(one: float, other: float) -> float:
    """`one` divided by `other`; infinite if `other` is zero."""
    return one / other if other else float("inf")


def as_data(found: Mapping[str, Measured]) -> dict[str, dict[str, float]]:
    """The figures in a form for JSON."""
    return {name: asdict(one) for name, one in found.items()}
