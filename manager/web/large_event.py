"""An answer that came as an event, on its way to a client of the era of sessions: as JSON, and not read.

Its server said before the event what of it a session does not get (`protocol/trim.py`), and that nothing
follows it. How long it is, is known at the end alone: what may be the end is kept back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from manager.answers.collect import unusable
from manager.routing.arrival import JSON
from manager.routing.plain_results import BEGIN, in_session
from manager.upstream.answer import COLLECTED, InterruptedAnswerError
from manager.upstream.response import Piece
from manager.web.incoming import Incoming
from manager.web.poured import Poured
from protocol import sse
from protocol.errors import Reason, Refusal
from protocol.trim import Trim

_JOINED: Final = 16 * 1024
"""Bytes that are written with the head."""
_RESULT_END: Final = b"}}"
_END: Final = _RESULT_END + sse.EVENT_END


class LargeEvent(Poured):
    """Where the bytes of such an answer go. A small one is written at the end, in one piece.

    Args:
        incoming: gets it.
        fields: for the head.
        start: where in the stream the response begins.
        identity: the id of the call as JSON text, which the response has.
        trim: what is cut out of it.
        limit: bytes of the largest stream.
        now: a monotonic clock.
    """

    __slots__ = ("_back", "_fields", "_held", "_identity", "_limit", "_start", "_tail", "_trim")

    def __init__(
        self,
        incoming: Incoming,
        fields: Mapping[str, str],
        *,
        start: int,
        identity: bytes,
        trim: Trim,
        limit: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(incoming, now)
        self._fields = fields
        self._start = start
        self._identity = identity
        self._trim = trim
        self._limit = limit
        self._held: list[bytes] | None = []  # None once an answer has begun
        self._back = trim.last + len(_END)
        self._tail = b""  # the last bytes that came then

    def put(self, data: Piece) -> bool:
        """Take a piece; whether the client keeps up."""
        self.at += len(data)
        if self.at > self._limit:
            refusal = Refusal(Reason.RESPONSE_TOO_LARGE, "response too large", delivered="unknown")
            raise InterruptedAnswerError(refusal)
        if self._held is None:
            return self._write(data)
        self._held.append(bytes(data))
        return self.at <= COLLECTED or self._begin(b"".join(self._held))

    def finish(self) -> None:
        """All of it has come."""
        if self._held is not None:
            body = self._whole(b"".join(self._held))
            if body is None:
                raise InterruptedAnswerError(unusable(200))
            self._incoming.respond(200, body, self._fields)
        elif self._tail.endswith(_END):
            self._incoming.finish(_RESULT_END)
        else:
            raise InterruptedAnswerError(unusable(200))

    def _whole(self, stream: bytes) -> bytes | None:
        event = sse.lone_event(stream, 0, len(stream))
        if event is None:
            return None
        return in_session(stream, event.start, event.end, self._identity, self._trim)

    def _begin(self, stream: bytes) -> bool:
        """Write the head, and of what came what cannot be the end."""
        self._held = None
        begin = BEGIN % self._identity
        rest = memoryview(stream)[self._start + len(begin) + self._trim.first :]
        joined = b"".join((begin, rest[:_JOINED]))
        self._incoming.start(200, self._fields, JSON, None, joined)
        return self._write(rest[_JOINED:])

    def _write(self, data: Piece) -> bool:
        back = self._back
        if len(data) > back:
            ready: tuple[Piece, ...] = (self._tail, data[:-back])
            self._tail = bytes(data[-back:])
        else:
            text = self._tail + data
            ready = (text[:-back],)
            self._tail = text[-back:]
        return self._incoming.put(*ready) if any(ready) else not self._incoming.is_full
