"""Serves GET and DELETE at the MCP routes: opens the streams of sessions, and ends sessions.

`mcp.py` serves POST.
"""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.protocol import headers, jsonrpc
from lm_tools_bridge.protocol.versions import LEGACY_REVISIONS
from manager.answers.exchange import Located
from manager.answers.new_exchange import claims_of
from manager.answers.workspace_lookup import look_up_workspace
from manager.endpoints import session_get
from manager.endpoints.session_requests import UNKNOWN, NoSession, SessionEndpoint
from manager.forwarding.open_requests import OpenRequests
from manager.http.request import HttpRequest
from manager.supervision.workspaces import Workspaces

NOT_ALLOWED: Final = b'{"error": "Method Not Allowed"}'


class SessionRoutes:
    """Answers GET and DELETE requests of session clients.

    Args:
        open_requests: whether the manager is stopping; streams are refused with 503 then.
    """

    def __init__(self, legacy: SessionEndpoint, workspaces: Workspaces, open_requests: OpenRequests) -> None:
        self._legacy = legacy
        self._workspaces = workspaces
        self._open_requests = open_requests

    async def get(self, http_request: HttpRequest) -> None:
        """Open or resume a stream of a session; 405 for clients without a session."""
        metadata = http_request.metadata
        version = metadata.fields.get(headers.VERSION)
        if http_request.session is None or (version is not None and version not in LEGACY_REVISIONS):
            http_request.respond(405, NOT_ALLOWED, {"Allow": "POST"})
            return
        session = self._legacy.session(http_request.session)
        if isinstance(session, NoSession):
            http_request.respond(session.status, session.body(None))
            return
        if not metadata.accepts_events:
            http_request.respond(406, b'{"error":"Not Acceptable: accept text/event-stream"}')
            return
        located = await look_up_workspace(self._workspaces, claims_of(metadata, session))
        implied_workspace = located.workspace.id if isinstance(located, Located) else None
        # Checked after the await: nothing would end a stream opened after the end of its session.
        if self._legacy.session(http_request.session) is not session:
            http_request.respond(UNKNOWN.status, UNKNOWN.body(None))
        elif self._open_requests.is_draining:
            text = b'{"error":"the manager is stopping; connect again in a moment"}'
            http_request.respond(503, text, {"Retry-After": "1"})
        else:
            await session_get.serve(http_request, self._legacy.session_manager, session, implied_workspace)

    async def delete(self, http_request: HttpRequest) -> None:
        """End a session; 405 for stateless clients."""
        version = http_request.metadata.fields.get(headers.VERSION)
        if version is not None and version not in LEGACY_REVISIONS:
            http_request.respond(405, NOT_ALLOWED, {"Allow": "POST"})
            return
        session = self._legacy.session(http_request.session)
        if isinstance(session, NoSession):
            http_request.respond(session.status, session.body(None))
            return
        await self._legacy.session_manager.end(session)
        http_request.respond(200, jsonrpc.dumps({"ok": True, "deleted": True, "sessionId": session.id}))
