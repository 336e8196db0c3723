"""Serves GET and DELETE at the MCP routes: opens and resumes the streams of sessions, and ends sessions.

`mcp.py` serves POST. If events cannot be replayed any more, the client gets:

    server stream        notifications that all lists may have changed
    stream of a request  one event, an error: the answer is lost (47112)
    no events left       204, so that the client does not reconnect
"""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.protocol import headers, jsonrpc, sse
from lm_tools_bridge.protocol.names import LEGACY_REVISIONS
from manager.answers.exchange import Located, claims_of
from manager.answers.workspace_lookup import look_up_workspace
from manager.endpoints.session_requests import UNKNOWN, NoSession, SessionEndpoint
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest, OpenRequests
from manager.routing.state.session_table import Session
from manager.sessions import replay
from manager.sessions.replay import EventId
from manager.sessions.session_manager import SessionManager
from manager.sessions.streams import Stream, lost_answer
from manager.supervision.workspaces import Workspaces

_CONFLICT: Final = b'{"error":"Conflict: this session has a stream already"}'
_LOST: Final = "the connection broke, and the answer is not here any more"


class _Listener(EventResponse):
    """The response that carries a session's server stream; works with callbacks instead of a task."""

    __slots__ = ("_session", "_session_manager")

    def __init__(self, http_request: HttpRequest, session_manager: SessionManager, session: Session) -> None:
        super().__init__(http_request)
        self._session_manager = session_manager
        self._session = session

    def close(self) -> None:
        """End the response; the session continues."""
        self.left()
        super().close()

    def left(self) -> None:
        """Detach from the session, after the response has ended or the client has disconnected."""
        self.stop_keep_alives()
        self._session_manager.notifier.close_stream(self._session, self)


async def serve_stream(
    http_request: HttpRequest,
    session_manager: SessionManager,
    session: Session,
    implied_workspace: str | None,
) -> None:
    """Serve one GET. Returns at the end of a request's stream, but at once for a server stream.

    Args:
        implied_workspace: id of the workspace that the request's URL and headers resolve to, if any.
    """
    last_event_id = http_request.metadata.fields.get(headers.LAST_EVENT_ID)
    last = None if last_event_id is None else replay.parse_event_id(last_event_id)
    if last is None or last.is_server_stream:
        _serve_server_stream(
            http_request,
            session_manager,
            session,
            implied_workspace,
            last,
            is_again=last_event_id is not None,
        )
        return
    out = EventResponse(http_request)
    stream = session_manager.streams.request_stream(session, last)
    if stream is not None:
        await _resume(http_request, out, stream, session, last)
    elif last.request is None:
        http_request.respond(204)
    else:
        out.open({headers.SESSION: session.id})
        following = EventId(last.stream, last.event + 1)
        await out.write(sse.encode(lost_answer(last.request, _LOST), identity=str(following)))
        out.close()


def _serve_server_stream(
    http_request: HttpRequest,
    session_manager: SessionManager,
    session: Session,
    implied_workspace: str | None,
    last: EventId | None,
    *,
    is_again: bool,
) -> None:
    out = _Listener(http_request, session_manager, session)
    after = session_manager.streams.server_stream(session).resume_point(last)
    server_stream = session_manager.notifier.open_stream(
        session, out, implied_workspace, takes_over=after is not None
    )
    if server_stream is None:
        http_request.respond(409, _CONFLICT)
        return
    if after is None and is_again:
        session_manager.notifier.notify_all_changed(session)
    try:
        out.open({headers.SESSION: session.id})
    except ConnectionError:
        out.left()
        raise
    http_request.on_disconnect = out.left
    http_request.release_input()
    server_stream.begin(out, after)


async def _resume(
    http_request: HttpRequest, out: EventResponse, stream: Stream, session: Session, last: EventId
) -> None:
    if stream.is_ended and last.event >= stream.sent:
        http_request.respond(204)
        return
    out.open({headers.SESSION: session.id})  # first: once attached, the stream may write events
    stream.attach(out)
    try:
        stream.resume(out, last.event)
        await stream.wait_ended()
        out.close()
    finally:
        stream.detach(out)


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
        elif not self._open_requests.refuse_when_draining(http_request, None):
            await serve_stream(http_request, self._legacy.session_manager, session, implied_workspace)

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
