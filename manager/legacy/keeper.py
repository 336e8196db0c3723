"""Keeps legacy sessions: opens, binds, ends and saves them, and tells their streams of changes.

Who is who is the pure table `routing/sessions.py`; requests come in through `endpoint.py`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

import msgspec

from manager.legacy.streams import Stream, Streams
from manager.log import logger, short
from manager.routing.sessions import Session, Sessions
from manager.settings import Settings
from manager.store import SessionRow, Store
from protocol import jsonrpc

FLUSH_S = 30.0
MAX_CLIENT_TEXT = 200
"""Characters of a client's name and version that are kept: ten thousand sessions share our memory."""
MAX_CAPABILITIES = 16 * 1024
"""Bytes of a client's capabilities; more is taken for none."""


@dataclass(slots=True)
class _Doings:
    """What only lives with the process: one handshake at a time, and whether the tools were listed since."""

    handshake: asyncio.Lock = field(default_factory=asyncio.Lock)
    relisted: asyncio.Event = field(default_factory=asyncio.Event)


class Keeper:
    """The one owner of legacy sessions."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.sessions = Sessions(
            limit=settings.session_limit,
            idle_s=settings.session_idle_s,
            unused_s=settings.session_unused_s,
        )
        self.streams = Streams()
        self._settings = settings
        self._store = store
        self._now = now
        self._wall = wall
        self._doings: dict[str, _Doings] = {}
        self._flushed_at = now()

    def restore(self, rows: tuple[SessionRow, ...]) -> None:
        """Know again the sessions of a former manager, none of them expired.

        Only awake time counts, and wall-clock time tells little about it (a clock jump, a machine that was
        off): at most half of a session's time counts as gone.
        """
        for row in rows:
            longest = self._settings.session_idle_s if row.used else self._settings.session_unused_s
            age = min(max(0.0, self._wall() - row.seen), longest / 2)
            self.sessions.add(
                Session(
                    row.id, row.revision, row.client_name, row.client_version, row.capabilities,
                    self._now() - age, used=row.used, workspace=row.workspace, cwd=row.cwd,
                    mode=tuple(parse_qsl(row.mode, keep_blank_values=True)),
                )
            )  # fmt: skip

    async def open(
        self,
        revision: str,
        client: msgspec.Raw | bytes,
        capabilities: bytes,
        identity: str | None = None,
        mode: tuple[tuple[str, str], ...] = (),
    ) -> Session | None:
        """A new session, saved before it is given out; None when there are too many (M-32).

        Args:
            revision: the negotiated revision.
            client: the client's `clientInfo` as it came, empty if none.
            capabilities: its capabilities as they came.
            identity: an id of the client's own to take up again (M-26).
            mode: headers of the tool mode it chose for the session (T-35).
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
        """The live session of an id; see `Sessions.get`."""
        return self.sessions.get(identity, self._now(), uses=uses)

    async def end(self, session: Session) -> None:
        """End a session at its client's wish: cancel its calls, close its stream, forget it."""
        self.sessions.remove(session.id)
        self._release(session)
        await self._store.drop_sessions([session.id])
        logger().info("session", ended=short(session.id))

    async def bind(self, session: Session, workspace: str, cwd: str) -> None:
        """Note, durably, which workspace the session chose."""
        session.workspace, session.cwd = workspace, cwd
        await self._store.save_sessions([self._row(session)])

    # -- streams ------------------------------------------------------------------------------------------

    def open_stream(self, session: Session, heard: str | None = None) -> Stream | None:
        """The session's standing stream, with the news it missed; None when it has one already.

        Args:
            heard: the workspace that the stream's own address means.
        """
        stream = self.streams.open(session.id)
        if stream is not None:
            session.streaming = True
            session.heard = heard
            if session.unannounced:
                session.unannounced = False
                stream.announce_lists()
        return stream

    def close_stream(self, session: Session) -> None:
        """Its connection has ended."""
        self.streams.forget(session.id)
        session.streaming = False
        session.heard = None
        session.seen = self._now()

    async def announce(self, session: Session) -> bool:
        """Tell the session's open stream that lists changed; False where there is no stream."""
        stream = self.streams.get(session.id)
        if stream is None:
            return False
        stream.announce_lists()
        return True

    def listening(self) -> set[str]:
        """The workspaces whose changes somebody with an open stream wants to hear of."""
        return {
            workspace
            for session in self.sessions
            if session.streaming
            for workspace in (session.workspace, session.heard)
            if workspace is not None
        }

    def announce_in(self, workspace: str, methods: Iterable[str]) -> None:
        """Tell the open streams of a workspace's sessions that lists of it changed."""
        for session in self.sessions:
            stream = self.streams.get(session.id)
            if stream is not None and workspace in (session.workspace, session.heard):
                stream.announce_lists(methods)

    def announce_missed(self, serving: Collection[str]) -> None:
        """Tell streams of lists that were incomplete while their workspace was in trouble (M-183)."""
        for session in self.sessions:
            stream = self.streams.get(session.id)
            if session.unannounced and stream is not None and session.workspace in serving:
                session.unannounced = False
                stream.announce_lists()

    def expect_listing(self, session: Session) -> None:
        """From now on `relisted` waits for a new listing."""
        self._of(session).relisted.clear()

    async def relisted(self, session: Session, seconds: float) -> None:
        """Wait for a listing of its tools since `expect_listing`, at the longest so many seconds (M-47)."""
        try:
            async with asyncio.timeout(seconds):
                await self._of(session).relisted.wait()
        except TimeoutError:
            return

    def note_listed(self, session: Session) -> None:
        """The session was answered a tool list."""
        if session.id in self._doings:
            self._doings[session.id].relisted.set()

    def handshake_lock(self, session: Session) -> asyncio.Lock:
        """One handshake of a session after the other (M-45)."""
        return self._of(session).handshake

    def _of(self, session: Session) -> _Doings:
        return self._doings.setdefault(session.id, _Doings())

    # -- housekeeping --------------------------------------------------------------------------------------

    def active_workspaces(self, idle_s: float) -> set[str]:
        """Workspaces with a session that has an open stream or asked something recently (M-164)."""
        now = self._now()
        return {
            session.workspace
            for session in self.sessions
            if session.workspace is not None and (session.streaming or now - session.seen < idle_s)
        }

    async def housekeep(self) -> None:
        """Drop what has expired, and save now and then when each session was last seen."""
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
        stream = self.streams.get(session.id)
        if stream is not None:
            stream.close()
        self._doings.pop(session.id, None)

    def _row(self, session: Session) -> SessionRow:
        return SessionRow(
            session.id, session.revision, session.client_name, session.client_version, session.capabilities,
            session.workspace, session.cwd, self._wall() - (self._now() - session.seen), session.used,
            urlencode(session.mode),
        )  # fmt: skip


def _short_text(members: Mapping[str, msgspec.Raw], name: str) -> str | None:
    text = jsonrpc.text_of(members[name]) if name in members else None
    return None if text is None else text[:MAX_CLIENT_TEXT]
