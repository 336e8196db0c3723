"""Rate limits: one token bucket per tool and calling program."""

from __future__ import annotations

from workspace_server.calls.gates import rate_limit
from workspace_server.calls.gates.rate_limit import RateLimiter


def taken(limiter: RateLimiter, now: float, tool: str = "t", client: str = "c") -> int:
    count = 0
    while limiter.wait(tool, client, now) == 0:
        limiter.take(tool, client, now)
        count += 1
    return count


def test_a_burst_then_five_per_second_then_a_burst_again() -> None:
    limiter = RateLimiter()
    assert taken(limiter, 100.0) == 20
    assert limiter.wait("t", "c", 100.0) == 0.2
    assert taken(limiter, 100.1) == 0
    assert taken(limiter, 101.0) == 5
    assert taken(limiter, 1000.0) == 20


def test_each_tool_and_each_program_has_its_own_bucket() -> None:
    limiter = RateLimiter(burst=2)
    assert taken(limiter, 0.0) == taken(limiter, 0.0, tool="u") == taken(limiter, 0.0, client="d") == 2
    assert taken(limiter, 0.0) == 0


def test_a_clock_that_stands_or_goes_back_gives_nothing_and_takes_nothing() -> None:
    limiter = RateLimiter(burst=1)
    assert taken(limiter, 10.0) == 1
    assert taken(limiter, 5.0) == 0
    assert limiter.wait("t", "c", 5.0) == 0.2
    assert taken(limiter, 10.25) == 1


def test_names_without_end_take_no_memory_without_end() -> None:
    limiter = RateLimiter()
    for number in range(rate_limit.MAX_BUCKETS + 50):
        limiter.take("t", f"c{number}", 0.0)
    assert len(limiter._buckets) == rate_limit.MAX_BUCKETS


def test_refusal_says_how_long_to_wait() -> None:
    refusal = rate_limit.refusal("fetch", 0.123)
    assert refusal.reason.code == 47105
    assert refusal.retry_after_ms == 123
    assert refusal.delivered == "no"
    assert "rate limited, retry after 1 s" in refusal.text
