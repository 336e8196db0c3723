"""Decides when a session with a window is opened: for each call that needs one, and never by itself. Pure.

A window that closes is gone, and one that opens is found by looking, so there is nothing to retry.
"""

from __future__ import annotations

from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.retry_policy import CallVerdict, Retry


class WindowPolicy:
    """The sessions with one window: a `RetryPolicy`."""

    initial_state: SourceState = "idle"
    opening_state: SourceState | None = None

    def refusal(self, now: float) -> Unavailable | None:
        """None: a window is always asked."""
        return None

    def may_open(self, now: float) -> bool:
        """Always."""
        return True

    def opened(self) -> None:
        """Nothing is counted."""

    def failed(self, failure: Unavailable, now: float, lived_s: float, chance: float) -> Retry:
        """Wait for the next caller."""
        return Retry("idle", None)

    def forgive(self) -> None:
        """Nothing is counted."""

    def call_succeeded(self) -> None:
        """Nothing is counted."""

    def call_failed(
        self, failure: Unavailable, now: float, chance: float, *, is_current: bool
    ) -> CallVerdict:
        """Without a connection the session is over."""
        gone = isinstance(failure, HttpFailure) and failure.kind in ("unreachable", "session_lost")
        return "down" if gone and is_current else "keep"

    def unavailable(self, error: str | None, now: float) -> Unavailable:
        """What a caller gets while there is no session."""
        return Unavailable(error or "is not connected")
