"""Which answers on their way nobody has to read, and where their bytes go then.

All others go on in a task, which knows everything (`direct_relay.py`, `writer.py`).
"""

from __future__ import annotations

from typing import Final

from manager.answers.exchange import Exchange
from manager.forwarding.answer import COLLECTED
from manager.forwarding.messages import begins_as_answer
from manager.http.request import HttpRequest
from manager.relay.body_sink import BodySink
from manager.relay.large_event import EventAsJson, EventPassedThrough, LargeEvent
from manager.relay.large_json import LargeBody
from manager.routing.json.forwardable_result import RESULT_BEGIN
from manager.routing.request_heads.request_metadata import JSON
from manager.upstream.response import UpstreamResponse
from protocol import sse
from protocol.internal.result_trim import ResultTrim

_LOOKED_AT: Final = 2048
"""Bytes of a stream in which the response has to begin."""
_NOTHING: Final = ResultTrim(0, 0)


def plan(
    http_request: HttpRequest, exchange: Exchange, response: UpstreamResponse, limit: int
) -> BodySink | None:
    """Where an answer's bytes go that nobody has to read; None for any other.

    Args:
        response: of which the head and the beginning of the body have come.
        limit: bytes of the largest answer.

    Raises:
        InterruptedAnswerError: it is the response to another request.
    """
    if response.is_events:
        return _event(http_request, exchange, response, limit)
    head = response.head
    length, fields = head.content_length or 0, exchange.headers
    if head.content_type != JSON.encode() or not COLLECTED < length <= limit:
        return None
    first, identity = bytes(response.first[:_LOOKED_AT]), exchange.message.id
    if not begins_as_answer(first, identity):
        return None
    if exchange.session is None:
        return LargeBody(http_request, head.status, fields, length)
    begin = RESULT_BEGIN % identity
    is_fit = first.startswith(begin) and len(first) >= len(begin) + (head.trim or _NOTHING).first
    if head.trim is None or head.status != 200 or not is_fit:
        return None
    return LargeBody(http_request, 200, fields, length, begin=begin, trim=head.trim)


def _event(
    http_request: HttpRequest, exchange: Exchange, response: UpstreamResponse, limit: int
) -> LargeEvent | None:
    first, identity = bytes(response.first[:_LOOKED_AT]), exchange.message.id
    begun = sse.single_event_start(first)
    trim = None if begun is None else ResultTrim.from_comment(begun.comment)
    is_fit = (
        http_request.allows_chunked
        and response.head.status == 200
        and (response.head.content_length or 0) <= limit
    )
    if begun is None or trim is None or not is_fit:
        return None
    begin = RESULT_BEGIN % identity
    if not first.startswith(begin, begun.start) or len(first) < begun.start + len(begin) + trim.first:
        return None
    if exchange.session is not None:
        return EventAsJson(http_request, exchange.headers, identity=identity, trim=trim, limit=limit)
    if not exchange.accepts_events:
        return EventAsJson(http_request, exchange.headers, identity=identity, trim=_NOTHING, limit=limit)
    return EventPassedThrough(http_request, exchange.headers, identity=identity, trim=trim, limit=limit)
