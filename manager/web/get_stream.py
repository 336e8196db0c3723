"""GET: a session's standing stream, or any of its streams taken up again by `Last-Event-ID` (M-29, L16).

Who may come in at all is settled in `mcp.py`. What cannot be replayed any more is said as far as it can be:

    standing stream      it begins with everything that may have changed
    stream of a request  the one event that follows is an error: the answer is lost (47112)
    nothing follows      204, upon which clients do not come again
"""

from __future__ import annotations

from typing import Final

from manager.legacy import event_ids
from manager.legacy.event_ids import EventId
from manager.legacy.keeper import Keeper
from manager.legacy.standing import Standing
from manager.legacy.stream import Stream, lost_answer
from manager.routing.sessions import Session
from manager.web.event_response import EventResponse
from manager.web.incoming import Incoming
from protocol import headers, sse

_CONFLICT: Final = b'{"error":"Conflict: this session has a stream already"}'
_LOST: Final = "the connection broke, and the answer is not here any more"


async def serve(incoming: Incoming, keeper: Keeper, session: Session, heard: str | None) -> None:
    """Serve one GET to its end.

    Args:
        heard: the workspace that its address means.
    """
    said = incoming.arrival.fields.get(headers.LAST_EVENT_ID)
    last = None if said is None else event_ids.parse(said)
    out = EventResponse(incoming, {headers.SESSION: session.id})
    if last is None or last.is_standing:
        after = keeper.streams.standing(session).followed(last)
        standing = keeper.news.open_stream(session, out, heard, takes_over=after is not None)
        if standing is None:
            incoming.respond(409, _CONFLICT)
            return
        if after is None and said is not None:
            keeper.news.missed_all(session)
        await _stand(out, keeper, session, standing, after)
        return
    stream = keeper.streams.answering(session, last)
    if stream is not None:
        await _resume(incoming, out, stream, last)
    elif last.request is None:
        incoming.respond(204)
    else:
        out.open()
        following = EventId(last.stream, last.event + 1)
        await out.write(sse.encode(lost_answer(last.request, _LOST), identity=str(following)))
        out.close()


async def _stand(
    out: EventResponse, keeper: Keeper, session: Session, standing: Standing, after: int | None
) -> None:
    try:
        out.open()
        await standing.serve(out, after)
        out.close()
    finally:
        keeper.news.close_stream(session, out)


async def _resume(incoming: Incoming, out: EventResponse, stream: Stream, last: EventId) -> None:
    if stream.is_ended and last.event >= stream.sent:
        incoming.respond(204)
        return
    out.open()  # first: from the claim on, events may be written to it
    stream.claim(out)
    try:
        await stream.resume(out, last.event)
        await stream.over()
        out.close()
    finally:
        stream.leave(out)
