"""Serves the third-party test servers: over stdio or HTTP, in both eras or in one.

The servers are built on the official SDK, which serves both eras; a filter in front of it restricts a server to one.
Their content is elsewhere (`third_party_server.py`, `conformance/conformance_server.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

MODERN = "2026-07-28"
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def enveloped(handler: Any) -> Any:
    """A handler whose results carry what the new era requires; the SDK drops it for the old one.

    Empty results stay as they are: they answer methods that only the old era has.
    """

    async def handle(ctx: Any, params: Any) -> Any:
        result = await handler(ctx, params)
        members = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return members | result if isinstance(result, dict) and result else result

    return handle


async def serve_stdio(server: Any, era: str) -> None:
    """Over standard input and output, until the input ends. `era` is `legacy`, `modern` or `both`."""
    from mcp.server import runner
    from mcp.server.stdio import stdio_server

    start = server.create_initialization_options()
    async with stdio_server() as (read, write), server.lifespan(server) as life:
        if era == "legacy":
            await runner.serve_loop(server, read, write, lifespan_state=life, init_options=start)
        elif era == "modern":
            # the SDK has no public way to serve one era only over a pair of streams
            await runner._serve_modern_stream(
                server, read, write, lifespan_state=life, raise_exceptions=False
            )
        else:
            await runner.serve_dual_era_loop(server, read, write, lifespan_state=life, init_options=start)


def guarded(app: App, era: str, token: str = "") -> App:
    """The app behind a bearer token, if there is one, and, where only one era is served, behind a gate for it."""

    async def gate(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = {key.decode(): value.decode("latin-1") for key, value in scope["headers"]}
        modern = headers.get("mcp-protocol-version") == MODERN
        if token and headers.get("authorization") != f"Bearer {token}":
            await _refuse(send, 401, None, [(b"www-authenticate", b'Bearer error="invalid_token"')])
        elif era == "modern" and not modern:
            wanted = {
                "code": -32022,
                "message": "Unsupported protocol version",
                "data": {"supported": [MODERN]},
            }
            body = await _body(receive)
            await _refuse(
                send, 400, {"jsonrpc": "2.0", "id": json.loads(body or b"{}").get("id"), "error": wanted}
            )
        else:
            if era == "legacy" and modern:
                dropped = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
                scope["headers"] = [pair for pair in scope["headers"] if pair[0] not in dropped]
            await app(scope, receive, send)

    return gate


def routed(apps: Mapping[str, App], managers: Iterable[Any]) -> App:
    """Several servers in one process: each below its path, the first that fits; `managers` live as long as it."""

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send, managers)
            return
        path: str = scope["path"]
        await next(one for start, one in apps.items() if path.startswith(start))(scope, receive, send)

    return app


async def _live(receive: Any, send: Any, managers: Iterable[Any]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for manager in managers:
            await stack.enter_async_context(manager.run())
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _body(receive: Any) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _refuse(
    send: Any,
    status: int,
    body: dict[str, Any] | None,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    start = [(b"content-type", b"application/json"), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": json.dumps(body).encode() if body else b""})


def serve_http(port: int, app: App) -> None:
    """On a port of the loopback interface, printed when it answers, until killed or until standard input ends."""
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    if stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    config = uvicorn.Config(
        app,
        "127.0.0.1",
        port,
        http="h11",  # the other parser leaves the blanks after a header's value
        log_level="error",
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    Announcing(config).run()


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)
