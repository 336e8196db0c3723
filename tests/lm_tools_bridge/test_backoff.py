"""Tests of the exponential back-off with jitter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.backoff import backoff

NO_JITTER = 0.5
"""The random value that gives the exact pause."""


def test_pauses_double_up_to_thirty_seconds() -> None:
    assert [backoff(n, NO_JITTER) for n in range(1, 9)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_pauses_have_a_jitter_of_a_quarter(attempt: int, chance: float) -> None:
    plain = min(0.5 * 2 ** min(attempt - 1, 10), 30.0)
    assert plain * 0.75 <= backoff(attempt, chance) <= plain * 1.25


def test_the_whole_jitter_range_is_used() -> None:
    assert backoff(1, 0.0) == 0.375
    assert backoff(1, 0.999999) == pytest.approx(0.625, abs=1e-4)


def test_first_pause_and_limit_can_be_chosen() -> None:
    assert [backoff(n, NO_JITTER, first_s=3, longest_s=10) for n in range(1, 5)] == [3, 6, 10, 10]


def test_thousands_of_failures_do_not_overflow() -> None:
    assert backoff(1_000_000, NO_JITTER) == 30
