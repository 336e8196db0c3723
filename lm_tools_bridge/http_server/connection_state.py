"""States of a server's connection, and the events that lead from one to the next, as one table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Final


class State(IntEnum):
    """What a connection does with the bytes that arrive."""

    IDLE = auto()
    """Nothing of the next request has been received, except for empty lines (RFC 9112 §2.2)."""
    HEAD = auto()
    """A part of a request's head has been received."""
    BODY = auto()
    """The head is admitted; its body is being received."""
    WAITING = auto()
    """The body is large and waits for room; nothing is read."""
    SERVING = auto()
    """A request is being answered; what arrives is buffered."""
    DELEGATED = auto()
    """Another protocol serves a request; what belongs to the request goes there, the rest is buffered."""
    DISCARDING = auto()
    """A delegated request was answered before its body was complete; the rest of the body is dropped."""
    CLOSING = auto()
    """The last response is written; what arrives is dropped."""
    CLOSED = auto()
    """The connection is lost."""


class Event(IntEnum):
    """What happens to a connection."""

    HEAD_BEGUN = auto()
    """Bytes arrived that are not yet a whole head."""
    HEAD_ADMITTED = auto()
    """A head was admitted whose body is not complete."""
    ROOM_AWAITED = auto()
    """There is no room for the body."""
    ROOM_GRANTED = auto()
    """There is room for the body."""
    REQUEST_READ = auto()
    """A request is complete and is being answered."""
    CALL_CACHED = auto()
    """A request is complete and is answered without a request object, while the connection stays idle."""
    DELEGATED = auto()
    """A head was admitted whose request another protocol serves."""
    DELEGATE_DONE = auto()
    """That protocol has answered, and the request is complete."""
    DELEGATE_DONE_EARLY = auto()
    """That protocol has answered, but the body is not complete."""
    BODY_DISCARDED = auto()
    """The end of that body was received."""
    ANSWERED = auto()
    """The response is written; another request may follow."""
    ANSWERED_LAST = auto()
    """The response is written; no request follows it."""
    REFUSED = auto()
    """A refusal is written."""
    LOST = auto()
    """The transport reported the end of the connection."""


_AWAITS_HEAD: Final = {
    Event.HEAD_ADMITTED: State.BODY,
    Event.REQUEST_READ: State.SERVING,
    Event.CALL_CACHED: State.IDLE,
    Event.DELEGATED: State.DELEGATED,
    Event.REFUSED: State.CLOSING,
    Event.LOST: State.CLOSED,
}

TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.IDLE: _AWAITS_HEAD | {Event.HEAD_BEGUN: State.HEAD},
    State.HEAD: _AWAITS_HEAD,
    State.BODY: {
        Event.ROOM_AWAITED: State.WAITING,
        Event.REQUEST_READ: State.SERVING,
        Event.CALL_CACHED: State.IDLE,
        Event.REFUSED: State.CLOSING,
        Event.LOST: State.CLOSED,
    },
    State.WAITING: {
        Event.ROOM_GRANTED: State.BODY,
        Event.REFUSED: State.CLOSING,
        Event.LOST: State.CLOSED,
    },
    State.SERVING: {
        Event.ANSWERED: State.IDLE,
        Event.ANSWERED_LAST: State.CLOSING,
        Event.LOST: State.CLOSED,
    },
    State.DELEGATED: {
        Event.DELEGATE_DONE: State.IDLE,
        Event.DELEGATE_DONE_EARLY: State.DISCARDING,
        Event.LOST: State.CLOSED,
    },
    State.DISCARDING: {Event.BODY_DISCARDED: State.IDLE, Event.LOST: State.CLOSED},
    State.CLOSING: {Event.LOST: State.CLOSED},
    State.CLOSED: {},
}
"""By state and event, the next state; an event that is not listed must not happen."""
