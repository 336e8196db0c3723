"""The MCP routes: `/mcp` and `/w/{workspace_id}/mcp`, POST, GET and DELETE.

Read, classify, hand to the era's endpoint, write. A request's whole way can be followed from `post`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

from aiohttp import web

from manager.answers.dispatch import Dispatch, unknown_workspace
from manager.answers.exchange import Exchange, Located
from manager.answers.locate import locate
from manager.answers.sighting import sighting
from manager.legacy.endpoint import UNKNOWN, LegacyEndpoint, NoSession
from manager.routing.clients import Clients
from manager.routing.door import DoorRefusal
from manager.routing.json_scan import check_json
from manager.routing.sessions import Session
from manager.settings import Settings
from manager.web import get_stream
from manager.web.arrival import accepts, claims_of, exchange_of
from manager.web.door import read_body, refusal_response
from manager.web.modern import ModernEndpoint
from manager.web.writer import JSON, Writer
from protocol import headers, jsonrpc, names
from protocol.errors import Reason, Refusal
from protocol.inbound import Inbound, Rejection, classify
from protocol.jsonrpc import Request
from protocol.versions import LEGACY_REVISIONS, Era

_STOPPING: Final = Refusal(
    Reason.OVERLOADED, "the manager is stopping", "retry in a moment", delivered="no", retry_after_ms=1000
)
_NO_STREAM: Final = b'{"error":"Method Not Allowed"}'

OwnTask = Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[Any]]
"""Runs something in a named task that somebody owns and ends."""


class McpRoutes:
    """The handlers of the MCP routes."""

    def __init__(
        self,
        dispatch: Dispatch,
        legacy: LegacyEndpoint,
        modern: ModernEndpoint,
        settings: Settings,
        *,
        own_task: OwnTask,
        clients: Clients,
    ) -> None:
        self._dispatch = dispatch
        self._legacy = legacy
        self._modern = modern
        self._limit = settings.response_limit
        self._own_task = own_task
        self._clients = clients
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_draining = False

    async def settled(self, seconds: float) -> bool:
        """Wait until no request is being answered, at most so many seconds; whether it came to that."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    # -- POST ---------------------------------------------------------------------------------------------

    async def post(self, request: web.Request) -> web.StreamResponse:
        """One message from a client."""
        with self._counted():
            return await self._post(request)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Something that a stop waits for."""
        self._busy += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if self._busy == 0:
                self._idle.set()

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        if isinstance(body, DoorRefusal):
            return refusal_response(request, body)
        problem = check_json(body)
        inbound = (
            Rejection(400, jsonrpc.PARSE_ERROR, str(problem))
            if problem is not None
            else classify(request.headers, body)
        )
        if isinstance(inbound, Rejection):
            return _json(inbound.body(), inbound.status)
        if self.is_draining and isinstance(inbound.message, Request):
            return _json(_STOPPING.as_error(inbound.message.id), 503, {"Retry-After": "1"})
        path = request.match_info.get("workspace_id")
        if path is not None and self._dispatch.workspaces.get(path) is None:
            known = [workspace.id for workspace in self._dispatch.workspaces]
            return _json(unknown_workspace(path, known).as_error(_id_of(inbound)), 404)
        if inbound.era is Era.MODERN:
            return await self._modern_post(request, inbound, path)
        return await self._legacy_post(request, inbound, path)

    async def _modern_post(
        self, request: web.Request, inbound: Inbound, path: str | None
    ) -> web.StreamResponse:
        if not isinstance(inbound.message, Request):
            return web.Response(status=202)
        exchange = exchange_of(request, inbound, inbound.message, path, None)
        writer = Writer(request, exchange, self._limit)
        with self._seen(exchange):
            return await writer.answer(self._modern.answer(exchange))

    async def _legacy_post(
        self, request: web.Request, inbound: Inbound, path: str | None
    ) -> web.StreamResponse:
        message = inbound.message
        identity = request.headers.get(headers.SESSION)
        if not isinstance(message, Request):
            known = self._legacy.session(identity, uses=False)
            if isinstance(known, Session):
                self._legacy.heard(known, message)
            return web.Response(status=202)
        if message.method == names.INITIALIZE:
            exchange = exchange_of(request, inbound, message, path, None)
            writer = Writer(request, exchange, self._limit, self._legacy.keeper.streams)
            return await writer.answer(self._legacy.initialize(exchange))
        session = await self._legacy.session_for(inbound, identity)
        if isinstance(session, NoSession):
            return _json(session.body(message.id), session.status)
        if isinstance(session, Refusal):
            return _json(session.as_error(message.id), 503, {"Retry-After": "60"})
        exchange = exchange_of(request, inbound, message, path, session)
        exchange.headers[headers.SESSION] = session.id
        with self._seen(exchange):
            return await self._legacy_request(request, exchange, session)

    @contextlib.contextmanager
    def _seen(self, exchange: Exchange) -> Iterator[None]:
        """A request that is remembered, with what the client was asked for meanwhile."""
        client, seen = sighting(exchange, asyncio.get_running_loop().time())
        self._clients.note(client, seen)
        try:
            yield
        finally:
            seen.claims = exchange.claims

    async def _legacy_request(
        self, request: web.Request, exchange: Exchange, session: Session
    ) -> web.StreamResponse:
        """Answer in a task of its own: a disconnect does not end it, a cancellation does (L15, M-99)."""
        key = jsonrpc.id_key(exchange.message.id)
        if key in session.in_flight:
            text = "this id is still being answered in this session; use a new one"
            return _json(jsonrpc.error(exchange.message.id, jsonrpc.INVALID_REQUEST, text), 400)
        writer = Writer(request, exchange, self._limit, self._legacy.keeper.streams)
        task: asyncio.Task[web.StreamResponse] = self._own_task(
            self._serve(exchange, session, writer), "request"
        )
        session.in_flight[key] = task.cancel
        task.add_done_callback(lambda _: session.in_flight.pop(key, None))
        await asyncio.wait({task})
        return await writer.end() if task.cancelled() else task.result()

    async def _serve(self, exchange: Exchange, session: Session, writer: Writer) -> web.StreamResponse:
        with self._counted():  # here too: the client may have left, and its call still goes on
            return await writer.answer(self._legacy.answer(exchange, session))

    # -- GET and DELETE -----------------------------------------------------------------------------------

    async def get(self, request: web.Request) -> web.StreamResponse:
        """A stream of a legacy session (M-5, M-29)."""
        identity = request.headers.get(headers.SESSION)
        version = request.headers.get(headers.VERSION)
        if identity is None or (version is not None and version not in LEGACY_REVISIONS):
            return _json(_NO_STREAM, 405, {"Allow": "POST"})
        session = self._legacy.session(identity)
        if isinstance(session, NoSession):
            return _json(session.body(None), session.status)
        if not accepts(request)[1]:
            return _json(b'{"error":"Not Acceptable: accept text/event-stream"}', 406)
        path = request.match_info.get("workspace_id")
        claims = claims_of(request, path, session)
        located = await locate(self._dispatch.workspaces, claims)
        heard = located.workspace.id if isinstance(located, Located) else None
        # asked last: nobody would end a stream that is opened behind the end of its session or of all streams
        if self._legacy.session(identity) is not session:
            return _json(UNKNOWN.body(None), UNKNOWN.status)
        if self.is_draining:
            return _json(
                b'{"error":"the manager is stopping; connect again in a moment"}', 503, {"Retry-After": "1"}
            )
        return await get_stream.serve(request, self._legacy.keeper, session, heard)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """The end of a legacy session (M-31)."""
        version = request.headers.get(headers.VERSION)
        if version is not None and version not in LEGACY_REVISIONS:
            return _json(_NO_STREAM, 405, {"Allow": "POST"})
        session = self._legacy.session(request.headers.get(headers.SESSION))
        if isinstance(session, NoSession):
            return _json(session.body(None), session.status)
        await self._legacy.keeper.end(session)
        return _json(jsonrpc.dumps({"ok": True, "deleted": True, "sessionId": session.id}), 200)


def _id_of(inbound: Inbound) -> bytes | None:
    return inbound.message.id if isinstance(inbound.message, Request) else None


def _json(body: bytes, status: int, extra: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, content_type=JSON, headers=extra)
