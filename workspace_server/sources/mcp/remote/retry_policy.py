"""Decides when a remote server is connected to again, and which failed calls count. Pure.

Failures go to a circuit breaker, missing credentials wait for the user, and `Retry-After` is
respected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lm_tools_bridge.backoff import backoff
from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.retry_policy import CallVerdict, Retry

ASK_AGAIN_S: Final = 5.0
"""Without credentials, a server is tried at most this often, and only for a caller."""


class RemoteRetryPolicy:
    """The failures of one remote server: a `RetryPolicy`.

    Attributes:
        breaker: its circuit breaker.
        is_doubtful: whether the server refused a request, and no call succeeded since. A new session counts
            only if the server answers a request in it.
    """

    initial_state: SourceState = "connecting"
    opening_state: SourceState | None = None

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.is_doubtful = False
        self._is_renewed = False  # for the last request that was refused
        self._last: Unavailable | None = None
        self._state: SourceState = self.initial_state
        self._ask_again_at = 0.0

    def refusal(self, now: float) -> Unavailable | None:
        """The server asked for a pause (`Retry-After`, HTTP 429)."""
        wait = self.breaker.held(now)
        if not wait:
            return None
        text = "asked to be left alone for a while"
        return HttpFailure("throttled", text, retry_after_ms=round(wait * 1000))

    def may_open(self, now: float) -> bool:
        """Whether the breaker is closed or due for a try, and no person is needed."""
        if self._state == "failed":
            return False
        if self._state == "auth_required":
            return now >= self._ask_again_at
        return not self.breaker.is_open or now >= self.breaker.until

    def opened(self) -> None:
        """Close the breaker, unless calls are refused over new sessions, too."""
        if not self.is_doubtful:
            self.breaker.succeeded()
        self._state = "ready"

    def failed(self, failure: Unavailable, now: float, lived_s: float, chance: float) -> Retry:
        """As `RetryPolicy.failed`; how long the session lived does not matter."""
        self._last = failure
        retry = self._retry(failure, now, chance)
        self._state = retry.state
        return retry

    def forgive(self) -> None:
        """Forget all failures, and a pause that the server asked for."""
        self.breaker = Breaker()
        self._state, self._ask_again_at = self.initial_state, 0.0

    def call_succeeded(self) -> None:
        """Close the breaker."""
        self.breaker.succeeded()
        self.is_doubtful = self._is_renewed = False

    def call_failed(
        self, failure: Unavailable, now: float, chance: float, *, is_current: bool
    ) -> CallVerdict:
        """Count failures of HTTP; any other failure means an ended session or a call that ran out of time."""
        if not isinstance(failure, HttpFailure):
            return "keep"
        if failure.kind == "throttled" or (failure.kind == "failing" and failure.retry_after_ms is not None):
            seconds = None if failure.retry_after_ms is None else failure.retry_after_ms / 1000
            self.breaker.hold(now, seconds)
        if not is_current:
            return "keep"
        if failure.kind == "session_lost":
            self.is_doubtful, self._is_renewed = True, not self._is_renewed
            # a session that answered `tools/list` shows that the refusal is about this call
            return "replace" if self._is_renewed else "keep"
        if failure.kind in ("unauthorized", "unreachable"):
            return "down"
        if failure.kind == "failing":
            if self.breaker.failures + 1 >= OPEN_AFTER:
                return "down"
            self.breaker.failed(now, chance)
        return "keep"

    def unavailable(self, error: str | None, now: float) -> Unavailable:
        """The last failure as it concerns a call that was not sent."""
        wait = self.breaker.wait(now)
        again = round(wait * 1000) if self._state == "backoff" and wait > 0 else None
        text = error or "is not connected"
        if isinstance(self._last, HttpFailure):
            return HttpFailure(self._last.kind, text, status=self._last.status, retry_after_ms=again)
        return Unavailable(text, retry_after_ms=again)

    def _retry(self, failure: Unavailable, now: float, chance: float) -> Retry:
        if isinstance(failure, HttpFailure) and failure.kind == "unauthorized":
            self._ask_again_at = now + ASK_AGAIN_S
            return Retry("auth_required", None)
        if isinstance(failure, SessionFailed) and failure.final:
            return Retry("failed", None)
        if failure.retry_after_ms is not None:
            self.breaker.hold(now, failure.retry_after_ms / 1000)
        return Retry("backoff", self.breaker.failed(now, chance))


# After a failure the pause is 0.5 s, doubled each time, ±25 %. From the fifth failure in a row the breaker is
# open: one try after 30 s, 60 s, … up to 5 min. A pause that the server requested (`Retry-After`) always
# counts.
OPEN_AFTER: Final = 5
OPEN_S: Final = 30.0
LONGEST_S: Final = 300.0
THROTTLED_S: Final = 5.0
"""Pause in seconds after HTTP 429 without `Retry-After`."""
LONGEST_RETRY_S: Final = 3_600.0
_SECONDS: Final = re.compile(r"[0-9]{1,9}\Z")


@dataclass(slots=True)
class Breaker:
    """The failures of one server. Times are monotonic seconds.

    Attributes:
        failures: how many came in a row.
        until: nothing is tried before this time, except on request while the breaker is closed.
        held_until: nothing is sent at all before this time.
    """

    failures: int = 0
    until: float = 0.0
    held_until: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the server failed so often that calls no longer try it."""
        return self.failures >= OPEN_AFTER

    def failed(self, now: float, chance: float) -> float:
        """Note a failure; returns how long to wait. `chance` is in [0, 1)."""
        self.failures += 1
        if self.is_open:
            wait = min(OPEN_S * (self.failures - OPEN_AFTER + 1), LONGEST_S)
        else:
            wait = backoff(self.failures, chance)
        self.until = now + wait
        return self.wait(now)

    def succeeded(self) -> None:
        """Note a success."""
        self.failures = 0
        self.until = 0.0

    def hold(self, now: float, seconds: float | None) -> None:
        """Note that the server requested a pause; None for one of unknown length."""
        wait = THROTTLED_S if seconds is None else min(seconds, LONGEST_RETRY_S)
        self.held_until = max(self.held_until, now + wait)

    def wait(self, now: float) -> float:
        """Seconds until the next try."""
        return max(self.until, self.held_until, now) - now

    def held(self, now: float) -> float:
        """Seconds left of a pause that the server requested; 0 for none."""
        return max(self.held_until - now, 0.0)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds a `Retry-After` header asks for; None when there is none or it cannot be read.

    Args:
        value: a number of seconds or an HTTP date (RFC 9110, 10.2.3).
        now: what a date is compared with.
    """
    if value is None:
        return None
    if _SECONDS.match(value.strip()):
        return float(value)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  costs more than everything else in here

    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp(), 0.0)
