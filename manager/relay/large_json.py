"""Forwards a large JSON response to a client without parsing it; removes the trim for session clients.

The trim (`lm_tools_bridge/protocol/internal/result_trim.py`) marks the members that only stateless clients
get. `relay_plan.py` has checked by its beginning that the body is the response to the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager import runtime_tuning as malloc
from manager.http.request import HttpRequest
from manager.routing.json.forwardable_result import RESULT_END
from manager.routing.request_heads.request_metadata import JSON
from manager.upstream.response import Piece

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
