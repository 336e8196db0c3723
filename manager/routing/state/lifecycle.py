"""State machine of one workspace server: restarts, crash loops and the pauses between attempts.

`manager/supervision/supervisor.py` reports events with their time and acts on the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from lm_tools_bridge.backoff import backoff


class State(Enum):
    """State of a workspace server; status shows the value."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    SUSPECT = "suspect"
    UNHEALTHY = "unhealthy"
    STOPPING = "stopping"
    CRASH_LOOPING = "crash_looping"


class Event(Enum):
    """What can happen to a workspace server."""

    START = "start"
    ANSWERED = "answered"
    MISSED = "missed"
    GAVE_UP = "gave_up"
    EXITED = "exited"
    STOP = "stop"
    LOOPED = "looped"


TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.STOPPED: {
        Event.START: State.STARTING,
        Event.STOP: State.STOPPED,
        Event.LOOPED: State.CRASH_LOOPING,
    },
    State.STARTING: {
        Event.ANSWERED: State.READY,
        Event.EXITED: State.STOPPED,
        Event.STOP: State.STOPPING,
    },
    State.READY: {
        Event.ANSWERED: State.READY,
        Event.MISSED: State.SUSPECT,
        Event.EXITED: State.STOPPED,
        Event.STOP: State.STOPPING,
    },
    State.SUSPECT: {
        Event.ANSWERED: State.READY,
        Event.MISSED: State.SUSPECT,
        Event.GAVE_UP: State.UNHEALTHY,
        Event.EXITED: State.STOPPED,
        Event.STOP: State.STOPPING,
    },
    State.UNHEALTHY: {
        Event.ANSWERED: State.READY,
        Event.MISSED: State.UNHEALTHY,
        Event.GAVE_UP: State.UNHEALTHY,
        Event.EXITED: State.STOPPED,
        Event.STOP: State.STOPPING,
    },
    State.STOPPING: {Event.EXITED: State.STOPPED, Event.STOP: State.STOPPING},
    State.CRASH_LOOPING: {Event.START: State.STARTING, Event.STOP: State.STOPPED},
}
"""The allowed transitions. A missing entry is a bug (`KeyError`)."""

SLOW_S: Final = 300.0
"""Silence after which a server that seems to be slow counts as one that hangs."""
FAST_EXIT_S: Final = 10.0
"""An exit less than this long after the start counts as a fast exit."""
FAST_EXITS: Final = 5
"""This many fast exits in a row are a crash loop."""
RETRY_LOOPING_S: Final = 60.0
"""Pause after which a call may start a crash-looping server again. A handshake may at once."""


class Lifecycle(msgspec.Struct):
    """State, counters and times (monotonic seconds) of one workspace server."""

    misses_allowed: int = 3
    state: State = State.STOPPED
    misses: int = 0
    first_miss_at: float | None = None
    silent_since: float | None = None
    started_at: float | None = None
    fast_exits: int = 0
    restarts: int = 0
    not_before: float = 0.0

    def start(self, now: float) -> None:
        """A process is being started."""
        self._move(Event.START)
        self.started_at = now
        self._heard()

    def answered(self) -> None:
        """It answered a health request with its nonce."""
        self._move(Event.ANSWERED)
        self._heard()

    def missed(self, now: float, *, is_slow: bool = False) -> None:
        """It did not answer a health request in time.

        Args:
            is_slow: whether it works on the answer. Then it is only suspect, for up to `SLOW_S` of silence.
        """
        if self.state is State.STARTING:
            return
        self._move(Event.MISSED)
        self.silent_since = now if self.silent_since is None else self.silent_since
        if is_slow and now - self.silent_since < SLOW_S:
            return
        self.misses += 1
        self.first_miss_at = now if self.first_miss_at is None else self.first_miss_at
        if self.misses >= self.misses_allowed:
            self._move(Event.GAVE_UP)

    def hung_for(self, now: float) -> float:
        """Seconds since the first of consecutive misses while it was not slow; 0 while it answers."""
        return 0.0 if self.first_miss_at is None else now - self.first_miss_at

    def exited(self, now: float, chance: float, *, never_ready: bool = False) -> None:
        """Its process exited, perhaps before it was ever ready. `chance` in [0, 1) spreads the back-off."""
        was_requested = self.state is State.STOPPING
        uptime = now - (self.started_at if self.started_at is not None else now)
        self._move(Event.EXITED)
        self._heard()
        if was_requested:
            return
        self.restarts += 1
        self.fast_exits = self.fast_exits + 1 if never_ready or uptime < FAST_EXIT_S else 1
        self.not_before = now + backoff(self.fast_exits, chance)
        if self.fast_exits >= FAST_EXITS:
            self._move(Event.LOOPED)
            self.not_before = now + RETRY_LOOPING_S

    def not_started(self) -> None:
        """No process could be started. That is no exit: it leads to no back-off and no crash loop."""
        self._move(Event.EXITED)
        self._heard()

    def stop(self) -> None:
        """It is being stopped on request."""
        self._move(Event.STOP)
        self.fast_exits, self.not_before = 0, 0.0

    def wait_before_start(self, now: float) -> float:
        """Seconds until the next start is due; 0 when it may start now."""
        return max(0.0, self.not_before - now)

    def forgive(self) -> None:
        """Skip the back-off once, for a handshake."""
        self.not_before = 0.0

    @property
    def is_serving(self) -> bool:
        """Whether calls may go to it."""
        return self.state is State.READY or self.state is State.SUSPECT

    def _heard(self) -> None:
        self.misses, self.first_miss_at, self.silent_since = 0, None, None

    def _move(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state][event]
