"""One request at an MCP route with its whole body, and the answer that is written to it.

It knows bytes and heads; what they say is decided by those who answer (`endpoints/mcp.py`,
`relay/writer.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache
from math import inf
from typing import Any, Final, Protocol

from http_server.backpressure import Room
from http_server.deadline import Deadline
from http_server.head import Framing
from manager.http.keep_alives import KeepAlives
from manager.routing.request_heads.admission import RequestHead
from manager.routing.request_heads.request_metadata import JSON, RequestMetadata
from manager.routing.request_heads.response_head import render_head
from manager.upstream.response import Piece

JOINED: Final = 64 * 1024
"""Bytes of a body up to which it is joined to its head."""


class Line(Protocol):
    """The connection, as far as an answer needs it.

    Attributes:
        deadline: what is called unless the request is answered in time.
        room: whether the client keeps up.
    """

    deadline: Deadline
    room: Room

    @property
    def keep_alives(self) -> KeepAlives:
        """What fills the silences of event streams."""

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the connections at the latest."""

    def send(self, pieces: Sequence[Piece]) -> None:
        """Hand bytes to the transport at once."""

    def answered(self, *, is_last: bool) -> None:
        """The answer is complete; the next request may follow."""

    def abort(self) -> None:
        """Cut the connection off."""


_FORGOTTEN: Final = RequestMetadata(RequestHead("GET", "/", ()), None)


class HttpRequest:
    """A request and its answer: `respond`, or `start`, `write` and `finish`.

    Attributes:
        session: the id of the session that it names.
        body: of the request, whole.
        keep_alives: what fills its silences, where the answer is an event stream.
        on_disconnect: called when the client leaves before its answer is complete.
        is_begun: whether an answer has begun.
        received_at: when the request was here as a whole (monotonic).
    """

    __slots__ = (
        "_framing",
        "_is_chunked",
        "_line",
        "body",
        "is_begun",
        "keep_alives",
        "metadata",
        "on_disconnect",
        "received_at",
        "session",
    )

    def __init__(
        self, line: Line, metadata: RequestMetadata, session: str | None, framing: Framing, body: bytes
    ) -> None:
        self.received_at = time.monotonic()
        self.metadata = metadata
        self.session = session
        self.body = body
        self.keep_alives = line.keep_alives
        self.on_disconnect: Callable[[], object] | None = None
        self.is_begun = False
        self._line: Line | None = line
        self._framing = framing
        self._is_chunked = False

    def release_input(self) -> None:
        """What the request said is of interest to nobody any more: its answer will take long."""
        self.metadata, self.body = _FORGOTTEN, b""

    @property
    def is_repeatable(self) -> bool:
        """Whether more such requests may follow on the connection, and come without asking first."""
        framing = self._framing
        is_plain = framing.length is not None and framing.allows_chunked
        return is_plain and not framing.is_last and not framing.waits

    @property
    def allows_chunked(self) -> bool:
        """Whether the end of an answer can be told whose length is not known when it begins."""
        return self._framing.allows_chunked

    @property
    def is_disconnected(self) -> bool:
        """Whether nobody waits for what would be written now: the client left, or it has its answer."""
        return self._line is None

    def left(self) -> None:
        """For the connection: the client is gone."""
        self._line = None
        if self.on_disconnect is not None:
            self.on_disconnect()

    def set_deadline(self, seconds: float, on_late: Callable[[], None]) -> None:
        """Call this unless it is answered within so many seconds."""
        if self._line is not None:
            self._line.deadline.set(seconds, on_late)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Do the work of answering in a task that is cancelled when the client leaves; None where it has."""
        if self._line is None:
            work.close()
            return None
        task = self._line.run(work)
        self.on_disconnect = task.cancel
        return task

    # -- answers in one piece ---------------------------------------------------------------------------

    def respond(
        self, status: int, body: bytes = b"", fields: Mapping[str, str] | None = None, kind: str = JSON
    ) -> None:
        """Write a whole answer; where the client is gone, nothing happens.

        Raises:
            ValueError: a field would break the head apart; nothing was written.
        """
        head = self._head(status, kind if body else None, fields or {}, None if status == 204 else len(body))
        if self.metadata.method == "HEAD":
            body = b""
        line, self._line = self._line, None
        if line is not None:
            self.is_begun = True
            line.send([head + body] if len(body) < JOINED else [head, body])
            line.answered(is_last=self._framing.is_last)

    # -- answers that come ------------------------------------------------------------------------------

    def start(
        self,
        status: int,
        fields: Mapping[str, str],
        kind: str,
        length: int | None = None,
        begin: bytes = b"",
    ) -> None:
        """Begin an answer whose body follows.

        Args:
            length: of the body in bytes, where it is known.
            begin: its first bytes.

        Raises:
            ConnectionError: the client is gone; so do `write` and `finish`.
        """
        self._is_chunked = length is None and self._framing.allows_chunked
        if self._is_chunked:
            fields = {**fields, "Transfer-Encoding": "chunked"}
        self.is_begun = True
        if begin and self._is_chunked:
            begin = b"%x\r\n%b\r\n" % (len(begin), begin)
        self._here().send([self._head(status, kind, fields, length) + begin])

    async def write(self, data: bytes) -> None:
        """Write some of the body, which is not empty; returns when the client keeps up."""
        self.put(data)
        await self.drain()

    @property
    def is_full(self) -> bool:
        """Whether the client does not keep up."""
        return self._line is not None and self._line.room.is_short

    async def drain(self) -> None:
        """Return when the client keeps up."""
        await self._here().room.wait()

    def put(self, *pieces: Piece) -> bool:
        """Write some of the body, which is not empty; whether the client keeps up."""
        line = self._here()
        line.send([b"%x\r\n" % sum(map(len, pieces)), *pieces, b"\r\n"] if self._is_chunked else pieces)
        return not line.room.is_short

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call this when the client keeps up again, or is gone."""
        self._here().room.then(call)

    def finish(self, last: bytes = b"") -> None:
        """End the body, with its last bytes where some are left."""
        line, self._line = self._here(), None
        if self._is_chunked:
            last = b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last) if last else b"0\r\n\r\n"
        if last:
            line.send([last])
        line.answered(is_last=self._framing.is_last)

    def abort(self) -> None:
        """Cut the connection off: the only honest end of an answer that cannot be completed."""
        line, self._line = self._line, None
        if line is not None:
            line.abort()

    def _here(self) -> Line:
        if self._line is None:
            raise ConnectionResetError("the client is gone")
        return self._line

    def _head(self, status: int, kind: str | None, fields: Mapping[str, str], length: int | None) -> bytes:
        lasting = lasting_lines(status, kind, tuple(fields.items()), is_last=self._framing.is_last)
        own = b"" if length is None else b"\r\nContent-Length: %d" % length
        return b"%b%b\r\nDate: %b\r\n\r\n" % (lasting, own, date(int(time.time())))


@lru_cache(maxsize=1024)  # answers to one client differ in their bodies alone
def lasting_lines(
    status: int, kind: str | None, fields: tuple[tuple[str, str], ...], *, is_last: bool
) -> bytes:
    """What does not change from one answer to the next, without the last line end.

    Raises:
        ValueError: a field would break the head apart.
    """
    said = [("Content-Type", kind)] if kind is not None else []
    ends = [("Connection", "close")] if is_last else []
    return render_head(status, [*said, *fields, *ends]).removesuffix(b"\r\n\r\n")


@lru_cache(maxsize=1)
def date(now: int) -> bytes:
    """A time in seconds since 1970, as HTTP writes it."""
    return formatdate(now, usegmt=True).encode()


class DateLine:
    """The end of a head that has the date in it, written once for each second."""

    __slots__ = ("_line", "_until")

    def __init__(self) -> None:
        self._line = b""
        self._until = -inf

    def at(self, now: float) -> bytes:
        """The line at monotonic time `now`, with the line end before it and the empty line behind it."""
        if now >= self._until:
            wall = time.time()
            self._line = b"\r\nDate: %b\r\n\r\n" % date(int(wall))
            self._until = now + 1 - wall % 1
        return self._line
