"""Runs the proxy of FastMCP in its best case: one connected client for all calls, answers as JSON.

Usage: PYTHON fastmcp_proxy.py PORT COMMAND ARGUMENT… with the Python of the environment that has FastMCP. It
imports nothing of this project.
"""

from __future__ import annotations

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def main(port: int, command: str, *arguments: str) -> None:
    """Serve until killed."""
    async with Client(StdioTransport(command, list(arguments))) as client:
        proxy = create_proxy(client)
        await proxy.run_http_async(
            show_banner=False, host="127.0.0.1", port=port, json_response=True, log_level="error",
            uvicorn_config={"access_log": False},
        )  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
