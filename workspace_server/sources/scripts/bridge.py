"""Serves the workspace's tools to a running script over a socket beside its arguments.

One JSON object per line: `{"do": "list"}`, answered by `{"tools": […]}`, and `{"do": "call", "name": …,
"arguments": {…}}`, answered by `{"result": …}` or `{"error": …}` as `tools/call` would. The rights are
those of the call that the script runs for. `library/lmtb_tool.py` is the other end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol import jsonrpc
from workspace_server import log
from workspace_server.call_context import Toolbox
from workspace_server.sources.scripts.slots import Slots, use

SOCKET: Final = "tools.sock"
MAX_PATH: Final = 100
"""Longest path of a Unix socket in bytes, a little below the limit of the system (108 on Linux)."""
# A call's arguments in one line. Calls at once are few, as each holds its line and its result.
_MAX_LINE: Final = 16 * 1024 * 1024
_MAX_CONNECTIONS: Final = 16


@asynccontextmanager
async def serve(folder: Path, toolbox: Toolbox, slots: Slots) -> AsyncIterator[None]:
    """Answer requests at `folder`/tools.sock until the context ends, which cancels the unfinished ones.

    Scripts that are called over the socket use `slots`.
    """
    bridge = _Bridge(toolbox, slots)
    server = await asyncio.start_unix_server(bridge.accept, str(folder / SOCKET), limit=_MAX_LINE)
    try:
        yield
    finally:
        server.close()
        await bridge.close()


class _Bridge:
    def __init__(self, toolbox: Toolbox, slots: Slots) -> None:
        self._toolbox = toolbox
        self._slots = slots
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection in a task of its own."""
        task = asyncio.create_task(self._serve_connection(reader, writer), name="script-bridge")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Close all connections and cancel their requests."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        use(self._slots)
        try:
            while len(self._tasks) <= _MAX_CONNECTIONS and (line := await reader.readline()):
                writer.write(await self._answer(line) + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the script closed the connection, or its line exceeds `_MAX_LINE`
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, line: bytes) -> bytes:
        try:
            request = json.loads(line)
            action, name, arguments = request["do"], request.get("name"), request.get("arguments") or {}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            action, name, arguments = None, None, None
        try:
            if action == "list":
                return jsonrpc.dumps({"tools": await self._toolbox.listed()})
            if action == "call" and isinstance(name, str) and isinstance(arguments, dict):
                return jsonrpc.dumps(await self._toolbox.call(name, arguments))
        except Exception as fault:  # noqa: BLE001  the script gets an answer whatever a tool raises
            log.fault("script_bridge_failed", fault)
            return _error(jsonrpc.INTERNAL_ERROR, "the call failed unexpectedly")
        return _error(jsonrpc.INVALID_REQUEST, 'expected {"do": "list"} or {"do": "call", "name": …}')


def _error(code: int, message: str) -> bytes:
    return jsonrpc.dumps({"error": {"code": code, "message": message}})
