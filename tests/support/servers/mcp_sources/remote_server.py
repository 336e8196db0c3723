"""A remote MCP server in the test process whose every answer a test decides.

By default it is a small server with sessions. `answers` holds, by JSON-RPC method (or `GET`, `DELETE`), the callables
that answer instead: each is used for one request, the last one for all that follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Json = dict[str, Any]
ECHO: Json = {"name": "echo", "description": "Echoes", "inputSchema": {"type": "object"}}


@dataclass
class Received:
    """One request as it arrived."""

    request: web.Request
    message: Json

    @property
    def method(self) -> str:
        """The JSON-RPC method, or that of HTTP."""
        return str(self.message.get("method", self.request.method))

    def result(self, value: Json, **headers: str) -> web.Response:
        """An answer as JSON."""
        return web.json_response(
            {"jsonrpc": "2.0", "id": self.message.get("id"), "result": value}, headers=headers
        )

    def error(self, code: int, message: str, status: int = 200, identity: Any = ...) -> web.Response:
        """A JSON-RPC error; `identity` replaces the request's id."""
        answered = self.message.get("id") if identity is ... else identity
        body = {"jsonrpc": "2.0", "id": answered, "error": {"code": code, "message": message}}
        return web.json_response(body, status=status)


Answerer = Callable[[Received], Awaitable[web.StreamResponse]]


@dataclass
class ScriptedRemoteServer:
    """The server: what it will answer, and what it got."""

    url: str = ""
    tools: list[Json] = field(default_factory=lambda: [ECHO])
    answers: dict[str, list[Answerer]] = field(default_factory=lambda: defaultdict(list))
    received: list[Received] = field(default_factory=list)
    sessions: int = 0
    port: int = 0

    def count(self, method: str) -> int:
        """How many requests with this method came."""
        return sum(one.method == method for one in self.received)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request: the answer that the test scripted, else the default."""
        body = await request.read()
        got = Received(request, json.loads(body) if body else {})
        self.received.append(got)
        answers = self.answers[got.method]
        if answers:
            return await (answers.pop(0) if len(answers) > 1 else answers[0])(got)
        return await self.default(got)

    async def default(self, got: Received) -> web.StreamResponse:
        """A small server without flaws."""
        method = got.method
        if method == "initialize":
            self.sessions += 1
            info = {"name": "fake", "version": "1"}
            value = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": info,
            }
            return got.result(value, **{"Mcp-Session-Id": f"session-{self.sessions}"})
        if method == "tools/list":
            return got.result({"tools": self.tools})
        if method == "tools/call":
            return got.result({"content": [{"type": "text", "text": json.dumps(got.message["params"])}]})
        if got.request.method == "GET":
            return web.Response(status=405)
        return web.Response(status=200 if got.request.method == "DELETE" else 202)


def status(code: int, **headers: str) -> Answerer:
    """Answer with a bare status."""

    async def answer(_got: Received) -> web.StreamResponse:
        return web.Response(
            status=code, headers={key.replace("_", "-"): value for key, value in headers.items()}
        )

    return answer


def body(content: bytes, kind: str = "application/json", **headers: str) -> Answerer:
    """Answer 200 with these bytes."""

    async def answer(_got: Received) -> web.StreamResponse:
        return web.Response(body=content, headers={"Content-Type": kind, **headers})

    return answer


def events(*pieces: bytes, then: Callable[[], Awaitable[None]] | None = None) -> Answerer:
    """Answer with a stream of events; afterwards wait for `then`, and break off the connection."""

    async def answer(got: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(got.request)
        for piece in pieces:
            await response.write(piece.replace(b"$ID", json.dumps(got.message.get("id")).encode()))
        if then is not None:
            await then()
        assert got.request.transport is not None
        got.request.transport.close()
        return response

    return answer


async def hang(_got: Received) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def drop(got: Received) -> web.StreamResponse:
    """Close the connection without an answer."""
    assert got.request.transport is not None
    got.request.transport.close()
    return web.Response()


@contextlib.asynccontextmanager
async def fake_remote(
    path: str = "/mcp", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedRemoteServer]:
    """A running server on a port of this machine, by default one of the system's."""
    remote = ScriptedRemoteServer()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", remote.handle)
    server = TestServer(app, host="127.0.0.1", port=port or None)
    await server.start_server(shutdown_timeout=0.1, ssl=tls)
    try:
        remote.port = server.port or 0
        remote.url = f"http://127.0.0.1:{remote.port}{path}"
        yield remote
    finally:
        await server.close()
