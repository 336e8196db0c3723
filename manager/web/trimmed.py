"""A large result on its way to a session, piece by piece, without what only the stateless era knows.

The server said where that is (`protocol/trim.py`), so the result is neither collected nor read. Nothing is
written before its beginning has shown that it is the response that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from manager.answers.collect import unusable
from manager.routing.arrival import JSON
from manager.routing.plain_results import BEGIN
from manager.upstream.answer import InterruptedAnswerError
from manager.web.incoming import Incoming
from protocol.trim import Trim


class Trimmed:
    """Where the bytes of such a response go.

    Args:
        incoming: gets the head, too, with the length of what is left.
        fields: for that head.
        identity: the id of the request as JSON text.
        length: of the whole response in bytes; the trim lies within.
    """

    __slots__ = ("_at", "_begin", "_fields", "_held", "_incoming", "_length", "_tail", "_trim")

    def __init__(
        self, incoming: Incoming, fields: Mapping[str, str], identity: bytes, trim: Trim, length: int
    ) -> None:
        self._incoming = incoming
        self._fields = fields
        self._begin = BEGIN % identity
        self._trim = trim
        self._length = length
        self._tail = length - len(b"}}") - trim.last
        self._held: bytes | None = b""  # None once it has begun
        self._at = 0

    def put(self, data: bytes) -> bool:
        """Take a piece; whether the client keeps up.

        Raises:
            InterruptedAnswerError: it is another response; nothing was written.
            ConnectionError: the client is gone.
        """
        if self._held is not None:
            data = self._held = self._held + data
            if len(data) < len(self._begin) + self._trim.first:
                return True
            data = self._begun(data)
        kept = self._kept(data)
        return self._incoming.put(kept) if kept else not self._incoming.is_full

    def when_room(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        self._incoming.when_room(call)

    def _begun(self, data: bytes) -> bytes:
        """Write the head; what there is of the body, without what is cut out at the beginning."""
        begin, (first, last) = self._begin, self._trim
        if not data.startswith(begin):
            raise InterruptedAnswerError(unusable(200))
        self._held = None
        self._at = first
        self._incoming.start(200, self._fields, JSON, self._length - first - last)
        return begin + data[len(begin) + first :]

    def _kept(self, data: bytes) -> bytes:
        begin, self._at = self._at, self._at + len(data)
        if self._at <= self._tail:
            return data
        behind = self._tail + self._trim.last
        return data[: max(0, self._tail - begin)] + data[max(0, behind - begin) :]
