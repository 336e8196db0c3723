"""Stands for a manager's own endpoint: tools that count their calls, wait, send events or much data."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from lm_tools_bridge.protocol import sse
from support.http.runner_end import end_runner

TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": read_only}}
    for name, read_only in (
        ("read", True),
        ("write", False),
        ("slow", False),
        ("big", True),
        ("stream", True),
    )
]


class ScriptedWorkspace:
    """The endpoint.

    Attributes:
        executed: how often each id was written.
        cancelled: calls that ended because their caller went away.
        seen: the last request.
        running: set while a slow call runs.
    """

    def __init__(self, on_write: Callable[[str], None] = lambda _: None) -> None:
        self.executed: Counter[str] = Counter()
        self.cancelled = 0
        self.seen: dict[str, Any] = {}
        self.running = asyncio.Event()
        self.may_end = asyncio.Event()
        self.url = ""
        self._on_write = on_write

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        message = json.loads(await request.read())
        self.seen = message
        if message["method"] == "tools/list":
            return _result(message, {"tools": TOOLS})
        if message["method"] == "server/discover":
            return _result(message, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        return await self._call(request, message)

    async def _call(self, request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        name, arguments = message["params"]["name"], message["params"].get("arguments", {})
        if name == "write":
            self.executed[arguments["id"]] += 1
            self._on_write(arguments["id"])
            await asyncio.sleep(arguments.get("takes", 0))
        elif name == "slow":
            self.running.set()
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        elif name == "stream":
            return await _stream(request, message, arguments["count"])
        text = "x" * arguments.get("size", 1)
        return _result(message, {"content": [{"type": "text", "text": text}]})


def _result(message: dict[str, Any], result: dict[str, Any]) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def _stream(request: web.Request, message: dict[str, Any], count: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(count):
        params = {"progressToken": 1, "progress": number}
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await response.write(sse.encode(json.dumps(progress).encode()))
    final = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
    await response.write(sse.encode(json.dumps(final).encode()))
    await response.write_eof()
    return response


@contextlib.asynccontextmanager
async def scripted_workspace(
    on_write: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ScriptedWorkspace]:
    """The endpoint for as long as the block lasts."""
    workspace = ScriptedWorkspace(on_write)
    async with served("/mcp", workspace.serve) as url:
        workspace.url = url
        yield workspace


@contextlib.asynccontextmanager
async def served(path: str, handler: Any) -> AsyncIterator[str]:
    """Serve one route; its URL."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post(path, handler)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
    finally:
        await end_runner(runner)
