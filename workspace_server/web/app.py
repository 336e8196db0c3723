"""The HTTP face of a workspace server: three routes behind one door.

`POST /mcp` speaks revision 2026-07-28 only and keeps nothing between requests; health and lifeline are for
the manager.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Final

from aiohttp import web

from protocol import headers, inbound, jsonrpc, names
from protocol.errors import Reason, Refusal
from protocol.inbound import Inbound, Rejection
from protocol.jsonrpc import Notification, Request, Response
from protocol.launch import Launch
from protocol.versions import MODERN_REVISIONS, Era
from workspace_server.calls.asked import Asked
from workspace_server.calls.dispatch import Calls
from workspace_server.life import Life
from workspace_server.web import door, listen
from workspace_server.web.inspection import inspection
from workspace_server.web.methods import Answer, Methods
from workspace_server.web.pages import PAGE_SIZE
from workspace_server.web.stream import Stream

KEEP_ALIVE_S: Final = 15.0
IDLE_CONNECTION_S: Final = 3600.0
"""The manager keeps its connections; closing one under its hands would lose a call."""
_SINGLE: Final = frozenset({headers.VERSION.lower(), headers.METHOD.lower(), headers.NAME.lower()})


class Server:
    """The handlers of one workspace server, and what they share."""

    def __init__(
        self,
        launch: Launch,
        version: str,
        calls: Calls,
        life: Life,
        keep_alive_s: float,
    ) -> None:
        self._launch = launch
        self._version = version
        self._toolset = calls.toolset
        self._tasks = calls.tasks
        self._conversations = calls.conversations
        self._life = life
        self._keep_alive_s = keep_alive_s
        self._methods = Methods(calls, version, int(launch.settings.get("page_size", PAGE_SIZE)))

    async def health(self, request: web.Request) -> web.Response:
        """Who this is and how its sources are; asks nobody, so it always answers at once (T-1, T-21)."""
        state = {
            "ok": not self._life.stopping,
            "nonce": self._launch.nonce,
            "workspace": self._launch.workspace,
            "root": self._launch.root,
            "pid": os.getpid(),
            "version": self._version,
            "tasks": self._tasks.running + self._conversations.waiting,
            "sources": self._toolset.sources(),
            "issues": [issue.as_json() for issue in self._toolset.issues()],
        }
        return _json(state)

    async def lifeline(self, request: web.Request) -> web.StreamResponse:
        """Held open by the manager for as long as it lives; ends when this server stops."""
        stream = Stream(request)
        with self._life.held():
            await stream.keep_alive()
            self._toolset.touch()  # so that health can count tools before anybody has listed them
            await listen.until(self._life, stream, self._keep_alive_s)
        return await stream.close()

    async def inspect(self, request: web.Request) -> web.Response:
        """All tools, the hidden ones with the reason."""
        return _json(inspection(self._toolset, await self._toolset.current()))

    async def refresh(self, request: web.Request) -> web.Response:
        """Ask one source, or all, to look again (T-3, T-89)."""
        identity = request.query.get("source")
        return _json({"ok": await self._toolset.refresh(identity)})

    async def mcp(self, request: web.Request) -> web.StreamResponse:
        """One MCP message."""
        message = _classify(request, await request.read())
        stream = Stream(request)
        if isinstance(message, Rejection):
            return await stream.finish(message.status, message.body())
        if not isinstance(message.message, Request):
            await self._heard(message.message)
            return web.Response(status=202)
        if self._life.stopping:
            answer = self._stopping(message.message)
            return await stream.finish(answer.status, answer.body)
        asked = Asked(message.message, message, request.headers, request.query, stream.notify)
        if message.message.method == names.LISTEN:
            told = self._toolset, self._methods.tasks
            return await listen.serve(asked, stream, *told, self._life, self._keep_alive_s)
        answer = await self._answer(asked)
        return await stream.finish(answer.status, answer.body)

    async def _heard(self, message: Notification | Response) -> None:
        """A call that waits for its client has no connection to be closed; what names it is its state."""
        if isinstance(message, Notification) and message.method == names.CANCELLED:
            state = jsonrpc.members_of(message.params).get("requestState", b"")
            await self._conversations.let_go(jsonrpc.text_of(state) or "")

    async def _answer(self, asked: Asked) -> Answer:
        try:
            async with self._life.call():
                return await self._methods.answer(asked)
        except TimeoutError:
            text = "this workspace server stopped before the call was done"
            refusal = Refusal(Reason.WORKSPACE_SERVER_DIED, text, delivered="unknown")
            return Answer(503, refusal.as_error(asked.request.id))

    def _stopping(self, request: Request) -> Answer:
        text = "this workspace server is stopping"
        refusal = Refusal(Reason.WORKSPACE_SERVER_OFFLINE, text, delivered="no", retry_after_ms=1000)
        return Answer(503, refusal.as_error(request.id))


def _json(value: Any) -> web.Response:
    return web.Response(body=jsonrpc.dumps(value), content_type="application/json")


def _classify(request: web.Request, body: bytes) -> Inbound | Rejection:
    """The message in a body, which must be modern and not contradict its headers."""
    message = inbound.classify(request.headers, body)
    if isinstance(message, Rejection):
        return message
    identity = None if isinstance(message.message, Notification) else message.message.id
    counts = Counter(name.lower() for name, _ in request.headers.items())  # keys() names each only once
    for name, count in counts.items():
        if count > 1 and (name in _SINGLE or name.startswith(headers.PARAM_PREFIX)):
            return Rejection(400, inbound.HEADER_MISMATCH, f"header {name} is sent {count} times", identity)
    if message.era is Era.LEGACY or isinstance(message.message, Response):
        data = {"supported": list(MODERN_REVISIONS), "requested": message.revision}
        text = f"only revision {MODERN_REVISIONS[0]} is served here"
        return Rejection(400, inbound.UNSUPPORTED_VERSION, text, identity, data)
    return message


def make_app(
    launch: Launch,
    version: str,
    calls: Calls,
    life: Life,
    *,
    keep_alive_s: float = KEEP_ALIVE_S,
) -> web.Application:
    """The application; `keep_alive_s` is the time between comments on streams that have nothing to say."""
    server = Server(launch, version, calls, life, keep_alive_s)
    app = web.Application(middlewares=[door.make_middleware(launch.secret)], client_max_size=door.MAX_BODY)
    app.router.add_post(names.MCP_PATH, server.mcp)
    app.router.add_get(names.HEALTH_PATH, server.health, allow_head=False)
    app.router.add_get(names.LIFELINE_PATH, server.lifeline, allow_head=False)
    app.router.add_get(names.INSPECT_PATH, server.inspect, allow_head=False)
    app.router.add_post(names.REFRESH_PATH, server.refresh)
    return app


def make_runner(app: web.Application) -> web.AppRunner:
    """The runner of daemon and tests alike; a caller that leaves cancels its handler (row M16)."""
    options: dict[str, Any] = {"access_log": None, "auto_decompress": False}
    return web.AppRunner(
        app,
        handler_cancellation=True,
        keepalive_timeout=IDLE_CONNECTION_S,
        shutdown_timeout=2.0,
        **options,
    )
