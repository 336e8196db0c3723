"""Defines the record of a registered server (started by a user), its states and their transitions.

A heartbeat proves that a process runs. Only a health answer with its nonce proves that this process listens
on the port. A server serves requests only after such an answer. Silence, a new address or another server's
claim to its address make it suspect until the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from lm_tools_bridge.protocol.internal.registration import Kind


class State(Enum):
    """State of a registered server; the values go over the wire."""

    STARTING = "starting"  # registered; no health answer with its nonce yet
    READY = "ready"
    STANDBY = "standby"  # ready, but another server serves its root
    SUSPECT = "suspect"  # a health check is needed before the next call
    UNHEALTHY = "unhealthy"  # gets no calls; `cause` says why
    LISTED = "listed"  # an editor: shown, never gets calls
    GONE = "gone"


class Event(Enum):
    """What can happen to a registered server."""

    CONFIRMED = "health echoed its nonce"
    MISMATCHED = "health echoed another nonce or none"
    UNANSWERED = "health was asked three times for nothing"
    HOLDS_ROOT = "it is the first that became ready on its root"
    OUTRANKED = "another one holds its root"
    MOVED = "it has another address"
    CONTESTED = "another one claims its address"
    QUIET = "no heartbeat for 2.5 s"
    LEFT = "bye, exit, or no heartbeat for 10 s"


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.STARTING, Event.CONFIRMED): State.READY,
    (State.STARTING, Event.MISMATCHED): State.UNHEALTHY,
    (State.STARTING, Event.UNANSWERED): State.UNHEALTHY,
    (State.READY, Event.MISMATCHED): State.UNHEALTHY,
    (State.READY, Event.UNANSWERED): State.UNHEALTHY,
    (State.READY, Event.OUTRANKED): State.STANDBY,
    (State.READY, Event.MOVED): State.SUSPECT,
    (State.READY, Event.CONTESTED): State.SUSPECT,
    (State.READY, Event.QUIET): State.SUSPECT,
    (State.STANDBY, Event.MISMATCHED): State.UNHEALTHY,
    (State.STANDBY, Event.UNANSWERED): State.UNHEALTHY,
    (State.STANDBY, Event.HOLDS_ROOT): State.READY,
    (State.STANDBY, Event.MOVED): State.SUSPECT,
    (State.STANDBY, Event.CONTESTED): State.SUSPECT,
    (State.STANDBY, Event.QUIET): State.SUSPECT,
    (State.SUSPECT, Event.CONFIRMED): State.READY,
    (State.SUSPECT, Event.MISMATCHED): State.UNHEALTHY,
    (State.SUSPECT, Event.UNANSWERED): State.UNHEALTHY,
    (State.UNHEALTHY, Event.CONFIRMED): State.READY,
    (State.UNHEALTHY, Event.MOVED): State.STARTING,
    **{(state, Event.LEFT): State.GONE for state in State},
}
"""Events come from outside in any order. A pair that is missing here changes nothing."""

_CAUSES: Final = {Event.MISMATCHED: "identity_mismatch", Event.UNANSWERED: "no_answer"}
CAN_SERVE: Final = frozenset({State.READY, State.STANDBY, State.SUSPECT})
RENEWABLE: Final = frozenset({State.READY, State.STANDBY})


@dataclass(frozen=True, slots=True)
class Registration:
    """One registered server, as its last heartbeat described it.

    `secret` must never be shown; an editor has none. `cause` says why it is unhealthy. `registered_at` is in
    monotonic seconds. `misses` counts consecutive unanswered health checks.
    """

    session_id: str
    pid: int
    workspace_folders: tuple[str, ...]
    workspace_file: str | None
    host: str
    port: int
    nonce: str | None = field(repr=False)
    kind: Kind
    secret: str | None = field(repr=False)
    state: State
    registered_at: float
    cause: str | None = None
    misses: int = 0

    @property
    def root(self) -> str:
        """The folder that determines the workspace id."""
        return self.workspace_folders[0]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; `localhost` becomes 127.0.0.1."""
        return ("127.0.0.1" if self.host == "localhost" else self.host, self.port)

    def after(self, event: Event, why: str | None = None) -> Registration:
        """The record after an event; `why` is a more exact cause than the event's own."""
        state = TRANSITIONS.get((self.state, event), self.state)
        cause = why or _CAUSES.get(event, self.cause) if state is State.UNHEALTHY else None
        misses = 0 if event in (Event.CONFIRMED, Event.MOVED) else self.misses
        return replace(self, state=state, cause=cause, misses=misses)
