"""A window of VS Code with the extension LM Tools Bridge, as far as this program sees one.

Written after what three versions of the extension were seen to do: it serves health and MCP, without sessions and
without `initialize`, answers as event streams, lists open objects as schemas, and has the real ones as resources.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from lm_tools_bridge.editors.finder import identity_of, sockets_for
from support.http.runner_end import end_runner

Json = dict[str, Any]
Call = Callable[[Json], Awaitable[Json]]
OPEN: Json = {"type": "object", "properties": {}}


async def _echo(arguments: Json) -> Json:
    return {"content": [{"type": "text", "text": json.dumps(arguments)}]}


def a_tool(name: str, call: Call = _echo, **properties: Json) -> WindowTool:
    """A tool with these arguments, all of them required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return WindowTool(name, schema, call)


@dataclass
class WindowTool:
    """One tool: its real schema, and what a call gives."""

    name: str
    schema: Json
    call: Call = _echo


@dataclass
class EditorWindow:
    """The window. `place` is where schemas are: `schema` up to 1.0.139, `tool` after, or nowhere."""

    folders: list[str]
    tools: list[WindowTool] = field(
        default_factory=lambda: [a_tool("copilot_searchCodebase", query={"type": "string"})]
    )
    place: str = "schema"
    port: int = 0
    said_port: int | None = None
    requests: list[Json] = field(default_factory=list)
    asked: int = 0
    serves_health: bool = True
    _runner: web.AppRunner | None = None

    async def open(self, port: int) -> None:
        """Serve on this port or the next free one."""
        app = web.Application()
        app.router.add_get("/mcp/health", self._health)
        app.router.add_post("/mcp", self._post)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        for one in range(port, port + 50):
            with contextlib.suppress(OSError):
                await web.TCPSite(runner, "127.0.0.1", one).start()
                self.port, self._runner = one, runner
                return
        raise AssertionError("no port is free")

    async def close(self) -> None:
        """End, as when the user closes the window."""
        if self._runner is not None:
            await end_runner(self._runner)
            self._runner = None

    async def _health(self, _: web.Request) -> web.StreamResponse:
        self.asked += 1
        if not self.serves_health:
            return web.Response(status=404)
        port = self.said_port or self.port
        owner = self.folders[0] if self.folders else "No workspace open"
        body = {
            "ok": True,
            "status": {"state": "running", "ownerWorkspacePath": owner, "host": "127.0.0.1", "port": port},
            "tools": len(self.tools),
            "toolNames": [one.name for one in self.tools],
            "workspaceFolders": [{"name": Path(one).name, "path": one} for one in self.folders],
            "host": "127.0.0.1",
            "port": port,
        }
        return web.json_response(body)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        accepted = request.headers.get("Accept", "")
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            return web.json_response(_error(None, -32000, "Not Acceptable"), status=406)
        message = await request.json()
        self.requests.append(message)
        if "id" not in message:
            return web.Response(status=202)
        if message["id"] is None:
            return web.json_response(_error(None, -32700, "Parse error"), status=400)
        answer = await self._answer(message)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: message\ndata: " + json.dumps(answer).encode() + b"\n\n")
        return response

    async def _answer(self, message: Json) -> Json:
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            known = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}},
            }
            return _result(message, known | {"serverInfo": {"name": "vscode-lm-chat", "version": "0.1.0"}})
        if method == "tools/list":
            return _result(
                message,
                {
                    "tools": [
                        {"name": one.name, "description": one.name, "inputSchema": OPEN} for one in self.tools
                    ]
                },
            )
        if method == "tools/call":
            tool = next((one for one in self.tools if one.name == params["name"]), None)
            if tool is None:
                return _error(message["id"], -32602, f"Tool {params['name']} not found")
            return _result(message, await tool.call(params.get("arguments", {})))
        if method == "resources/list":
            return _result(message, {"resources": [{"uri": "lm-tools://names", "name": "names"}]})
        if method == "resources/templates/list":
            return _result(message, {"resourceTemplates": []})
        if method == "resources/read":
            return self._read(message, params["uri"])
        return _error(message["id"], -32601, "Method not found")

    def _read(self, message: Json, uri: str) -> Json:
        for one in self.tools:
            if uri == f"lm-tools://{self.place}/{one.name}":
                text = json.dumps({"name": one.name, "inputSchema": one.schema})
                return _result(
                    message, {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}
                )
        return _error(message["id"], -32602, f"Resource {uri} not found")


def _result(message: Json, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _error(identity: Any, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


@asynccontextmanager
async def opened(port: int, *folders: Path | str, **members: Any) -> AsyncIterator[EditorWindow]:
    """A window with these folders, serving on this port or one of the next."""
    window = EditorWindow([str(one) for one in folders], **members)
    await window.open(port)
    try:
        yield window
    finally:
        await window.close()


@asynccontextmanager
async def advertised(
    root: Path, environ: Mapping[str, str], port: int, *, kind: str = "folder", **said: Any
) -> AsyncIterator[Path]:
    """The discovery socket of a later version, for the window on this port; `said` replaces what it says."""
    identity = identity_of(kind, root)
    folder = root if kind == "folder" else root.parent
    place = next(one.path for one in sockets_for(folder, environ) if one.identity == identity)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        assert asked["op"] == "discover" and asked["protocolVersion"] == 1 and asked["managerSessionId"]
        body = {
            "ok": True, "protocolVersion": 1, "targetIdentity": asked["targetIdentity"], "targetKind": kind,
            "workspaceFolders": [str(folder)], "workspaceFile": None, "host": "127.0.0.1", "port": port,
            "serverSessionId": "s", "pid": os.getpid(), "startedAt": 0,
        }  # fmt: skip
        writer.write(json.dumps(body | said).encode() + b"\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, place)
    try:
        yield place
    finally:
        server.close()
        place.unlink(missing_ok=True)


def free_range() -> int:
    """The first of some ports that nothing else uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(int(probe.getsockname()[1]), 65_000)
