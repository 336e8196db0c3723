"""Runs a manager for `lmtb connect` whose answers the test scripts."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from manager.client import NoManager
from support.http.runner_end import end_runner
from support.servers.scripted.scripted_workspace_server import Answerer, Received, fixed


class ScriptedManager:
    """Serves the endpoint, and answers as the control socket with its address.

    Attributes:
        answers: JSON-RPC method, or GET or DELETE -> answers in order, of which the last one stays.
        received: method -> what arrived.
        runs: whether the control socket and the health route answer.
        asked: how often the control socket was asked.
        pid: its process id; another one is another manager.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[Answerer]] = {}
        self.received: dict[str, list[Received]] = defaultdict(list)
        self.runs = True
        self.asked = 0
        self.pid = 1
        self._arrived = asyncio.Event()
        self._port = 0

    def get(self, target: str) -> dict[str, Any]:
        """What the control socket says."""
        self.asked += 1
        if not self.runs:
            raise NoManager("scripted")
        return {"address": f"http://127.0.0.1:{self._port}/mcp", "pid": self.pid}

    async def arrival(self, method: str, count: int = 1) -> Received:
        """The last of so many requests, waited for if need be."""
        async with asyncio.timeout(10):
            while len(self.received[method]) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.received[method][count - 1]

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[ScriptedManager]:
        """Listen for as long as the block lasts."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/mcp/health", self._health)
        app.router.add_route("*", "/mcp", self._answer)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await end_runner(runner)

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"ok": self.runs})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read() or b'{"id":null}'  # scripted answers read the id, which a GET has not
        received = Received(tuple(request.raw_headers), request.raw_path, body)
        method = request.method
        if method == "POST":
            method = received.message.get("method", "response")
        self.received[method].append(received)
        self._arrived.set()
        answers = self.answers.get(method, [fixed(b"", 202)])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        try:
            return await answer(request, received)
        except (asyncio.CancelledError, ConnectionError):
            received.gone.set()
            raise


def in_session(answer: Answerer, session: str) -> Answerer:
    """As `answer`, and the answer names a session."""

    async def named(request: web.Request, received: Received) -> web.StreamResponse:
        response = await answer(request, received)
        response.headers["Mcp-Session-Id"] = session
        return response

    return named
