"""GET: a session's standing stream, or any of its streams taken up again by `Last-Event-ID` (M-29, L16).

Who may come in at all is settled in `mcp.py`. What cannot be replayed any more is said as far as it can be:

    standing stream      it begins with everything that may have changed
    stream of a request  the one event that follows is an error: the answer is lost (47112)
    nothing follows      204, upon which clients do not come again
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from manager.legacy import event_ids
from manager.legacy.event_ids import EventId
from manager.legacy.keeper import Keeper
from manager.legacy.stream import Stream, lost_answer
from manager.routing.sessions import Session
from manager.web.event_response import EventResponse
from protocol import headers, sse

_CONFLICT: Final = b'{"error":"Conflict: this session has a stream already"}'
_LOST: Final = "the connection broke, and the answer is not here any more"


async def serve(
    request: web.Request, keeper: Keeper, session: Session, heard: str | None
) -> web.StreamResponse:
    """Serve one GET to its end.

    Args:
        heard: the workspace that its address means.
    """
    said = request.headers.get(headers.LAST_EVENT_ID)
    last = None if said is None else event_ids.parse(said)
    out = EventResponse(request, {headers.SESSION: session.id})
    if last is None or last.is_standing:
        return await _stand(out, keeper, session, heard, last, is_first=said is None)
    stream = keeper.streams.answering(session, last)
    if stream is not None:
        return await _resume(out, stream, last)
    if last.request is None:
        return web.Response(status=204)
    await out.open()
    following = EventId(last.stream, last.event + 1)
    await out.write(sse.encode(lost_answer(last.request, _LOST), identity=str(following)))
    await out.close()
    return out.response


async def _stand(
    out: EventResponse,
    keeper: Keeper,
    session: Session,
    heard: str | None,
    last: EventId | None,
    *,
    is_first: bool,
) -> web.StreamResponse:
    after = keeper.streams.standing(session).followed(last)
    standing = keeper.news.open_stream(session, out, heard, takes_over=after is not None)
    if standing is None:
        return web.Response(body=_CONFLICT, status=409, content_type="application/json")
    if after is None and not is_first:
        keeper.news.missed_all(session)
    try:
        await out.open()
        await standing.serve(out, after)
        await out.close()
    finally:
        keeper.news.close_stream(session, out)
    return out.response


async def _resume(out: EventResponse, stream: Stream, last: EventId) -> web.StreamResponse:
    if stream.is_ended and last.event >= stream.sent:
        return web.Response(status=204)
    await out.open()  # first: from the claim on, events may be written to it
    stream.claim(out)
    try:
        await stream.resume(out, last.event)
        await stream.over()
        await out.close()
    finally:
        stream.leave(out)
    return out.response
