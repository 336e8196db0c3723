"""Keeps legacy sessions: opens, binds, ends and saves them.

Who is who is the pure table `routing/state/session_table.py`; requests come in through
`endpoints/session_requests.py`. What sessions hear is `notifier.py`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

import msgspec

from manager.log import logger, short
from manager.routing.state.session_table import Session, SessionTable, workspaces_of
from manager.sessions.notifier import Notifier
from manager.sessions.pending_requests import PendingRequests
from manager.sessions.streams import Streams
from manager.settings import Settings
from manager.store import SessionRow, Store
from protocol import jsonrpc

FLUSH_S = 30.0
MAX_CLIENT_TEXT = 200
"""Characters of a client's name and version that are kept: ten thousand sessions share our memory."""
MAX_CAPABILITIES = 16 * 1024
"""Bytes of a client's capabilities; more is taken for none."""
MAX_SUBSCRIPTIONS = 256


@dataclass(slots=True)
class _Runtime:
    """What only lives with the process.

    One handshake at a time, one question for roots, whether the tools were listed since, and the questions to
    its client.
    """

    handshake: asyncio.Lock = field(default_factory=asyncio.Lock)
    roots: asyncio.Lock = field(default_factory=asyncio.Lock)
    relisted: asyncio.Event = field(default_factory=asyncio.Event)
    pending_requests: PendingRequests = field(default_factory=PendingRequests)


class SessionManager:
    """The one owner of legacy sessions."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
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
        self.notifier = Notifier(self.sessions, self.streams, now)
        self._settings = settings
        self._store = store
        self._now = now
        self._wall = wall
        self._runtimes: dict[str, _Runtime] = {}
        self._flushed_at = now()

    def restore(self, rows: tuple[SessionRow, ...]) -> None:
        """Know again the sessions of a former manager, none of them expired.

        Only awake time counts, and wall-clock time tells little about it (a clock jump, a machine that was
        off): at most half of a session's time counts as gone. What changed meanwhile, nobody told them.
        """
        for row in rows:
            longest = self._settings.session_idle_s if row.used else self._settings.session_unused_s
            age = min(max(0.0, self._wall() - row.seen), longest / 2)
            session = Session(
                row.id, row.revision, row.client_name, row.client_version, row.capabilities,
                self._now() - age, used=row.used, workspace=row.workspace, cwd=row.cwd,
                unannounced=row.used, log_level=row.log_level,
                subscriptions=_subscriptions(row.subscriptions),
                mode=tuple(parse_qsl(row.mode, keep_blank_values=True)),
            )  # fmt: skip
            self.sessions.add(session)
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
        """A new session, saved before it is given out; None when there are too many.

        Args:
            revision: the negotiated revision.
            client: the client's `clientInfo` as it came, empty if none.
            capabilities: its capabilities as they came.
            identity: an id of the client's own to take up again.
            mode: headers of the tool mode it chose for the session.
        """
        expired = self.sweep() if self.sessions.is_full else []
        if self.sessions.is_full:
            return None
        info = jsonrpc.members_of(client) if client else {}
        session = Session(
            identity or secrets.token_urlsafe(24),
            revision,
            _short_text(info, "name"),
            _short_text(info, "version"),
            capabilities if len(capabilities) <= MAX_CAPABILITIES else b"{}",
            self._now(),
            mode=mode,
        )
        self.sessions.add(session)
        await self._store.drop_sessions([one.id for one in expired])
        await self._store.save_sessions([self._row(session)])
        logger().info("session", opened=short(session.id), client=session.client_name, revision=revision)
        return session

    def get(self, identity: str, *, uses: bool = True) -> Session | None:
        """The live session of an id; see `SessionTable.get`."""
        return self.sessions.get(identity, self._now(), uses=uses)

    async def end(self, session: Session) -> None:
        """End a session at its client's wish: cancel its calls, close its stream, forget it."""
        self.sessions.remove(session.id)
        self._release(session)
        await self._store.drop_sessions([session.id])
        logger().info("session", ended=short(session.id))

    async def bind(self, session: Session, workspace: str, cwd: str) -> None:
        """Note, durably, which workspace the session chose; what it subscribed in another one ends."""
        if session.workspace not in (None, workspace):
            left = {uri: home for uri, home in session.subscriptions.items() if home != session.workspace}
            session.subscriptions = left
        session.workspace, session.cwd = workspace, cwd
        self.notifier.stir()
        await self.save(session)

    async def subscribe(self, session: Session, uri: str, workspace: str) -> bool:
        """Note, durably, that it wants to hear of a resource; False when it wants too many already."""
        if uri not in session.subscriptions and len(session.subscriptions) >= MAX_SUBSCRIPTIONS:
            return False
        session.subscriptions[uri] = workspace
        self.notifier.stir()
        await self.save(session)
        return True

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """Note, durably, that it does not want to hear of a resource any more."""
        if session.subscriptions.pop(uri, None) is not None:
            self.notifier.stir()
            await self.save(session)

    async def save(self, session: Session) -> None:
        """Put down durably what a session is."""
        await self._store.save_sessions([self._row(session)])

    # -- handshakes ---------------------------------------------------------------------------------------

    def notify_lists_changed(self, session: Session) -> bool:
        """Tell the session's open stream that lists changed; False where there is no stream."""
        standing = self.streams.open_server_stream(session)
        if standing is None:
            return False
        standing.announce_lists()
        return True

    def expect_tools_list(self, session: Session) -> None:
        """From now on `relisted` waits for a new listing."""
        self._of(session).relisted.clear()

    async def wait_for_tools_list(self, session: Session, seconds: float) -> None:
        """Wait for a listing of its tools since `expect_tools_list`, at the longest so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._of(session).relisted.wait()
        except TimeoutError:
            return

    def note_tools_list(self, session: Session) -> None:
        """The session was answered a tool list."""
        if session.id in self._runtimes:
            self._runtimes[session.id].relisted.set()

    def pending_requests(self, session: Session) -> PendingRequests:
        """What the session's client is being asked."""
        return self._of(session).pending_requests

    def abandon_pending_requests(self) -> None:
        """The manager stops: calls that wait for their client's answer end now."""
        for runtime in self._runtimes.values():
            runtime.pending_requests.abandon()

    def handshake_lock(self, session: Session) -> asyncio.Lock:
        """One handshake of a session after the other."""
        return self._of(session).handshake

    def roots_lock(self, session: Session) -> asyncio.Lock:
        """A client is asked for its roots once, whatever it asks meanwhile."""
        return self._of(session).roots

    def _of(self, session: Session) -> _Runtime:
        return self._runtimes.setdefault(session.id, _Runtime())

    # -- housekeeping --------------------------------------------------------------------------------------

    def active_workspaces(self, idle_s: float) -> set[str]:
        """Workspaces with a session that has an open stream or asked something recently."""
        return workspaces_of(self.sessions.active(self._now(), idle_s))

    async def housekeep(self) -> None:
        """Drop what has expired, and save now and then when each session was last seen."""
        self.streams.expire()
        expired = self.sweep()
        await self._store.drop_sessions([session.id for session in expired])
        if self._now() - self._flushed_at >= FLUSH_S:
            await self.flush()

    def sweep(self) -> list[Session]:
        """Remove and return the sessions that have expired."""
        expired = self.sessions.sweep(self._now())
        for session in expired:
            self._release(session)
            logger().info("session", expired=short(session.id))
        return expired

    async def flush(self) -> None:
        """Save when each session was last seen, as far as it was since the last time."""
        since, self._flushed_at = self._flushed_at, self._now()
        rows = [self._row(session) for session in self.sessions if session.seen >= since]
        await self._store.save_sessions(rows)

    def _release(self, session: Session) -> None:
        for cancel in list(session.in_flight.values()):
            cancel()
        self.streams.forget(session)
        self._runtimes.pop(session.id, None)
        self.notifier.stir()

    def _row(self, session: Session) -> SessionRow:
        return SessionRow(
            session.id, session.revision, session.client_name, session.client_version, session.capabilities,
            session.workspace, session.cwd, self._wall() - (self._now() - session.seen), session.used,
            urlencode(session.mode), session.log_level,
            jsonrpc.dumps(session.subscriptions) if session.subscriptions else b"",
        )  # fmt: skip


def _short_text(members: Mapping[str, msgspec.Raw], name: str) -> str | None:
    text = jsonrpc.text_of(members[name]) if name in members else None
    return None if text is None else text[:MAX_CLIENT_TEXT]


def _subscriptions(text: bytes) -> dict[str, str]:
    found = {uri: jsonrpc.text_of(home) for uri, home in jsonrpc.members_of(text).items()}
    return {uri: home for uri, home in found.items() if home is not None}
