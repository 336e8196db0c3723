"""One request with its whole body, and the answer that is written to it.

It knows bytes and heads; what they say is decided by those who answer.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from http_server.backpressure import Room
from http_server.response_head import render_head
from protocol import headers
from protocol.internal.result_trim import ResultTrim
from workspace_server.http.head_reader import Head

JSON: Final = "application/json"
JOINED: Final = 64 * 1024
"""Bytes of a body up to which it is joined to its head."""


class Line(Protocol):
    """The connection, as far as an answer needs it.

    Attributes:
        room: whether the caller keeps up.
    """

    room: Room

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of answering in a task, which is cancelled when the caller leaves."""

    def send(self, pieces: Sequence[bytes]) -> None:
        """Hand bytes to the transport at once."""

    def answered(self, *, is_last: bool) -> None:
        """The answer is complete; the next request may follow."""

    def abort(self) -> None:
        """Cut the connection off."""


class HttpRequest:
    """A request and its answer: `respond`, or `start`, `write` and `finish`.

    Attributes:
        head: of the request.
        body: of the request, whole.
        is_begun: whether an answer has begun.
    """

    __slots__ = ("_is_chunked", "_line", "body", "head", "is_begun")

    def __init__(self, line: Line, head: Head, body: bytes) -> None:
        self.head = head
        self.body = body
        self.is_begun = False
        self._line: Line | None = line
        self._is_chunked = False

    def left(self) -> None:
        """For the connection: the caller is gone."""
        self._line = None

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of answering in a task, which is cancelled when the caller leaves."""
        if self._line is None:
            work.close()
        else:
            self._line.run(work)

    def respond(self, status: int, body: bytes = b"", trim: ResultTrim | None = None) -> None:
        """Write a whole answer of JSON; where the caller is gone, nothing happens.

        Args:
            trim: what of the answer a session does not get, where that is known.
        """
        line, self._line = self._line, None
        if line is None:
            return
        self.is_begun = True
        is_last = self.head.framing.is_last
        size, begin = len(body), _begin(status, bool(body), is_last, trim)
        if size < JOINED:
            line.send((b"%bContent-Length: %d\r\n\r\n%b" % (begin, size, body),))
        else:
            line.send((b"%bContent-Length: %d\r\n\r\n" % (begin, size), body))
        line.answered(is_last=is_last)

    def start(self, fields: Mapping[str, str]) -> None:
        """Begin an answer whose body follows.

        Raises:
            ConnectionError: the caller is gone; so do `write` and `finish`.
        """
        self._is_chunked = self.head.framing.allows_chunked
        ends = {"Transfer-Encoding": "chunked"} if self._is_chunked else {}
        if self.head.framing.is_last:
            ends["Connection"] = "close"
        self.is_begun = True
        self._here().send([render_head(200, {**fields, **ends}.items())])

    async def write(self, data: bytes) -> None:
        """Write some of the body, which is not empty; returns when the caller keeps up."""
        line = self._here()
        line.send([b"%x\r\n" % len(data), data, b"\r\n"] if self._is_chunked else [data])
        await line.room.wait()

    def finish(self) -> None:
        """End the body."""
        line, self._line = self._here(), None
        if self._is_chunked:
            line.send([b"0\r\n\r\n"])
        line.answered(is_last=self.head.framing.is_last)

    def abort(self) -> None:
        """Cut the connection off: the only honest end of an answer that cannot be completed."""
        line, self._line = self._line, None
        if line is not None:
            line.abort()

    def _here(self) -> Line:
        if self._line is None:
            raise ConnectionResetError("the caller is gone")
        return self._line


@lru_cache(maxsize=64)
def _begin(status: int, has_body: bool, is_last: bool, trim: ResultTrim | None) -> bytes:
    """What does not change from one answer to the next."""
    kind = [("Content-Type", JSON)] if has_body else []
    if trim is not None:
        kind.append((headers.RESULT_TRIM, trim.value))
    ends = [("Connection", "close")] if is_last else []
    return render_head(status, [*kind, *ends]).removesuffix(b"\r\n")
