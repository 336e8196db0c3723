"""GET and DELETE at the MCP routes: the streams of legacy sessions, and their end.

What is POSTed is `mcp.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from manager.answers.exchange import Located
from manager.answers.locate import locate
from manager.answers.new_exchange import claims_of
from manager.endpoints import session_get
from manager.endpoints.session_requests import UNKNOWN, LegacyEndpoint, NoSession
from manager.http.request import Incoming
from manager.supervision.workspaces import Workspaces
from protocol import headers, jsonrpc
from protocol.versions import LEGACY_REVISIONS

NOT_ALLOWED: Final = b'{"error": "Method Not Allowed"}'


class SessionRoutes:
    """Answers what is asked of a session itself."""

    def __init__(
        self, legacy: LegacyEndpoint, workspaces: Workspaces, is_draining: Callable[[], bool]
    ) -> None:
        self._legacy = legacy
        self._workspaces = workspaces
        self._is_draining = is_draining

    async def get(self, incoming: Incoming) -> None:
        """A stream of a legacy session."""
        arrival = incoming.arrival
        version = arrival.fields.get(headers.VERSION)
        if incoming.session is None or (version is not None and version not in LEGACY_REVISIONS):
            incoming.respond(405, NOT_ALLOWED, {"Allow": "POST"})
            return
        session = self._legacy.session(incoming.session)
        if isinstance(session, NoSession):
            incoming.respond(session.status, session.body(None))
            return
        if not arrival.accepts_events:
            incoming.respond(406, b'{"error":"Not Acceptable: accept text/event-stream"}')
            return
        located = await locate(self._workspaces, claims_of(arrival, session))
        heard = located.workspace.id if isinstance(located, Located) else None
        # asked last: nobody would end a stream that is opened behind the end of its session or of all streams
        if self._legacy.session(incoming.session) is not session:
            incoming.respond(UNKNOWN.status, UNKNOWN.body(None))
        elif self._is_draining():
            text = b'{"error":"the manager is stopping; connect again in a moment"}'
            incoming.respond(503, text, {"Retry-After": "1"})
        else:
            await session_get.serve(incoming, self._legacy.keeper, session, heard)

    async def delete(self, incoming: Incoming) -> None:
        """The end of a legacy session."""
        version = incoming.arrival.fields.get(headers.VERSION)
        if version is not None and version not in LEGACY_REVISIONS:
            incoming.respond(405, NOT_ALLOWED, {"Allow": "POST"})
            return
        session = self._legacy.session(incoming.session)
        if isinstance(session, NoSession):
            incoming.respond(session.status, session.body(None))
            return
        await self._legacy.keeper.end(session)
        incoming.respond(200, jsonrpc.dumps({"ok": True, "deleted": True, "sessionId": session.id}))
