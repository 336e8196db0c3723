"""When a server that ended is started again."""

from __future__ import annotations

import pytest

from workspace_server.sources.mcp.stdio.restart_policy import RestartPolicy


def test_pauses_double_up_to_half_a_minute() -> None:
    """The ends are far enough apart not to count as a crash loop."""
    record = RestartPolicy()
    pauses = [record.ended(now=n * 100.0, lived_s=0, chance=0.5) for n in range(9)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert not record.looping


@pytest.mark.parametrize(("chance", "pause"), [(0.0, 0.375), (0.5, 0.5), (1.0, 0.625)])
def test_pauses_vary_by_a_quarter(chance: float, pause: float) -> None:
    record = RestartPolicy()
    assert record.ended(10.0, 0, chance) == pause
    assert record.not_before == 10.0 + pause


def test_five_ends_within_a_minute_are_a_loop_with_one_try_a_minute() -> None:
    record = RestartPolicy()
    assert [record.ended(now, 0, 0.5) for now in (0.0, 1.0, 2.0, 3.0)] == [0.5, 1, 2, 4]
    assert not record.looping
    assert record.ended(60.0, 0, 0.5) == 60
    assert record.looping
    assert record.ended(121.0, 0, 0.5) == 60


def test_the_fifth_end_after_more_than_a_minute_is_no_loop() -> None:
    record = RestartPolicy()
    for now in (0.0, 1.0, 2.0, 3.0, 60.1):
        record.ended(now, 0, 0.5)
    assert not record.looping


def test_a_server_that_lived_for_a_minute_has_a_clean_record() -> None:
    record = RestartPolicy()
    for now in range(6):
        record.ended(float(now), 0, 0.5)
    assert record.looping
    assert record.ended(1000.0, lived_s=60, chance=0.5) == 0.5
    assert not record.looping


def test_after_slow_failures_the_pause_grows_with_the_time_of_the_start() -> None:
    record = RestartPolicy()
    pauses = [record.ended(now=n * 1000.0, lived_s=0, chance=0.5, took_s=30) for n in range(6)]
    assert pauses == [30, 60, 120, 240, 480, 600]
