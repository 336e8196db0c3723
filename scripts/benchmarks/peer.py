"""Other MCP proxies: which ones, where they come from, how each starts a stdio server. Pure."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.benchmarks.load import ID, Call

HERE = Path(__file__).parent
SERVER = (sys.executable, "-I", "-S", str(HERE / "stdio_echo.py"))
"""What they have behind them."""
TOOL = "echo"
BY_REST = "by REST"
"""Part of the name of a proxy that is not called over MCP."""


@dataclass(frozen=True)
class RestCall(Call):
    """A call as mcp-hub takes it: it serves MCP over the transport of 2024-11 only, and tools by REST."""

    @property
    def body(self) -> bytes:
        """Its message."""
        given = {**self.arguments, "n": int(ID)}
        return json.dumps({"server_name": TOOL, "tool": self.tool, "arguments": given}).encode()

    def fields(self, session: str) -> dict[str, str]:
        """None of its own."""
        return {}


@dataclass(frozen=True)
class Peer:
    """One of them. `command` makes it serve on a port, given the folder it is installed in."""

    name: str
    registry: str
    package: str
    command: Callable[[Path, int], list[str]]
    path: str = "/mcp"
    call: Call = field(default_factory=lambda: Call("legacy", TOOL))
    files: Mapping[str, str] | None = None

    @property
    def with_sessions(self) -> bool:
        """Does it speak MCP?"""
        return not isinstance(self.call, RestCall)


def _npm(folder: Path, program: str) -> str:
    return str(folder / "node_modules" / ".bin" / program)


HUB = json.dumps({"mcpServers": {TOOL: {"command": SERVER[0], "args": list(SERVER[1:])}}})

PEERS = (
    Peer(
        "mcp-proxy (npm)", "npm", "mcp-proxy@6.7.19",
        lambda at, port: [
            _npm(at, "mcp-proxy"), "--host", "127.0.0.1", "--port", str(port), "--server", "stream", "--",
            *SERVER,
        ],
    ),
    Peer(
        "mcp-proxy (PyPI)", "pypi", "mcp-proxy==0.13.0",
        lambda at, port: [
            str(at / "bin" / "mcp-proxy"), "--port", str(port), "--log-level", "ERROR", "--", *SERVER,
        ],
    ),
    Peer(
        "supergateway, stateful", "npm", "supergateway@4.0.0",
        lambda at, port: [
            _npm(at, "supergateway"), "--stdio", shlex.join(SERVER), "--outputTransport", "streamableHttp",
            "--stateful", "--logLevel", "none", "--port", str(port),
        ],
    ),
    Peer(
        f"mcp-hub, {BY_REST}", "npm", "mcp-hub@4.2.1",
        lambda at, port: [_npm(at, "mcp-hub"), "--port", str(port), "--config", str(at / "hub.json")],
        path="/api/servers/tools", call=RestCall("legacy", TOOL), files={"hub.json": HUB},
    ),
    # a range, because what the newest wants is not in every registry
    Peer(
        "FastMCP proxy, connected", "pypi", "fastmcp>=4,<5",
        lambda at, port: [str(at / "bin" / "python"), str(HERE / "fastmcp_proxy.py"), str(port), *SERVER],
    ),
)  # fmt: skip
