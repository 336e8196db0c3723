"""Keeps the resource subscriptions of clients at an MCP server, and renews them over new sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from workspace_server import log
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.session import Session
from workspace_server.tool import RpcError

FIRST_S: Final = 5.0
"""How long a first subscription waits for the server's answer, in seconds."""

Listener = Callable[[str], None]
WithSession = Callable[[Callable[[Session], Awaitable[None]]], Awaitable[None]]


class Subscriptions:
    """The listeners of each resource of a source."""

    def __init__(self, source: str, with_session: WithSession) -> None:
        """Nobody listens yet.

        Args:
            source: id of the source, for logs.
            with_session: does something with a session; raises `Unavailable` where there is none.
        """
        self._source = source
        self._with_session = with_session
        self._listeners: dict[str, list[Listener]] = {}
        self._session: Session | None = None
        self._accepted: dict[str, bool] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def add(self, uri: str, listener: Listener) -> Callable[[], None] | None:
        """Call `listener` with the URI when the server says that it changed.

        Returns:
            What ends it, to be called once; None where the server refuses.
        """
        self._listeners.setdefault(uri, []).append(listener)
        try:
            await asyncio.wait([self._start()], timeout=FIRST_S)
        except BaseException:
            self._remove(uri, listener)
            raise
        if self._accepted.get(uri) is False:
            self._remove(uri, listener)
            return None
        return lambda: self._remove(uri, listener)

    def resource_changed(self, uri: str) -> None:
        """Notify the listeners of a changed resource."""
        for listener in tuple(self._listeners.get(uri, ())):
            listener(uri)

    def renew(self) -> None:
        """Subscribe again, because there is a new session."""
        self._session = None
        if self._listeners:
            self._start()

    async def stop(self) -> None:
        """Stop sending subscriptions. Idempotent."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _remove(self, uri: str, listener: Listener) -> None:
        listeners = self._listeners.get(uri, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners and self._listeners.pop(uri, None) is not None:
            self._start()

    def _start(self) -> asyncio.Task[None]:
        if self._task is None:
            self._task = asyncio.create_task(self._sync(), name=f"subscribe-{self._source}")
        return self._task

    async def _sync(self) -> None:
        try:
            await asyncio.sleep(0)  # changes made in the same loop turn are sent together
            while not self._closed and self._is_out_of_sync():
                await self._with_session(self._sync_session)
        except Unavailable:
            return  # a new session will subscribe again
        except Exception as fault:  # noqa: BLE001  a server that breaks this costs only its own news
            log.fault("source_subscriptions_failed", fault, source=self._source)
        finally:
            self._task = None

    def _is_out_of_sync(self) -> bool:
        if self._session is None or self._session.ended is not None:
            self._accepted = {}
            return bool(self._listeners)
        return self._listeners.keys() != self._accepted.keys()

    async def _sync_session(self, session: Session) -> None:
        if session is not self._session:
            self._session, self._accepted = session, {}
        for uri in self._accepted.keys() - self._listeners.keys():
            if self._accepted.pop(uri):
                await session.unsubscribe(uri)
        for uri in [uri for uri in self._listeners if uri not in self._accepted]:
            refused = isinstance(await session.subscribe(uri), RpcError)
            self._accepted[uri] = not refused
