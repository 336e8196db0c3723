"""Asks a session client for its roots when nothing else tells its workspace.

The client is asked once, on the stream of the first request whose answer depends on the workspace. That can
be a list, so that the client sees the tools without a handshake. The session keeps the roots until the client
reports a change. `answers/roots.py` asks stateless clients; `answers/workspace_lookup.py` decides
which workspace the roots mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import structs

from manager.answers.exchange import Exchange, Plain, Reply
from manager.answers.roots import declares_roots, roots_in
from manager.routing.state.session_table import Session
from manager.routing.workspace.resolution import WorkspaceSource
from manager.sessions.pending_requests import PendingRequest
from manager.sessions.session_manager import SessionManager
from protocol import headers, jsonrpc, names


class SessionRoots:
    """Asks session clients for roots and waits at most `timeout_s` for the answer, which needs no person."""

    def __init__(self, session_manager: SessionManager, timeout_s: float) -> None:
        self._session_manager = session_manager
        self._timeout_s = timeout_s

    def should_ask(self, exchange: Exchange, session: Session, reply: Reply) -> bool:
        """Whether this reply lacks a workspace and the client can be asked for its roots, and was not yet."""
        lacks = isinstance(reply, Plain) and reply.lacks_workspace
        unasked = exchange.claims.roots is None and declares_roots(session.capabilities)
        return lacks and unasked and exchange.accepts_events

    async def ask(self, exchange: Exchange, session: Session) -> AsyncGenerator[bytes]:
        """Yield the messages that ask for roots, then add the roots to the request's claims.

        Requests that arrive while another one asks wait for its answer.
        """
        exchange.headers[headers.WORKSPACE_SOURCE] = WorkspaceSource.ROOTS.value
        async with self._session_manager.roots_lock(session):
            if session.roots is None:
                async with aclosing(self._ask_client(session)) as messages:
                    async for message in messages:
                        yield message
        exchange.replace_claims(structs.replace(exchange.claims, roots=session.roots or ()))

    def forget(self, session: Session) -> None:
        """Drop the session's roots, which changed; if they decided its workspace, its lists changed, too."""
        session.roots = None
        if session.source == WorkspaceSource.ROOTS.value and not self._session_manager.notify_lists_changed(
            session
        ):
            session.unannounced = True

    async def _ask_client(self, session: Session) -> AsyncGenerator[bytes]:
        pending = self._session_manager.pending_requests(session)
        request = pending.create(names.ROOTS_LIST)
        cancelled: bytes | None = None
        try:
            yield request.message
            session.roots = await self._answer(request)
        finally:
            cancelled = pending.cancel(request)
        if cancelled is not None:
            yield cancelled

    async def _answer(self, request: PendingRequest) -> tuple[str, ...]:
        await asyncio.wait({request.answer}, timeout=self._timeout_s)
        response = request.answer.result() if request.answer.done() else None
        members = jsonrpc.members_of(response.body) if response is not None else {}
        return roots_in(members["result"]) if "result" in members else ()
