"""Decides when a remote server is connected to again, and which failed calls count. Pure.

Failures go to a circuit breaker (`breaker.py`), missing credentials wait for the user, and `Retry-After` is
respected.
"""

from __future__ import annotations

from typing import Final

from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.remote.breaker import OPEN_AFTER, Breaker
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
