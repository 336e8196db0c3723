"""Chooses how a response is relayed to its client: one table for all paths."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.answers.exchange import Exchange
from manager.forwarding.answer import COLLECTED
from manager.forwarding.messages import begins_as_answer
from manager.http.request import HttpRequest
from manager.relay.large_json import LargeBody
from manager.routing.json.forwardable_result import RESULT_BEGIN
from manager.routing.request_heads.request_metadata import JSON
from manager.upstream.response import UpstreamResponse

_INSPECTED: Final = 2048
"""The first bytes of a body, which have to show that it is the response; else the body is parsed."""


class RelayKind(Enum):
    """The ways to relay a response."""

    COLLECTED = auto()
    """The whole body is collected, and written as JSON or as an event."""
    SESSION = auto()
    """The session layer parses each message, and turns input requests into requests to the client."""
    JSON_STREAM = auto()
    """A large JSON body is written as it arrives."""
    JSON_TRIMMED = auto()
    """As JSON_STREAM, without the trim that session clients do not get."""
    EVENT_RELAY = auto()
    """An event stream is written event by event."""


class ResponseTraits(NamedTuple):
    """The traits that decide how a response is relayed; in `TABLE`, None matches any value.

    Attributes:
        is_session: whether the client has a session.
        is_events: whether the response is an event stream; otherwise it is JSON.
        is_large: whether the JSON body is longer than `COLLECTED` bytes, or of unknown length.
        has_trim: whether the server announced a trim, as all that a session client needs changed.
        names_id: whether the beginning of the body shows that it is the response to the request.
        accepts_json, accepts_events: which media types the client accepts.
    """

    is_session: bool | None
    is_events: bool | None
    is_large: bool | None
    has_trim: bool | None
    names_id: bool | None
    accepts_json: bool | None
    accepts_events: bool | None


TABLE: Final = (
    #               session events large  trim   id    JSON   events
    (ResponseTraits(True, False, True, True, True, True, None), RelayKind.JSON_TRIMMED),
    (ResponseTraits(True, None, None, None, None, None, None), RelayKind.SESSION),
    (ResponseTraits(False, False, True, None, True, True, None), RelayKind.JSON_STREAM),
    (ResponseTraits(False, True, None, None, None, None, True), RelayKind.EVENT_RELAY),
    (ResponseTraits(False, None, None, None, None, None, None), RelayKind.COLLECTED),
)
"""The first matching row applies."""


def relay_kind(traits: ResponseTraits) -> RelayKind:
    """The relay kind of the first row that matches these traits."""
    return next(kind for row, kind in TABLE if _fits(row, traits))


def _fits(row: ResponseTraits, traits: ResponseTraits) -> bool:
    return all(wanted is None or wanted == own for wanted, own in zip(row, traits, strict=True))


def sink_for(
    http_request: HttpRequest, exchange: Exchange, response: UpstreamResponse, limit: int
) -> LargeBody | None:
    """The sink for a response that can be written as it arrives; None if a task has to relay it.

    Args:
        response: the response, whose head and beginning of the body have arrived.
        limit: largest response in bytes.

    Raises:
        InterruptedAnswerError: the body is the response to another request.
    """
    head, fields, identity = response.head, exchange.headers, exchange.message.id
    length = head.content_length or 0
    if head.content_type != JSON.encode() or not COLLECTED < length <= limit:
        return None
    trim, names_id = _announced(response, bytes(response.first[:_INSPECTED]), identity)
    kind = relay_kind(
        ResponseTraits(
            is_session=exchange.session is not None,
            is_events=False,
            is_large=True,
            has_trim=trim is not None,
            names_id=names_id,
            accepts_json=exchange.accepts_json,
            accepts_events=exchange.accepts_events,
        )
    )
    match kind, trim:
        case RelayKind.JSON_STREAM, _:
            return LargeBody(http_request, head.status, fields, length)
        case RelayKind.JSON_TRIMMED, ResultTrim():
            return LargeBody(http_request, 200, fields, length, begin=RESULT_BEGIN % identity, trim=trim)
    return None


def _announced(response: UpstreamResponse, first: bytes, identity: bytes) -> tuple[ResultTrim | None, bool]:
    """The trim of a JSON body, None if not usable, and whether the body begins with the request's id."""
    names_id, trim, begin = begins_as_answer(first, identity), response.head.trim, RESULT_BEGIN % identity
    if trim is None or response.head.status != 200 or not first.startswith(begin):
        return None, names_id
    return (trim if len(first) >= len(begin) + trim.first else None), names_id
