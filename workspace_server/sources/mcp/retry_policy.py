"""Defines the decisions by which a session supervisor opens sessions again.

`stdio/restart_policy.py` makes them for programs, `remote/retry_policy.py` for remote servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from workspace_server.source import SourceState
from workspace_server.sources.mcp.failures import Unavailable

CallVerdict = Literal["keep", "replace", "down"]
"""What a failed call means for its session: keep it, open another for the next call, or stop using it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """What follows a failure: the new state, and the seconds until the next try (None: not by itself)."""

    state: SourceState
    pause_s: float | None


class RetryPolicy(Protocol):
    """Decides when a session may be opened, and what a failure means. `now` is in monotonic seconds.

    Attributes:
        initial_state: the state before the first session.
        opening_state: the state to show during every try; None leaves the state as it is.
    """

    initial_state: SourceState
    opening_state: SourceState | None

    def refusal(self, now: float) -> Unavailable | None:
        """Why no call is let through, not even over an open session; None when calls are."""

    def may_open(self, now: float) -> bool:
        """Whether a caller may open a session now."""

    def opened(self) -> None:
        """A session was opened."""

    def failed(self, failure: Unavailable, now: float, lived_s: float, chance: float) -> Retry:
        """A session ended or could not be opened.

        Args:
            failure: why.
            now: the time.
            lived_s: how long the session was open, 0 for never.
            chance: a random number in [0, 1).
        """

    def forgive(self) -> None:
        """Let a session be opened now, whatever failed before, because a person wants one."""

    def call_succeeded(self) -> None:
        """A call got an answer."""

    def call_failed(
        self, failure: Unavailable, now: float, chance: float, *, is_current: bool
    ) -> CallVerdict:
        """A call got no answer; `is_current`: over the session that new calls get."""

    def unavailable(self, error: str | None, now: float) -> Unavailable:
        """What a caller gets while there is no session; `error` is the supervisor's."""
