"""Runs a stdio MCP server with one tool, `echo`, which the measured proxies have behind them.

Usage: python -I -S stdio_echo.py. It imports little, so that its own time hardly counts.
"""

from __future__ import annotations

import json
import os

RESULT = {"content": [{"type": "text", "text": "x" * 200}]}
TOOL = {
    "name": "echo",
    "description": "Answers.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}},
}


def result(message: dict[str, object]) -> object:
    """The result of a request."""
    match message["method"]:
        case "tools/call":
            return RESULT
        case "initialize":
            params = message["params"]
            assert isinstance(params, dict)
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
    return {}


def answers(lines: list[bytes]) -> bytes:
    """The responses to the requests among these messages."""
    messages = [json.loads(line) for line in lines if line.strip()]
    responses = [
        {"jsonrpc": "2.0", "id": one["id"], "result": result(one)}
        for one in messages
        if "method" in one and "id" in one
    ]
    return b"".join(json.dumps(one).encode() + b"\n" for one in responses)


def main() -> None:
    """Answer requests until the input ends."""
    rest = b""
    while read := os.read(0, 1 << 20):
        *lines, rest = (rest + read).split(b"\n")
        left = answers(lines)
        while left:
            left = left[os.write(1, left) :]


if __name__ == "__main__":
    main()
