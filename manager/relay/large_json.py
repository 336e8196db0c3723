"""Passes a large JSON response to a client unread, for a session without the trimmed bytes.

In a session it goes without what only the stateless era knows: the server said where that is
(`protocol/internal/result_trim.py`). That this is the response that was asked for, its beginning has shown
(`relay_plan.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from manager.http.request import HttpRequest
from manager.relay.body_sink import JOINED, BodySink
from manager.routing.json.forwardable_result import RESULT_END
from manager.routing.request_heads.request_metadata import JSON
from manager.upstream.response import Piece
from protocol.internal.result_trim import ResultTrim

_WHOLE: Final = ResultTrim(0, 0)


class LargeBody(BodySink):
    """Where the bytes of such an answer go.

    Args:
        http_request: gets the head, too, with the first bytes.
        status: for that head.
        fields: for that head.
        length: of the whole body as it comes, in bytes; more than are collected.
        begin: how the body begins, all in its first piece, with what is cut out behind it.
        trim: what is cut out behind that, and before the end.
        now: a monotonic clock.
    """

    __slots__ = ("_begin", "_fields", "_has_begun", "_length", "_status", "_tail", "_trim")

    def __init__(
        self,
        http_request: HttpRequest,
        status: int,
        fields: Mapping[str, str],
        length: int,
        *,
        begin: bytes = b"",
        trim: ResultTrim = _WHOLE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(http_request, now)
        self._status = status
        self._fields = fields
        self._length = length
        self._begin = begin
        self._trim = trim
        self._tail = length - len(RESULT_END) - trim.last
        self._has_begun = False

    def put(self, data: Piece) -> bool:
        """Take a piece; whether the client keeps up."""
        kept = self._kept(data) if self._has_begun else self._begun(memoryview(data))
        return self._http_request.put(*kept) if any(kept) else not self._http_request.is_full

    def finish(self) -> None:
        """The body has come to its end."""
        self._http_request.finish()

    def _begun(self, data: memoryview) -> tuple[Piece, ...]:
        """Write the head and the first bytes; what is left of the others."""
        begin, (first, last) = self._begin, self._trim
        self._has_begun = True
        body = data[len(begin) + first :]
        self.at = len(data) - len(body[JOINED:])
        joined = b"".join((begin, body[:JOINED]))
        self._http_request.start(self._status, self._fields, JSON, self._length - first - last, joined)
        return self._kept(body[JOINED:])

    def _kept(self, data: Piece) -> tuple[Piece, ...]:
        """What is left of a piece, without what is cut out before the end."""
        begin, self.at = self.at, self.at + len(data)
        if self.at <= self._tail or not self._trim.last:
            return (data,)
        behind = self._tail + self._trim.last
        return data[: max(0, self._tail - begin)], data[max(0, behind - begin) :]
