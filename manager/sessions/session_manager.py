"""Owns the sessions of clients: opens, restores, binds, saves and ends them.

`routing/state/session_table.py` is the pure table of sessions, `endpoints/session_requests.py` handles their
requests, `notifier.py` sends their notifications.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.input_requests import declares_roots
from manager.configuration.settings import Settings
from manager.log import logger, short
from manager.routing.client_profiles import ClientProfiles
from manager.routing.state.session_table import Session, SessionTable, workspaces_of
from manager.sessions.notifier import Notifier
from manager.sessions.pending_requests import PendingRequests
from manager.sessions.streams import Streams
from manager.state_file import SessionRow, Store

FLUSH_S = 30.0
"""Seconds between saves of when sessions were last seen. A session lives for hours, so that a crash which
loses 30 s ends none too early, and ten thousand sessions are written no more often."""
MAX_CLIENT_TEXT = 200
"""Characters kept of a client's name and of its version: there may be ten thousand sessions."""
MAX_CAPABILITIES = 16 * 1024
"""Bytes of a client's capabilities; larger ones count as none."""
MAX_SUBSCRIPTIONS = 256
"""Resources that a session may subscribe to. They are in each listen stream of the workspace and in the file
of sessions."""
LOGGED_ONE_BY_ONE: Final = 20
"""If more sessions than these expire at once, one line counts them."""


class _Runtime(msgspec.Struct):
    """State of a session that is not saved.

    Attributes:
        handshake: held by the session's one handshake at a time.
        roots: held while the client is asked for its roots.
        relisted: set when a tool list was answered since the last handshake.
        pending_requests: the requests to the client that wait for its response.
    """

    handshake: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    roots: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    relisted: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    pending_requests: PendingRequests = msgspec.field(default_factory=PendingRequests)


class SessionManager:
    """All sessions, with their streams, notifications and saved state."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        profiles: ClientProfiles | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.sessions = SessionTable(
            limit=settings.session_limit,
            idle_s=settings.session_idle_s,
            unused_s=settings.session_unused_s,
        )
        self.streams = Streams(now)
        self.notifier = Notifier(self.sessions, self.streams, now, profiles)
        self._settings = settings
        self._store = store
        self._now = now
        self._wall = wall
        self._runtimes: dict[str, _Runtime] = {}
        self._flushed_at = now()

    def restore(self, rows: tuple[SessionRow, ...]) -> None:
        """Restore the sessions that an earlier manager saved; none of them is expired.

        The wall clock may have jumped and the machine may have been off, so at most half of a session's
        lifetime counts as elapsed. Sessions are told that anything may have changed meanwhile: on their next
        stream, and in front of their next answer, because not every client opens a stream again. That goes
        for unused ones, too: a manager that was killed may not have saved the use.
        """
        for row in rows:
            longest = self._settings.session_idle_s if row.used else self._settings.session_unused_s
            age = min(max(0.0, self._wall() - row.seen), longest / 2)
            session = Session(
                row.id, row.revision, row.client_name, row.client_version, row.capabilities,
                self._now() - age, used=row.used, workspace=row.workspace, cwd=row.cwd,
                unannounced=True, log_level=row.log_level,
                subscriptions=_subscriptions(row.subscriptions),
                mode=tuple(parse_qsl(row.mode, keep_blank_values=True)),
                source=row.source, last_workspace=row.last_workspace,
                tells_roots=declares_roots(row.capabilities),
            )  # fmt: skip
            self.sessions.add(session)
            self.notifier.note_missed_changes(session)
            if session.subscriptions:
                self.notifier.notify_all_changed(session)

    async def open(
        self,
        revision: str,
        client: msgspec.Raw | bytes,
        capabilities: bytes,
        identity: str | None = None,
        mode: tuple[tuple[str, str], ...] = (),
    ) -> Session | None:
        """Open a session and save it before it is returned; None if there are too many.

        Args:
            revision: the negotiated revision.
            client: the client's `clientInfo` as JSON text, empty if none.
            capabilities: the client's capabilities as JSON text.
            identity: the id of a lost session that the client still uses; by default a new id.
            mode: headers of the tool mode that the client chose for the session.
        """
        info = jsonrpc.members_of(client) if client else {}
        name, expired = _short_text(info, "name"), []
        if self.sessions.is_full(name):
            expired = self._drop(self.sessions.make_room(name, self._now()))
            if self.sessions.is_full(name):
                await self._store.drop_sessions([session.id for session in expired])
                return None
        if len(capabilities) > MAX_CAPABILITIES:
            capabilities = b"{}"
        session = Session(
            identity or secrets.token_urlsafe(24),
            revision,
            name,
            _short_text(info, "version"),
            capabilities,
            self._now(),
            mode=mode,
            tells_roots=declares_roots(capabilities),
        )
        self.sessions.add(session)
        await self._store.drop_sessions([one.id for one in expired])
        await self._store.save_sessions([self._row(session)])
        logger().info("session", opened=short(session.id), client=session.client_name, revision=revision)
        return session

    def get(self, identity: str, *, uses: bool = True) -> Session | None:
        """The session of an id if it has not expired; see `SessionTable.get`."""
        return self.sessions.get(identity, self._now(), uses=uses)

    async def end(self, session: Session) -> None:
        """End a session that its client deleted: cancel its calls, close its streams, drop its row."""
        self.sessions.remove(session.id)
        self._release(session)
        await self._store.drop_sessions([session.id])
        logger().info("session", ended=short(session.id))

    async def bind(self, session: Session, workspace: str, cwd: str) -> None:
        """Bind the session to a workspace and save that; subscriptions in the former workspace end."""
        if session.workspace not in (None, workspace):
            kept = {uri: home for uri, home in session.subscriptions.items() if home != session.workspace}
            session.subscriptions = kept
        session.workspace, session.cwd = workspace, cwd
        self.notifier.interest_changed()
        await self.save(session)

    async def subscribe(self, session: Session, uri: str, workspace: str) -> bool:
        """Subscribe to a resource and save that; False if the session has too many subscriptions."""
        if uri not in session.subscriptions and len(session.subscriptions) >= MAX_SUBSCRIPTIONS:
            return False
        session.subscriptions[uri] = workspace
        self.notifier.interest_changed()
        await self.save(session)
        return True

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """Unsubscribe from a resource and save that."""
        if session.subscriptions.pop(uri, None) is not None:
            self.notifier.interest_changed()
            await self.save(session)

    async def save(self, session: Session) -> None:
        """Save a session."""
        await self._store.save_sessions([self._row(session)])

    # -- handshakes ---------------------------------------------------------------------------------------

    def notify_lists_changed(self, session: Session) -> bool:
        """Notify the session on its server stream that all lists changed; False if none is open."""
        server_stream = self.streams.open_server_stream(session)
        if server_stream is None:
            return False
        server_stream.notify_lists_changed()
        return True

    def expect_tools_list(self, session: Session) -> None:
        """Make `wait_for_tools_list` wait for the next tool list."""
        self._of(session).relisted.clear()

    async def wait_for_tools_list(self, session: Session, seconds: float) -> None:
        """Wait until the session was answered a tool list since `expect_tools_list`, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._of(session).relisted.wait()
        except TimeoutError:
            return

    def note_tools_list(self, session: Session) -> None:
        """Note that the session was answered a tool list, which may have changed on its way."""
        if not session.has_listed:
            self.notifier.interest_changed()  # from now on, it has to hear of changes
        session.has_listed = True
        session.list_due = session.tools_changed and self.notifier.hears_of_changes(session)
        session.tools_changed = False
        if session.id in self._runtimes:
            self._runtimes[session.id].relisted.set()

    def pending_requests(self, session: Session) -> PendingRequests:
        """The requests to the session's client that wait for its response."""
        return self._of(session).pending_requests

    def abandon_pending_requests(self) -> None:
        """End all calls that wait for a response of their client, because the manager stops."""
        for runtime in self._runtimes.values():
            runtime.pending_requests.abandon()

    def handshake_lock(self, session: Session) -> asyncio.Lock:
        """The lock that serialises handshakes of a session."""
        return self._of(session).handshake

    def roots_lock(self, session: Session) -> asyncio.Lock:
        """The lock that lets one request at a time ask the client for its roots."""
        return self._of(session).roots

    def _of(self, session: Session) -> _Runtime:
        return self._runtimes.setdefault(session.id, _Runtime())

    # -- housekeeping --------------------------------------------------------------------------------------

    def active_workspaces(self, idle_s: float) -> set[str]:
        """Ids of the workspaces of sessions with an open stream or a request in the last `idle_s` seconds."""
        return workspaces_of(self.sessions.active(self._now(), idle_s))

    async def housekeep(self) -> None:
        """Drop expired sessions and events; every 30 s, save when each session was last seen."""
        self.streams.expire()
        expired = self.sweep()
        await self._store.drop_sessions([session.id for session in expired])
        if self._now() - self._flushed_at >= FLUSH_S:
            await self.flush()

    def sweep(self) -> list[Session]:
        """Remove and return the sessions that have expired."""
        return self._drop(self.sessions.sweep(self._now()))

    def _drop(self, expired: list[Session]) -> list[Session]:
        for session in expired:
            self._release(session)
            if len(expired) <= LOGGED_ONE_BY_ONE:
                logger().info("session", expired=short(session.id))
        if len(expired) > LOGGED_ONE_BY_ONE:
            logger().info("session", expired=f"{len(expired)} sessions")
        return expired

    async def flush(self) -> None:
        """Save the sessions seen since the last flush."""
        since, self._flushed_at = self._flushed_at, self._now()
        rows = [self._row(session) for session in self.sessions if session.seen >= since]
        await self._store.save_sessions(rows)

    def _release(self, session: Session) -> None:
        session.in_flight.cancel_all()
        self.streams.forget(session)
        self._runtimes.pop(session.id, None)
        self.notifier.interest_changed()

    def _row(self, session: Session) -> SessionRow:
        return SessionRow(
            session.id, session.revision, session.client_name, session.client_version, session.capabilities,
            session.workspace, session.cwd, self._wall() - (self._now() - session.seen), session.used,
            urlencode(session.mode), session.log_level,
            jsonrpc.dumps(session.subscriptions) if session.subscriptions else b"",
            session.source, session.last_workspace,
        )  # fmt: skip


def _short_text(members: Mapping[str, msgspec.Raw], name: str) -> str | None:
    text = jsonrpc.text_of(members[name]) if name in members else None
    return None if text is None else text[:MAX_CLIENT_TEXT]


def _subscriptions(text: bytes) -> dict[str, str]:
    found = {uri: jsonrpc.text_of(home) for uri, home in jsonrpc.members_of(text).items()}
    return {uri: home for uri, home in found.items() if home is not None}
