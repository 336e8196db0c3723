"""The built-in calculator on a server of the official SDK, as its author would write it.

Usage: python -m scripts.benchmarks.sdk_server PORT json|sse. The arithmetic is ours, so that it is the same.
"""

from __future__ import annotations

import sys
from typing import TypedDict

from mcp.server.mcpserver import MCPServer

from workspace_server.sources.builtin.tools.arithmetic import evaluate, number_text

server = MCPServer("bench", log_level="ERROR")


class Value(TypedDict):
    """The result."""

    value: str


@server.tool()
async def calculator(expression: str) -> Value:
    """Evaluate an arithmetic expression."""
    return {"value": number_text(evaluate(expression))}


if __name__ == "__main__":
    server.run("streamable-http", port=int(sys.argv[1]), json_response=sys.argv[2] == "json")
