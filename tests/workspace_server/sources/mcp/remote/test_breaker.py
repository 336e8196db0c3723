"""When a remote server that failed is tried again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workspace_server.sources.mcp.remote.retry_policy import Breaker, retry_after

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def test_waits_double_and_then_the_breaker_opens_for_longer_and_longer() -> None:
    breaker = Breaker()
    waits = [breaker.failed(0.0, 0.5) for _ in range(16)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert waits[4:8] == [30.0, 60.0, 90.0, 120.0]
    assert waits[-1] == 300.0
    assert breaker.is_open
    breaker.succeeded()
    assert not breaker.is_open
    assert breaker.wait(0.0) == 0


def test_short_waits_are_spread_by_a_quarter() -> None:
    assert [Breaker().failed(0.0, chance) for chance in (0.0, 1.0)] == [0.375, 0.625]


def test_retry_after_outlasts_a_success() -> None:
    breaker = Breaker()
    breaker.hold(10.0, 7.0)
    breaker.succeeded()
    assert breaker.held(11.0) == breaker.wait(11.0) == 6.0
    assert breaker.held(17.0) == 0
    breaker.hold(20.0, None)
    assert breaker.held(20.0) > 0
    breaker.hold(20.0, 1e9)
    assert breaker.held(20.0) == 3600


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Fri, 20 Nov 2026 12:00:30 GMT", 30.0),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0.0),
        ("-1", None),
        ("1e9", None),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds
