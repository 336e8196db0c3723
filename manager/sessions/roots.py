"""Asks a client with a session for the folders it works in, when nothing else names its workspace.

It is asked once, with a request on the stream of the first answer that would be another one if the workspace
were known: a call, and lists, too, whose client then sees the tools of its workspace without a handshake. The
session keeps them until the client says that they changed. How clients without a session are asked is
`answers/roots.py`; which workspace the roots mean is decided in `answers/workspace_lookup.py`.
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
    """Asks the clients of sessions. `patience_s` is how long an answer is waited for: no person gives it."""

    def __init__(self, session_manager: SessionManager, patience_s: float) -> None:
        self._session_manager = session_manager
        self._patience_s = patience_s

    def may_help(self, exchange: Exchange, session: Session, reply: Reply) -> bool:
        """Whether this reply lacks a workspace, and the client can be asked for its roots, and was not."""
        lacks = isinstance(reply, Plain) and reply.lacks_workspace
        unasked = exchange.claims.roots is None and declares_roots(session.capabilities)
        return lacks and unasked and exchange.accepts_events

    async def ask(self, exchange: Exchange, session: Session) -> AsyncGenerator[bytes]:
        """The messages of the question; after the last one the exchange claims what the session's roots are.

        Requests that come while another one asks wait for its answer.
        """
        exchange.headers[headers.WORKSPACE_SOURCE] = WorkspaceSource.ROOTS.value
        async with self._session_manager.roots_lock(session):
            if session.roots is None:
                async with aclosing(self._question(session)) as messages:
                    async for message in messages:
                        yield message
        exchange.tells(structs.replace(exchange.claims, roots=session.roots or ()))

    def forget(self, session: Session) -> None:
        """They changed: the client is asked again when it matters, and lists again where they counted."""
        session.roots = None
        if session.source == WorkspaceSource.ROOTS.value and not self._session_manager.notify_lists_changed(
            session
        ):
            session.unannounced = True

    async def _question(self, session: Session) -> AsyncGenerator[bytes]:
        questions = self._session_manager.pending_requests(session)
        question = questions.put(names.ROOTS_LIST)
        taken_back: bytes | None = None
        try:
            yield question.message
            session.roots = await self._answer(question)
        finally:
            taken_back = questions.withdraw(question)
        if taken_back is not None:
            yield taken_back

    async def _answer(self, question: PendingRequest) -> tuple[str, ...]:
        await asyncio.wait({question.answer}, timeout=self._patience_s)
        response = question.answer.result() if question.answer.done() else None
        members = jsonrpc.members_of(response.body) if response is not None else {}
        return roots_in(members["result"]) if "result" in members else ()
