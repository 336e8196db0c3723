"""Serves GET: a session's server stream, or a stream resumed by `Last-Event-ID`.

`session_routes.py` has checked the request. If events cannot be replayed any more, the client gets:

    server stream        notifications that all lists may have changed
    stream of a request  one event, an error: the answer is lost (47112)
    no events left       204, so that the client does not reconnect
"""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.protocol import headers, sse
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from manager.routing.state.session_table import Session
from manager.sessions import event_ids
from manager.sessions.event_ids import EventId
from manager.sessions.session_manager import SessionManager
from manager.sessions.stream import Stream, lost_answer

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


async def serve(
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
    last = None if last_event_id is None else event_ids.parse(last_event_id)
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
