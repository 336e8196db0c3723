"""Lists the other MCP proxies: package, registry, command and configuration of each. Pure."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.benchmarks.load.wrk import ID, Call

FOLDER = Path(__file__).parent
SERVER = (sys.executable, "-I", "-S", str(FOLDER / "stdio_echo.py"))
"""The command of the stdio server behind each proxy."""
TOOL = "echo"
BY_REST = "by REST"
"""Part of the name of a proxy that is not called over MCP."""


@dataclass(frozen=True)
class RestCall(Call):
    """A call of a tool over the REST interface of mcp-hub, which has no streamable HTTP transport."""

    @property
    def body(self) -> bytes:
        """The body of the request."""
        given = {**self.arguments, "n": int(ID)}
        return json.dumps({"server_name": TOOL, "tool": self.tool, "arguments": given}).encode()

    def fields(self, session: str) -> dict[str, str]:
        """No header fields in addition to `POST_HEADERS`."""
        return {}


@dataclass(frozen=True)
class Peer:
    """A proxy. `command` returns its command line for the folder it is installed in and a port."""

    name: str
    registry: str
    package: str
    command: Callable[[Path, int], list[str]]
    path: str = "/mcp"
    call: Call = field(default_factory=lambda: Call("legacy", TOOL))
    files: Mapping[str, str] | None = None

    @property
    def with_sessions(self) -> bool:
        """Whether it is called over MCP, in a session."""
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
    # a range, because not every registry has the dependencies of the newest version
    Peer(
        "FastMCP proxy, connected", "pypi", "fastmcp>=4,<5",
        lambda at, port: [str(at / "bin" / "python"), str(FOLDER / "fastmcp_proxy.py"), str(port), *SERVER],
    ),
)  # fmt: skip
