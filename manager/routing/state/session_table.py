"""Table of client sessions (MCP 2025-11-25 and older): binding, preferences and expiry of each.

`manager/sessions/streams.py` has their streams, `manager/state_file.py` stores them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final

import msgspec

from manager.routing.state.clients import Peer

MAX_ID: Final = 128
"""Characters of a session id. Ours have 32; clients may bring ids of other servers. Ten thousand of the
longest take 1.3 MB."""
RECENT_S: Final = 60.0
"""How long a used session must have rested before it makes room for another: its client may ask again."""


class InFlight(dict[bytes, Callable[[], object]]):
    """The requests of a session that are not answered yet, each with a function that cancels it.

    Requests are identified by `jsonrpc.id_key`. A request that continues on another path is added again, with
    the function that cancels it there. A dictionary itself, to spare ten thousand sessions an object each.
    """

    __slots__ = ()

    def add(self, key: bytes, cancel: Callable[[], object]) -> None:
        """Add a request, or replace the function that cancels it."""
        self[key] = cancel

    def remove(self, key: bytes) -> None:
        """Remove a request that is answered. Idempotent."""
        self.pop(key, None)

    def cancel(self, key: bytes) -> None:
        """Cancel a request; an unknown one is answered already."""
        if (cancel := self.get(key)) is not None:
            cancel()

    def cancel_all(self) -> None:
        """Cancel all requests."""
        for cancel in list(self.values()):
            cancel()


class Session(msgspec.Struct):
    """One session of a legacy client.

    Attributes:
        revision: the negotiated protocol revision.
        capabilities: the client's capabilities, as the JSON text that came.
        seen: monotonic time of the last request.
        opened_at: monotonic time when its `initialize` arrived; None after a restart of the manager.
        used: whether anything but `initialize` was ever asked.
        workspace: id of the workspace it is bound to by a handshake.
        cwd: the folder it was bound with.
        in_flight: its requests that are not answered yet.
        shown: hash of the tool list that it got last.
        has_listed: whether it was answered a tool list.
        tools_changed: whether its tools changed since it asked for them last.
        list_due: whether it has to list its tools again because they changed.
        unannounced: whether a list changed while no stream was open for the notification.
        streaming: whether its server stream is open.
        implied_workspace: id of the workspace that its URL or its roots mean, without a handshake.
        source: the kind of claim that decided the workspace of its last request.
        last_workspace: id of that workspace; None if nothing decided.
        sent_cwd: the ambient folder of its last request.
        roots: the client's roots, also if it has none; None until it was asked for them.
        roots_changes: how often it told that its roots changed.
        tells_roots: whether it declares roots, and can be expected to answer when it is asked for them.
        unanswered_roots: how often in a row it did not answer.
        log_level: value of `logging/setLevel`; None until it was set.
        subscriptions: subscribed resources, each with the id of its workspace.
        mode: tool mode headers of its `initialize`, the default for its requests.
        peer: the connection of its last request that was noted.
    """

    id: str
    revision: str
    client_name: str | None
    client_version: str | None
    capabilities: bytes
    seen: float
    opened_at: float | None = None
    used: bool = False
    workspace: str | None = None
    cwd: str | None = None
    in_flight: InFlight = msgspec.field(default_factory=InFlight)
    shown: bytes | None = None
    has_listed: bool = False
    tools_changed: bool = False
    list_due: bool = False
    unannounced: bool = False
    streaming: bool = False
    implied_workspace: str | None = None
    source: str = "none"
    last_workspace: str | None = None
    sent_cwd: str | None = None
    roots: tuple[str, ...] | None = None
    roots_changes: int = 0
    tells_roots: bool = False
    unanswered_roots: int = 0
    log_level: str | None = None
    subscriptions: dict[str, str] = msgspec.field(default_factory=dict)
    mode: tuple[tuple[str, str], ...] = ()
    peer: Peer | None = None

    def is_notified_of(self, workspace: str) -> bool:
        """Whether it gets notifications of a workspace: the bound or the implied one."""
        return workspace in (self.workspace, self.implied_workspace)


class SessionTable:
    """All sessions. The event loop is the lock: no method awaits."""

    def __init__(self, *, limit: int, idle_s: float, unused_s: float) -> None:
        self._limit = limit
        self._idle_s = idle_s
        self._unused_s = unused_s
        self._soonest_s = min(idle_s, unused_s)
        self._by_id: dict[str, Session] = {}
        self._by_client: Counter[str | None] = Counter()
        self._quota = limit - limit // 4

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def is_full(self, client: str | None) -> bool:
        """Whether a client of this name can open no session: a quarter of all is left to the others."""
        return len(self._by_id) >= self._limit or self._by_client[client] >= self._quota

    def add(self, session: Session) -> None:
        """Add a session. The caller has checked `is_full`."""
        self._by_id[session.id] = session
        self._by_client[session.client_name] += 1

    def peek(self, identity: str) -> Session | None:
        """The session with this id, even if expired; does not mark it as seen."""
        return self._by_id.get(identity)

    def get(self, identity: str, now: float, *, uses: bool = True) -> Session | None:
        """The session with this id, marked as seen; None if unknown or expired.

        Args:
            uses: whether the request counts as use; a notification does not.
        """
        session = self._by_id.get(identity)
        if session is None or (now - session.seen >= self._soonest_s and self._has_expired(session, now)):
            return None
        session.seen = now
        if uses:
            session.used = True
        return session

    def active(self, now: float, within_s: float) -> list[Session]:
        """Sessions with an open server stream, or a request in the last `within_s` seconds."""
        return [one for one in self if one.streaming or now - one.seen < within_s]

    def remove(self, identity: str) -> Session | None:
        """Remove a session and return it."""
        session = self._by_id.pop(identity, None)
        if session is not None:
            self._by_client[session.client_name] -= 1
            if not self._by_client[session.client_name]:
                del self._by_client[session.client_name]
        return session

    def make_room(self, client: str | None, now: float) -> list[Session]:
        """Remove and return sessions, so that a client of this name can open one: those that have expired.

        If that is not enough, the older half of those that were never used, else those that rest: of this
        client if it has reached its quota, else of all. A hundredth of the limit at once, so that a flood of
        sessions does not cost a search for each.
        """
        expired = self.sweep(now)
        if not self.is_full(client):
            return expired
        is_over_quota = self._by_client[client] >= self._quota
        among = [session for session in self if session.client_name == client or not is_over_quota]
        spared = _longest_unseen(among, now)[: max(1, self._limit // 100)]
        for session in spared:
            self.remove(session.id)
        return [*expired, *spared]

    def sweep(self, now: float) -> list[Session]:
        """Remove and return expired sessions: idle too long, or never used after `initialize`."""
        expired = [session for session in self._by_id.values() if self._has_expired(session, now)]
        for session in expired:
            self.remove(session.id)
        return expired

    def _has_expired(self, session: Session, now: float) -> bool:
        if session.streaming or session.in_flight:
            return False
        return now - session.seen >= (self._idle_s if session.used else self._unused_s)


def _longest_unseen(sessions: Collection[Session], now: float) -> list[Session]:
    """The sessions that can make room, the first to go first.

    The newer half of the unused ones stays: they may have been opened a moment ago.
    """
    idle = sorted((one for one in sessions if not one.streaming and not one.in_flight), key=_seen)
    unused = [session for session in idle if not session.used]
    resting = [session for session in idle if session.used and now - session.seen >= RECENT_S]
    return unused[: (len(unused) + 1) // 2] + resting


def _seen(session: Session) -> float:
    return session.seen


def workspaces_of(sessions: Collection[Session]) -> set[str]:
    """The bound and implied workspaces of these sessions, of which there may be ten thousand."""
    meant = {one.workspace for one in sessions} | {one.implied_workspace for one in sessions}
    return {one for one in meant if one is not None}


def is_well_formed(identity: str) -> bool:
    """Whether a client's text can be a session id: 1 to 128 visible ASCII characters."""
    return 0 < len(identity) <= MAX_ID and all(0x21 <= ord(character) <= 0x7E for character in identity)
