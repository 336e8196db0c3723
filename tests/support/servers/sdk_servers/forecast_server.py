"""An MCP server in two versions, for tests that replay what was recorded with the first one.

A program: `python forecast_server.py --stdio`, or `--http`, which prints its port first; `--changed` is the later version.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

CHANGED = "--changed" in sys.argv
server = MCPServer("forecast")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def forecast(city: str) -> dict[str, Any]:
    """The weather of a city."""
    found: dict[str, Any] = {"city": city, "degrees": 21 if CHANGED and city == "Rome" else 20}
    return found | ({"wind": 3} if CHANGED else {"rain": False})


@server.tool(annotations=READS)
def cities() -> list[str]:
    """All cities."""
    return ["Oslo", "Rome"]


@server.tool()
def report(city: str) -> str:
    """Keep an observation."""
    return f"kept for {city}"


if __name__ == "__main__":
    if "--stdio" in sys.argv:
        server.run("stdio")
    else:
        import uvicorn

        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listener])
