"""One connection of the manager to a workspace server."""

from __future__ import annotations

from collections.abc import Callable

from lm_tools_bridge.http_server.connections.connection import HttpConnection
from lm_tools_bridge.http_server.connections.server_context import ServerContext
from lm_tools_bridge.http_server.parsing.head import RequestHead
from lm_tools_bridge.http_server.parsing.head_reader import ReadHead
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request import JSON
from lm_tools_bridge.http_server.responses.response_head import render_head
from lm_tools_bridge.protocol import jsonrpc
from workspace_server.http.head_reader import ManagerHead
from workspace_server.http.request import HttpRequest


class ManagerConnection(HttpConnection[ManagerHead]):
    """One connection; `handle` answers each request, at once or in a task."""

    __slots__ = ("_handle",)

    def __init__(self, server: ServerContext[ManagerHead], handle: Callable[[HttpRequest], None]) -> None:
        super().__init__(server)
        self._handle = handle

    def serve(self, read: ReadHead[ManagerHead], body: bytes) -> None:
        """Hand the request to the routes."""
        request = HttpRequest(self, read, self.parser.raw_head, body)
        self.start_serving(request)
        self._handle(request)

    def render_refusal(self, refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
        """Render a refusal as a JSON-RPC error without an id, because no message was read."""
        body = jsonrpc.error(None, refusal.code, refusal.reason)
        length = ("Content-Length", str(len(body)))
        fields = [("Content-Type", JSON), length, ("Connection", "close"), *refusal.headers]
        rendered = render_head(refusal.status, fields)
        return rendered if head is not None and head.method == "HEAD" else rendered + body
