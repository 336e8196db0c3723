"""Serves the calculator with a server of the official SDK, for comparison with the built-in tool.

Usage: python -m scripts.benchmarks.tools.sdk_server PORT json|sse. It evaluates with the same code.
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
