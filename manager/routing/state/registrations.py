"""Table of registered servers (started by users), their states, and which one serves a root. Pure.

Folders must be real paths, because they are compared as text. The manager's own servers are not in this
table.

A heartbeat proves that a process runs. Only a health answer with its nonce proves that this process listens
on the port. A server serves requests only after such an answer. Silence, a new address or another server's
claim to its address make it suspect until the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import structs

from lm_tools_bridge.protocol.internal.registration import Heartbeat, Kind


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


HEARTBEAT_S: Final = 1.0
"""Seconds between heartbeats, as servers are told. Windows of VS Code send one each second whatever they are
told."""
SUSPECT_AFTER_S: Final = 2.5
"""Seconds of silence after which a server is asked before it gets a call. A heartbeat each second may be 1.2
s late."""
FORGOTTEN_AFTER_S: Final = 10.0
"""Seconds of silence after which a server is gone: ten heartbeats, so that a busy machine loses none. A
process that is seen to end is gone at once."""
SWEEP_EVERY_S: Final = 0.5
"""Seconds between looks at the silence, so that a silence is noticed at most so much later: a fifth of
`SUSPECT_AFTER_S`."""
LONGEST_WAKING_GAP_S: Final = 2.0
"""Longest gap between two calls. A longer one means that the machine or the manager was suspended."""
MISSES_ALLOWED: Final = 3
"""Health questions without an answer after which a server gets no calls, as with the manager's own servers
(`routing/state/lifecycle.py`)."""

_Address = tuple[str, int]


class StateChange(msgspec.Struct, frozen=True):
    """State of a server before a call (None: it was not registered) and after it."""

    session_id: str
    before: State | None
    after: State
    cause: str | None = None


class HeartbeatOutcome(msgspec.Struct, frozen=True):
    """The outcome of a heartbeat. If `first`, the answer must contain `record.secret`."""

    first: bool
    record: Registration
    changes: tuple[StateChange, ...]


class Registrations:
    """All registered servers by session id, and for each root the servers that may serve it."""

    def __init__(self) -> None:
        self._records: dict[str, Registration] = {}
        self._heard: dict[str, tuple[float, float]] = {}  # last heartbeat: monotonic, without suspended time
        self._queues: dict[str, list[str]] = {}  # session ids by root, in order of becoming ready
        self._nonces_at: dict[tuple[_Address, str | None], set[str]] = {}  # session ids
        self._serving_at: dict[_Address, set[str]] = {}  # session ids of those that can serve
        self._changed_roots: set[str] = set()  # whose queue was made or removed
        self._touched: dict[str, tuple[State | None, Registration]] = {}
        self._last_now: float | None = None
        self._suspended_s = 0.0

    def heartbeat(
        self, message: Heartbeat, now: float, secret_factory: Callable[[], str]
    ) -> HeartbeatOutcome:
        """Register a server or replace its record.

        An unknown id, or a known one with another nonce or kind, is a new server: it gets a secret and must
            be confirmed. After a change of address a server must be confirmed again, but can still serve.
        """
        awake = self._without_suspension(now)
        old = self._records.get(message.session_id)
        if old is not None and (old.nonce, old.kind) != (message.nonce, message.kind):
            self._apply(message.session_id, Event.LEFT)
            old = None
        self._heard[message.session_id] = (now, awake)
        record = _recorded(old, message, now, secret_factory)
        self._store(record)
        if old is None or old.address != record.address:
            self._claim(record)
        return HeartbeatOutcome(old is None, self._records[record.session_id], tuple(self._changes()))

    def renew(self, session_id: str, now: float) -> bool:
        """Note a heartbeat that changes nothing of a server that can serve.

        Returns:
            False if it needs a complete heartbeat: it is unknown, or its health has to be checked.
        """
        record = self._records.get(session_id)
        if record is None or record.state not in RENEWABLE:
            return False
        self._heard[session_id] = (now, self._without_suspension(now))
        return True

    def health_answered(self, asked: Registration, echoed: str | None) -> list[StateChange]:
        """Record a health answer.

        Args:
            asked: the record at the time of the request. The answer is ignored if address or nonce have
                changed.
            echoed: the nonce in the answer; None if it has none.
        """
        if not self.is_current(asked):
            return []
        # not all at this address: a heartbeat of each of them would look at each of them
        concerned = {asked.session_id, *self._serving(asked.address), *self._named(asked.address, echoed)}
        for session_id in sorted(concerned):
            is_confirmed = self._records[session_id].nonce == echoed
            self._apply(session_id, Event.CONFIRMED if is_confirmed else Event.MISMATCHED)
        return self._changes()

    def health_unanswered(self, asked: Registration, cause: str = "") -> list[StateChange]:
        """Note that a health question, asked of this record, had no good answer; the third in a row tells."""
        if not self.is_current(asked):
            return []
        record = self._records[asked.session_id]
        self._store(replace(record, misses=record.misses + 1))
        if record.misses + 1 >= MISSES_ALLOWED:
            self._apply(asked.session_id, Event.UNANSWERED, "unhealthy" if cause == "unhealthy" else None)
        return self._changes()

    def bye(self, session_id: str) -> list[StateChange]:
        """Forget a server that leaves."""
        if session_id in self._records:
            self._apply(session_id, Event.LEFT)
        return self._changes()

    def exited(self, pid: int) -> list[StateChange]:
        """Forget the servers of a process that is seen to have ended."""
        for session_id in [record.session_id for record in self._records.values() if record.pid == pid]:
            self._apply(session_id, Event.LEFT)
        return self._changes()

    def sweep(self, now: float) -> list[StateChange]:
        """Let silence tell. To be called every `SWEEP_EVERY_S` while anything is registered."""
        awake = self._without_suspension(now)
        for session_id, (_, heard) in list(self._heard.items()):
            if awake - heard >= FORGOTTEN_AFTER_S:
                self._apply(session_id, Event.LEFT)
            elif awake - heard >= SUSPECT_AFTER_S:
                self._apply(session_id, Event.QUIET)
        return self._changes()

    def candidates(self) -> tuple[Registration, ...]:
        """The servers that may be matched: of each root the one that holds it, ready or suspect."""
        return tuple(self._records[line[0]] for line in self._queues.values())

    def for_root(self, root: str) -> Registration | None:
        """The server that holds a root."""
        line = self._queues.get(root)
        return self._records[line[0]] if line else None

    def take_changed_roots(self) -> dict[str, bool]:
        """The roots that got a server or lost their last one since the last call: whether they have one."""
        changed, self._changed_roots = self._changed_roots, set()
        return {root: root in self._queues for root in changed}

    def is_unhealthy(self, root: str) -> bool:
        """Whether a server of this root is registered, but gets no calls because it is unhealthy."""
        return any(one.root == root and one.state is State.UNHEALTHY for one in self._records.values())

    def get(self, session_id: str) -> Registration | None:
        """The server of this id, in whatever state."""
        return self._records.get(session_id)

    def last_seen(self, session_id: str) -> float:
        """Monotonic time of the last heartbeat of a server that is registered."""
        return self._heard[session_id][0]

    def is_current(self, asked: Registration) -> bool:
        """Whether the server still has the address and nonce of this record."""
        record = self._records.get(asked.session_id)
        return record is not None and (record.address, record.nonce) == (asked.address, asked.nonce)

    def records(self) -> tuple[Registration, ...]:
        """All servers, including editors and unhealthy ones, in order of registration."""
        return tuple(self._records.values())

    def _without_suspension(self, now: float) -> float:
        """Monotonic seconds without the time in which the machine or the manager was suspended."""
        gap = 0.0 if self._last_now is None else now - self._last_now
        if gap > LONGEST_WAKING_GAP_S:
            self._suspended_s += gap
        self._last_now = now
        return now - self._suspended_s

    def _serving(self, address: _Address) -> set[str]:
        """The servers at an address that can serve."""
        return set(self._serving_at.get(address, ()))

    def _named(self, address: _Address, nonce: str | None) -> set[str]:
        """The servers at an address that registered with this nonce."""
        return set(self._nonces_at.get((address, nonce), ()))

    def _claim(self, record: Registration) -> None:
        """Make the server at a new address, and the previous one there, prove their identity again."""
        self._apply(record.session_id, Event.MOVED)
        for other in sorted(self._serving(record.address) - {record.session_id}):
            self._apply(other, Event.CONTESTED)

    def _apply(self, session_id: str, event: Event, why: str | None = None) -> None:
        self._store(self._records[session_id].after(event, why))

    def _store(self, record: Registration) -> None:
        old = self._records.get(record.session_id)
        if old == record:
            return
        before, _ = self._touched.get(record.session_id, (old.state if old else None, record))
        self._touched[record.session_id] = (before, record)
        if record.state is State.GONE:
            del self._records[record.session_id], self._heard[record.session_id]
        else:
            self._records[record.session_id] = record
        self._update_addresses(old, record)
        self._update_queues(old, record)

    def _update_addresses(self, old: Registration | None, new: Registration) -> None:
        """Update who is at which address, with which nonce, and who of them can serve."""
        if old is not None:
            _discard(self._nonces_at, (old.address, old.nonce), old.session_id)
            _discard(self._serving_at, old.address, old.session_id)
        if new.state is not State.GONE:
            self._nonces_at.setdefault((new.address, new.nonce), set()).add(new.session_id)
        if new.state in CAN_SERVE:
            self._serving_at.setdefault(new.address, set()).add(new.session_id)

    def _update_queues(self, old: Registration | None, new: Registration) -> None:
        """Update the queues of the roots: who can serve joins at the end, who cannot leaves."""
        left = old.root if old and old.state in CAN_SERVE else None
        joined = new.root if new.state in CAN_SERVE else None
        if left is not None and left != joined:
            self._queues[left].remove(new.session_id)
            if not self._queues[left]:
                del self._queues[left]
                self._changed_roots.add(left)
        if joined is not None and joined != left:
            if joined not in self._queues:
                self._changed_roots.add(joined)
            self._queues.setdefault(joined, []).append(new.session_id)
        for root in {left, joined}:
            for place, session_id in enumerate(self._queues.get(root, ()) if root else ()):
                self._apply(session_id, Event.OUTRANKED if place else Event.HOLDS_ROOT)

    def _changes(self) -> list[StateChange]:
        """The state changes of this call; a change that was undone is left out."""
        touched, self._touched = self._touched, {}
        return [
            StateChange(session_id, before, record.state, record.cause)
            for session_id, (before, record) in touched.items()
            if before is not record.state
        ]


def _discard(index: dict[Any, set[str]], key: object, session_id: str) -> None:
    found = index.get(key)
    if found is not None:
        found.discard(session_id)
        if not found:
            del index[key]


def _recorded(
    old: Registration | None, message: Heartbeat, now: float, secret_factory: Callable[[], str]
) -> Registration:
    said: dict[str, Any] = structs.asdict(message)
    if old is not None:
        return replace(old, **said)
    editor = message.kind == "editor"
    secret = None if editor else secret_factory()
    state = State.LISTED if editor else State.STARTING
    return Registration(**said, secret=secret, state=state, registered_at=now)
