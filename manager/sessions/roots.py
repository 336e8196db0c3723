"""Asks a session client for its roots, unless its request names the workspace.

The client is asked once, on the stream of the first request whose answer depends on the workspace. That can
be a list, so that the client sees the tools without a handshake. The session keeps the roots until the client
reports a change; a client that is known to change them silently is asked with each tool call.
`answers/roots.py` asks stateless clients; `answers/workspace_lookup.py` decides which workspace they mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from msgspec import structs

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.input_requests import roots_in
from manager.answers.exchange import Exchange
from manager.routing.resolution import WorkspaceSource
from manager.routing.state.session_table import Session
from manager.sessions.pending_requests import PendingRequest
from manager.sessions.session_manager import SessionManager

MAX_UNANSWERED: Final = 3
"""So often in a row a client may not answer: one may be busy with its start, another never answers, and each
question costs `roots_wait_s`."""


class SessionRoots:
    """Asks session clients for roots and waits at most `timeout_s` for the answer, which needs no person."""

    def __init__(self, session_manager: SessionManager, timeout_s: float) -> None:
        self._session_manager = session_manager
        self._timeout_s = timeout_s

    async def ask(self, exchange: Exchange, session: Session) -> AsyncGenerator[bytes]:
        """Yield the messages that ask for roots, then add the roots to the request's claims.

        Requests that arrive while another one asks wait for its answer.
        """
        exchange.headers[headers.WORKSPACE_SOURCE] = WorkspaceSource.ROOTS.value
        before = session.roots
        async with self._session_manager.roots_lock(session):
            changes = session.roots_changes
            if session.tells_roots and (session.roots is None or session.roots is before):
                async with aclosing(self._ask_client(session)) as messages:
                    async for message in messages:
                        yield message
            roots = session.roots or ()
            if session.roots_changes != changes:  # the answer may be older than the change: it is not kept
                session.roots, session.tells_roots = None, True
        exchange.replace_claims(structs.replace(exchange.claims, roots=roots))

    def forget(self, session: Session) -> None:
        """Drop the session's roots, which changed; unless a handshake counts, its lists changed, too."""
        session.roots, session.tells_roots, session.unanswered_roots = None, True, 0
        session.roots_changes += 1
        if session.workspace is None and not self._session_manager.notify_lists_changed(session):
            session.unannounced = True

    async def _ask_client(self, session: Session) -> AsyncGenerator[bytes]:
        pending = self._session_manager.pending_requests(session)
        request = pending.create(names.ROOTS_LIST)
        cancelled: bytes | None = None
        try:
            yield request.message
            answered = await self._answer(request)
            if answered is None:
                session.unanswered_roots += 1
                session.tells_roots = session.unanswered_roots < MAX_UNANSWERED
            else:
                session.roots, session.unanswered_roots = answered, 0
        finally:
            cancelled = pending.cancel(request)
        if cancelled is not None:
            yield cancelled

    async def _answer(self, request: PendingRequest) -> tuple[str, ...] | None:
        """The client's roots, empty if it refuses to tell them; None if it does not answer."""
        await asyncio.wait({request.answer}, timeout=self._timeout_s)
        response = request.answer.result() if request.answer.done() else None
        if response is None:
            return None
        members = jsonrpc.members_of(response.body)
        return roots_in(members["result"]) if "result" in members else ()
