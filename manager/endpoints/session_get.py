"""Serves GET: a session's server stream, or a stream resumed by `Last-Event-ID`.

Who may come in at all is settled in `mcp.py`. What cannot be replayed any more is said as far as it can be:

    server stream      it begins with everything that may have changed
    stream of a request  the one event that follows is an error: the answer is lost (47112)
    nothing follows      204, upon which clients do not come again
"""

from __future__ import annotations

from typing import Final

from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from manager.routing.state.session_table import Session
from manager.sessions import event_ids
from manager.sessions.event_ids import EventId
from manager.sessions.session_manager import SessionManager
from manager.sessions.stream import Stream, lost_answer
from protocol import headers, sse

_CONFLICT: Final = b'{"error":"Conflict: this session has a stream already"}'
_LOST: Final = "the connection broke, and the answer is not here any more"


class _Listener(EventResponse):
    """The connection of a session's server stream. No task waits for it: what happens to it comes here."""

    __slots__ = ("_session", "_session_manager")

    def __init__(self, http_request: HttpRequest, session_manager: SessionManager, session: Session) -> None:
        super().__init__(http_request)
        self._session_manager = session_manager
        self._session = session

    def close(self) -> None:
        """End it; the session goes on."""
        self.left()
        super().close()

    def left(self) -> None:
        """Nothing can be written any more."""
        self.stop_keep_alives()
        self._session_manager.notifier.close_stream(self._session, self)


async def serve(
    http_request: HttpRequest,
    session_manager: SessionManager,
    session: Session,
    implied_workspace: str | None,
) -> None:
    """Serve one GET: to its end, or until it is a server stream.

    Args:
        implied_workspace: the workspace that its address means.
    """
    said = http_request.metadata.fields.get(headers.LAST_EVENT_ID)
    last = None if said is None else event_ids.parse(said)
    if last is None or last.is_server_stream:
        _serve_server_stream(
            http_request, session_manager, session, implied_workspace, last, is_again=said is not None
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
    out.open({headers.SESSION: session.id})  # first: from the claim on, events may be written to it
    stream.attach(out)
    try:
        stream.resume(out, last.event)
        await stream.wait_ended()
        out.close()
    finally:
        stream.detach(out)
