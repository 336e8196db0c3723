"""Tests how figures of a long run are judged: what comes after the warm-up, and quarter by quarter."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from scripts.reliability.growth import Sample, least, quarter_medians, trends, warm
from scripts.reliability.soak import WAIT_MS, WORK_US, Found, refusal_reason

MEMORY = "memory, MiB"


def samples(*values: float, name: str = MEMORY) -> list[Sample]:
    """One sample per minute, each with this figure."""
    return [Sample(60.0 * minute, {name: value}) for minute, value in enumerate(values)]


def test_the_first_quarter_is_the_warm_up() -> None:
    assert [one.at for one in warm(samples(*range(9)))] == [120, 180, 240, 300, 360, 420, 480]


def test_growth_in_the_warm_up_does_not_count() -> None:
    (trend,) = trends(samples(10, 50, *[60.0] * 7))
    assert (trend.first, trend.last, trend.per_hour, trend.grown) == (60, 60, 0, 0)


def test_the_slope_is_that_of_the_line_after_the_warm_up() -> None:
    (trend,) = trends(samples(*(50 + minute for minute in range(9))))
    assert (trend.per_hour, trend.grown) == (pytest.approx(60), pytest.approx(6))


def test_quarters_have_medians_that_single_peaks_do_not_move() -> None:
    found = samples(1, 1, 2, 2, 2, 3, 4, 99, 4, name="ms")
    assert quarter_medians(found, "ms") == [1, 2, 2.5, 4]


def test_swings_are_no_growth_and_what_stays_is() -> None:
    swings = samples(*(50.0 + minute // 12 * (minute % 2) for minute in range(121)))
    assert [one.grown for one in trends(least(swings))] == [0]
    stays = samples(*(50.0 + minute // 12 + minute % 2 for minute in range(121)))
    assert [one.grown for one in trends(least(stays))] == [pytest.approx(7, abs=1)]


def test_nothing_is_told_of_no_samples() -> None:
    assert list(trends(least([]))) == []
    assert quarter_medians([], "ms") == [0, 0, 0, 0]


def times(wait: float, work: float) -> list[Sample]:
    """Calls that take 1 of each until the last quarter, and so much in it."""
    last = {WAIT_MS: wait, WORK_US: work}
    return [Sample(float(at), last if at >= 6 else {WAIT_MS: 1.0, WORK_US: 1.0}) for at in range(9)]


@pytest.mark.parametrize(
    ("wait", "work", "expected"),
    [(1.0, 1.0, True), (2.0, 1.0, True), (1.0, 2.0, True), (2.0, 2.0, False)],
)
def test_calls_get_slower_only_if_the_manager_works_more_for_them(
    wait: float, work: float, expected: bool
) -> None:
    assert Found(times=times(wait, work)).holds is expected


def test_a_manager_whose_memory_grows_does_not_hold() -> None:
    growing = samples(*(50 + minute for minute in range(9)))
    assert not Found(samples={"manager": growing}, times=times(1, 1)).holds
    assert Found(samples={"manager": samples(*[50.0] * 9)}, times=times(1, 1)).holds


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"result": {"content": []}}, None),
        ({"error": {"code": -32001, "message": "session not found"}}, "HTTP 404: session not found"),
        ({"error": {"message": "too many", "data": {"reason": "overloaded"}}}, "overloaded"),
        ({"result": {"isError": True, "content": [], "structuredContent": {"reason": "offline"}}}, "offline"),
        ({"result": {"isError": True, "content": [{"type": "text", "text": "no"}]}}, "no"),
    ],
)
def test_refusals_of_a_soak_are_counted_by_reason(message: dict[str, Any], reason: str | None) -> None:
    assert refusal_reason(404, message) == reason


def test_the_table_of_a_soak_names_the_reasons_of_its_refusals() -> None:
    found = Found(refused=Counter({"overloaded": 3, "offline": 1}))
    assert "4 refusals. Refusals: 3 x overloaded; 1 x offline." in found.text()
