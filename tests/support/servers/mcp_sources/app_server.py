"""A program that is an MCP server with an app: `app_server.py NAME [--stateless] [--page FILE]`.

Servers of any two names have the same tools and the same `ui://` addresses. What they answer says their name, and
what they were told of the client.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = "ui://time/page.html"
DATA = "ui://time/data.json"
PAGE_TYPE = "text/html;profile=mcp-app"
OBJECT = {"type": "object"}
TOOLS = [
    {"name": "show-time", "inputSchema": OBJECT, "_meta": {"ui": {"resourceUri": PAGE}}},
    {"name": "get-time", "inputSchema": OBJECT, "_meta": {"ui": {"visibility": ["app"]}}},
    {"name": "plain", "inputSchema": OBJECT},
]


class AppServer:
    """Answers the messages of one client."""

    def __init__(self, name: str, page: str, *, is_stateless: bool) -> None:
        self._name = name
        self._page = page
        self._is_stateless = is_stateless
        self._told: Any = None

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None for a method that it does not have."""
        method, params = message["method"], message.get("params", {})
        meta = params.get("_meta", {})
        told = meta.get("io.modelcontextprotocol/clientCapabilities", params.get("capabilities", self._told))
        self._told = told
        capabilities = {"tools": {}, "resources": {}, "extensions": {"io.modelcontextprotocol/ui": {}}}
        info = {"name": self._name, "version": "1"}
        if method == "initialize" and not self._is_stateless:
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        if method == "server/discover" and self._is_stateless:
            meta = {"io.modelcontextprotocol/serverInfo": info}
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "_meta": meta}
        return self._answer_use(method, params)

    def _answer_use(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "tools/list":
            return {"tools": TOOLS}
        if method == "tools/call":
            knows_apps = "io.modelcontextprotocol/ui" in (self._told or {}).get("extensions", {})
            text = f"{params['name']} of {self._name}"
            said = {"tool": params["name"], "server": self._name, "knowsApps": knows_apps}
            return {"content": [{"type": "text", "text": text}], "structuredContent": said}
        if method == "resources/list":
            return {"resources": [{"uri": PAGE, "name": "page", "mimeType": PAGE_TYPE}]}
        if method == "resources/read":
            text = self._page if params["uri"] == PAGE else f"data of {self._name}"
            return {"contents": [{"uri": params["uri"], "mimeType": PAGE_TYPE, "text": text}]}
        return {} if method == "ping" else None


def main() -> None:
    """Serve until standard input ends."""
    page = f"page of {sys.argv[1]}"
    if "--page" in sys.argv:
        page = Path(sys.argv[sys.argv.index("--page") + 1]).read_text().replace("SERVER_NAME", sys.argv[1])
    server = AppServer(sys.argv[1], page, is_stateless="--stateless" in sys.argv)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = server.answer(message)
        error = {"error": {"code": -32601, "message": "no such method"}}
        answer = error if result is None else {"result": {"resultType": "complete", **result}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
