"""A source with an app: a tool whose results a page shows, a tool for the page alone, and the page."""

from __future__ import annotations

from typing import Any

import msgspec

from lm_tools_bridge.protocol import apps_extension, jsonrpc, names
from support.servers.mcp_sources.tool_source import ScriptedSource, handshake_result, offerings, tool
from workspace_server.call_context import CallContext
from workspace_server.tool import CallOutcome, RpcError, Tool

PAGE = "ui://time/page.html"
DATA = "ui://time/data.json"
SHOWS_APPS: dict[str, Any] = {names.META_CAPABILITIES: {"extensions": apps_extension.CLIENT_EXTENSIONS}}
"""Members of a request's `_meta`, from a client that shows apps."""


def page_tool(name: str = "show-time", page: str = PAGE, **ui: Any) -> Tool:
    """A tool with a page, which is named in both ways."""
    return tool(name, _meta={"ui": {"resourceUri": page, **ui}, "ui/resourceUri": page, "x/y": 1})


def app_only_tool(name: str = "get-time", **meta: Any) -> Tool:
    return tool(name, _meta={"ui": {"visibility": ["app"]}, **meta})


class AppSource(ScriptedSource):
    """A server with an app. Its contents say whose they are."""

    def __init__(self, namespace: str, *tools: Tool, listed: tuple[str, ...] = (PAGE,)) -> None:
        tools = tools or (page_tool(), app_only_tool(), tool("plain"))
        super().__init__(tools, identity=f"stdio:{namespace}", namespace=namespace)
        self.offered = offerings(resources=listed)
        self.greeted = handshake_result(resources={"subscribe": True})
        self.contents = {PAGE: f"page of {namespace}", DATA: f"data of {namespace}"}
        self.answers[names.RESOURCES_READ] = self._read

    async def _read(self, params: Any, context: CallContext) -> CallOutcome:
        uri = msgspec.json.decode(params["uri"])
        if uri not in self.contents:
            return RpcError(jsonrpc.INVALID_PARAMS, "no such thing")
        csp = {"ui": {"csp": {"connectDomains": ["https://example.org"]}}}
        entry = {"uri": uri, "mimeType": apps_extension.PAGE_TYPE, "text": self.contents[uri], "_meta": csp}
        meta = {names.META_SERVER: {"name": "s", "version": "1"}}
        result = {
            "resultType": "complete",
            "contents": [entry],
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": meta,
        }
        return jsonrpc.raw(result)
