"""How often something may happen: at once, and for any length of time."""

from __future__ import annotations

import pytest

from lm_tools_bridge.token_bucket import TokenBucket


def test_as_many_as_it_holds_may_happen_at_once() -> None:
    bucket = TokenBucket(1.0, 3, 10.0)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]


def test_tokens_come_back_up_to_what_it_holds() -> None:
    bucket = TokenBucket(2.0, 3, 10.0)
    bucket.spend(3)
    assert bucket.left(10.5) == 1.0
    assert bucket.left(100.0) == 3.0


def test_it_says_how_long_the_next_one_takes() -> None:
    bucket = TokenBucket(2.0, 1, 10.0)
    assert bucket.wait_s(10.0) == 0.0
    bucket.spend()
    assert bucket.wait_s(10.1) == pytest.approx(0.4)


def test_a_clock_that_goes_back_neither_gives_nor_takes() -> None:
    bucket = TokenBucket(1.0, 2, 10.0)
    bucket.spend(2)
    assert bucket.left(5.0) == 0.0
    assert bucket.left(10.5) == 0.5


def test_more_than_there_are_counts_as_all() -> None:
    bucket = TokenBucket(1.0, 2, 10.0)
    bucket.spend(50)
    assert bucket.left(11.0) == 1.0
