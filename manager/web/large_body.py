"""A large answer of JSON on its way to its client, piece by piece: neither collected nor read.

In a session it goes without what only the stateless era knows: the server said where that is
(`protocol/trim.py`), and nothing is written before the beginning has shown that this is the response that was
asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from manager.answers.collect import unusable
from manager.answers.exchange import Exchange
from manager.routing.arrival import JSON
from manager.routing.plain_results import BEGIN
from manager.upstream import heap
from manager.upstream.answer import COLLECTED, InterruptedAnswerError
from manager.upstream.response import Piece, ResponseHead
from manager.web.incoming import Incoming
from protocol.trim import Trim

_JOINED: Final = 16 * 1024
"""Bytes that are written with the head. Each write may wake the client, and copying these is quicker."""
_WHOLE: Final = Trim(0, 0)
_END: Final = b"}}"


class LargeBody:
    """Where the bytes of such an answer go.

    Args:
        incoming: gets the head, too, with the first bytes.
        status: for that head.
        fields: for that head.
        length: of the whole body as it comes, in bytes; more than are collected.
        begin: how the body has to begin.
        trim: what is cut out behind that, and before the end.

        now: a monotonic clock.

    Attributes:
        at: how much of the body came, in bytes.
        waited: seconds for which the client was waited for.
    """

    __slots__ = (
        "_begin",
        "_fields",
        "_held",
        "_incoming",
        "_length",
        "_now",
        "_status",
        "_tail",
        "_trim",
        "at",
        "waited",
    )

    def __init__(
        self,
        incoming: Incoming,
        status: int,
        fields: Mapping[str, str],
        length: int,
        *,
        begin: bytes = b"",
        trim: Trim = _WHOLE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._incoming = incoming
        self._status = status
        self._fields = fields
        self._length = length
        self._begin = begin
        self._trim = trim
        self._tail = length - len(_END) - trim.last
        self._held: bytes | None = b""  # None once it has begun
        self._now = now
        heap.keep()
        self.at = 0
        self.waited = 0.0

    def put(self, data: Piece) -> bool:
        """Take a piece; whether the client keeps up.

        Raises:
            InterruptedAnswerError: it is another response; nothing was written.
            ConnectionError: the client is gone.
        """
        if self._held is None:
            kept = self._kept(data)
        else:
            data = b"".join((self._held, data)) if self._held else data
            if len(data) < len(self._begin) + self._trim.first:
                self._held = bytes(data)
                return True
            kept = self._begun(memoryview(data))
        return self._incoming.put(kept) if kept else not self._incoming.is_full

    def when_room(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        since = self._now()

        def resume() -> None:
            self.waited += self._now() - since
            call()

        self._incoming.when_room(resume)

    def _begun(self, data: memoryview) -> Piece:
        """Write the head and the first bytes; what is left of the others."""
        begin, (first, last) = self._begin, self._trim
        if data[: len(begin)] != begin:
            raise InterruptedAnswerError(unusable(self._status))
        self._held = None
        body = data[len(begin) + first :]
        self.at = len(data) - len(body[_JOINED:])
        joined = b"".join((begin, body[:_JOINED]))
        self._incoming.start(self._status, self._fields, JSON, self._length - first - last, joined)
        return self._kept(body[_JOINED:])

    def _kept(self, data: Piece) -> Piece:
        """What is left of a piece, without what is cut out before the end."""
        begin, self.at = self.at, self.at + len(data)
        if self.at <= self._tail or not self._trim.last:
            return data
        behind = self._tail + self._trim.last
        return b"".join((data[: max(0, self._tail - begin)], data[max(0, behind - begin) :]))


def unread(incoming: Incoming, exchange: Exchange, head: ResponseHead, limit: int) -> LargeBody | None:
    """One for an answer that nobody has to read; None for any other.

    Args:
        head: of the answer.
        limit: bytes of the largest answer.
    """
    length, fields = head.content_length or 0, exchange.headers
    if head.content_type != JSON.encode() or not COLLECTED < length <= limit:
        return None
    if exchange.session is None:
        return LargeBody(incoming, head.status, fields, length)
    if head.trim is None or head.status != 200:
        return None
    return LargeBody(incoming, 200, fields, length, begin=BEGIN % exchange.message.id, trim=head.trim)
