"""Chooses how a response is relayed to its client, and relays large JSON without parsing it.

One table decides for all paths. A large JSON response is written as it arrives, for session clients without
its trim (`lm_tools_bridge/protocol/internal/result_trim.py`): the members that only stateless clients get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager import runtime_tuning as malloc
from manager.answers.exchange import Exchange
from manager.forwarding.answer import COLLECTED
from manager.forwarding.forwarded_call import begins_as_answer
from manager.http.request import HttpRequest
from manager.routing.legacy_result import RESULT_BEGIN, RESULT_END
from manager.routing.request_metadata import JSON
from manager.upstream.response import Piece, UpstreamResponse

JOINED: Final = 16 * 1024
"""Bytes of the body that are written together with the head: copying them costs less than a second write."""
_WHOLE: Final = ResultTrim(0, 0)


class LargeBody:
    """Writes the response as it arrives, the head together with the first bytes of the body.

    Args:
        http_request: the client's request.
        status: HTTP status of the response.
        fields: header fields of the response.
        length: bytes of the server's body, more than `COLLECTED`.
        begin: the bytes before the first removed ones; the first piece contains both.
        trim: how many bytes are removed after `begin`, and before the end.
    """

    __slots__ = (
        "_begin",
        "_fields",
        "_has_begun",
        "_http_request",
        "_length",
        "_received",
        "_status",
        "_tail",
        "_trim",
    )

    def __init__(
        self,
        http_request: HttpRequest,
        status: int,
        fields: Mapping[str, str],
        length: int,
        *,
        begin: bytes = b"",
        trim: ResultTrim = _WHOLE,
    ) -> None:
        malloc.keep_freed_memory()
        self._http_request = http_request
        self._status = status
        self._fields = fields
        self._length = length
        self._begin = begin
        self._trim = trim
        self._tail = length - len(RESULT_END) - trim.last
        self._has_begun = False
        self._received = 0

    def put(self, data: Piece) -> bool:
        """Write the next piece; return whether the client can take more now.

        Raises:
            ConnectionError: the client has disconnected.
        """
        kept = self._kept(data) if self._has_begun else self._begun(memoryview(data))
        return self._http_request.put(*kept) if any(kept) else not self._http_request.is_full

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this once the client can take more or has disconnected."""
        self._http_request.when_writable(call)

    def finish(self) -> None:
        """End the response."""
        self._http_request.finish()

    def _begun(self, data: memoryview) -> tuple[Piece, ...]:
        """Write the head and the first bytes; return the rest that is not removed."""
        begin, (first, last) = self._begin, self._trim
        self._has_begun = True
        body = data[len(begin) + first :]
        self._received = len(data) - len(body[JOINED:])
        joined = b"".join((begin, body[:JOINED]))
        self._http_request.start(self._status, self._fields, JSON, self._length - first - last, joined)
        return self._kept(body[JOINED:])

    def _kept(self, data: Piece) -> tuple[Piece, ...]:
        """The parts of a piece before and after the bytes that are removed before the end."""
        begin, self._received = self._received, self._received + len(data)
        if self._received <= self._tail or not self._trim.last:
            return (data,)
        behind = self._tail + self._trim.last
        return data[: max(0, self._tail - begin)], data[max(0, behind - begin) :]


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
