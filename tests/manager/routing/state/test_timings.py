"""How long calls took: buckets, percentiles, and the minutes looked back on."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.routing.state.timings import (
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


def test_bounds_rise_and_are_close_enough_for_a_percentile_to_mean_something() -> None:
    assert (BOUNDS[0], BOUNDS[-1]) == (1e-05, 700.0)
    assert all(1 < upper / lower < 1.7 for lower, upper in pairwise(BOUNDS))


@pytest.mark.parametrize("bound", [BOUNDS[0], 0.001, 0.5, BOUNDS[-1]])
def test_a_duration_counts_up_to_its_bound_that_included(bound: float) -> None:
    place = BOUNDS.index(bound)
    histogram = counted(bound, bound * 1.0001)
    assert (histogram.counts[place], histogram.counts[place + 1]) == (1, 1)


def test_sums_are_exact_and_a_clock_that_went_back_is_nothing() -> None:
    histogram = counted(0.25, 1.0, -5.0)
    assert (histogram.total, sum(histogram.counts), histogram.counts[0]) == (1.25, 3, 1)


@given(st.lists(st.floats(1e-6, 600.0), min_size=1, max_size=60))
def test_a_percentile_is_in_the_bucket_of_the_duration_it_stands_for(durations: list[float]) -> None:
    found = percentiles(counted(*durations).counts)
    assert found is not None
    durations.sort()
    for share, shown in ((0.5, found.p50), (0.99, found.p99)):
        true = durations[max(0, -int(-share * len(durations) // 1) - 1)]
        upper = next(bound for bound in BOUNDS if true <= bound)
        lower = max((bound for bound in BOUNDS if bound < true), default=0.0)
        assert lower <= shown <= upper


def test_where_nothing_was_counted_there_is_no_percentile() -> None:
    assert percentiles(Histogram().counts) is None


def test_what_lasted_longer_than_all_bounds_is_shown_as_the_last() -> None:
    found = percentiles(counted(5000.0).counts)
    assert found is not None
    assert found.p50 == BOUNDS[-1]


def test_a_call_is_the_servers_time_and_the_managers_own() -> None:
    timings = Timings()
    timings.record_call(begun=10.0, sent=10.5, came=13.5, now=13.75)
    assert (timings.server.total, timings.manager.total) == (3.0, 0.75)


def test_of_late_are_this_minute_and_the_four_before() -> None:
    timings = Timings()
    for minute in range(RECENT_MINUTES + 1):
        for _ in range(2**minute):
            timings.record_call(0.0, 0.0, 0.1, 0.1)
        if minute < RECENT_MINUTES:
            timings.start_minute()
    assert sum(timings.recent().server) == 0b111110
    assert sum(timings.server.counts) == 0b111111


def test_before_the_first_minute_is_over_all_is_of_late() -> None:
    timings = Timings()
    timings.record_call(0.0, 1.0, 2.0, 2.0)
    assert percentiles(timings.recent().server) == percentiles(timings.server.counts)


def test_workspaces_add_up() -> None:
    assert sum_counts([RecentCounts([1, 2], [0, 1]), RecentCounts([3, 0], [1, 1])]) == RecentCounts(
        [4, 2], [1, 2]
    )
    assert percentiles(sum_counts([]).server) is None
