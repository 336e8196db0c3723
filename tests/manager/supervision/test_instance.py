"""Tests of call timings: buckets, percentiles and recent minutes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.supervision.instance import (
    BOUNDS,
    RECENT_MINUTES,
    Histogram,
    RecentCounts,
    Timings,
    percentiles,
    sum_counts,
)


def counted(*seconds: float) -> Histogram:
    histogram = Histogram()
    for one in seconds:
        histogram.add(one)
    return histogram


def test_bounds_rise_in_small_steps() -> None:
    assert (BOUNDS[0], BOUNDS[-1]) == (1e-05, 700.0)
    assert all(1 < upper / lower < 1.7 for lower, upper in pairwise(BOUNDS))


@pytest.mark.parametrize("bound", [BOUNDS[0], 0.001, 0.5, BOUNDS[-1]])
def test_a_bucket_includes_its_upper_bound(bound: float) -> None:
    place = BOUNDS.index(bound)
    histogram = counted(bound, bound * 1.0001)
    assert (histogram.counts[place], histogram.counts[place + 1]) == (1, 1)


def test_sums_are_exact_and_negative_durations_count_as_zero() -> None:
    histogram = counted(0.25, 1.0, -5.0)
    assert (histogram.total, sum(histogram.counts), histogram.counts[0]) == (1.25, 3, 1)


@given(st.lists(st.floats(1e-6, 600.0), min_size=1, max_size=60))
def test_a_percentile_is_in_the_bucket_of_its_duration(durations: list[float]) -> None:
    found = percentiles(counted(*durations).counts)
    assert found is not None
    durations.sort()
    for share, shown in ((0.5, found.p50), (0.99, found.p99)):
        true = durations[max(0, -int(-share * len(durations) // 1) - 1)]
        upper = next(bound for bound in BOUNDS if true <= bound)
        lower = max((bound for bound in BOUNDS if bound < true), default=0.0)
        assert lower <= shown <= upper


def test_without_durations_there_is_no_percentile() -> None:
    assert percentiles(Histogram().counts) is None


def test_a_duration_above_all_bounds_is_shown_as_the_last_bound() -> None:
    found = percentiles(counted(5000.0).counts)
    assert found is not None
    assert found.p50 == BOUNDS[-1]


def test_a_call_has_the_servers_and_the_managers_time() -> None:
    timings = Timings()
    timings.record_call(begun=10.0, sent=10.5, came=13.5, now=13.75)
    assert (timings.server.total, timings.manager.total) == (3.0, 0.75)


def test_recent_means_this_minute_and_the_four_before() -> None:
    timings = Timings()
    for minute in range(RECENT_MINUTES + 1):
        for _ in range(2**minute):
            timings.record_call(0.0, 0.0, 0.1, 0.1)
        if minute < RECENT_MINUTES:
            timings.start_minute()
    assert sum(timings.recent().server) == 0b111110
    assert sum(timings.server.counts) == 0b111111


def test_in_the_first_minute_everything_is_recent() -> None:
    timings = Timings()
    timings.record_call(0.0, 1.0, 2.0, 2.0)
    assert percentiles(timings.recent().server) == percentiles(timings.server.counts)


def test_workspaces_add_up() -> None:
    assert sum_counts([RecentCounts([1, 2], [0, 1]), RecentCounts([3, 0], [1, 1])]) == RecentCounts(
        [4, 2], [1, 2]
    )
    assert percentiles(sum_counts([]).server) is None
