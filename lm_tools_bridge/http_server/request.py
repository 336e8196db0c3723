"""One complete request, and the response that is written to it.

A handler calls `respond`, or `start`, `write` and `finish`. What a request means is decided by the programs,
each of which adds its own attributes in a subclass.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache
from math import inf
from typing import Any, ClassVar, Final, Protocol

from lm_tools_bridge.http_server.request_head import Framing
from lm_tools_bridge.http_server.response_head import FixedLines


@lru_cache(maxsize=1)
def http_date(now: int) -> bytes:
    """A time in seconds since 1970, in the format of RFC 9110 §5.6.7."""
    return formatdate(now, usegmt=True).encode()


class DateLine:
    """The `Date` field as the last line of a head, rendered once for each second."""

    __slots__ = ("_line", "_until")

    def __init__(self) -> None:
        self._line = b""
        self._until = -inf

    def at(self, now: float) -> bytes:
        """The line at monotonic time `now`, with the line end before it and the empty line behind it."""
        if now >= self._until:
            wall = time.time()
            self._line = b"\r\nDate: %b\r\n\r\n" % http_date(int(wall))
            self._until = now + 1 - wall % 1
        return self._line


class Backpressure:
    """The write side of one connection.

    Attributes:
        is_paused: whether the transport's write buffer is above its high-water mark.
    """

    __slots__ = ("_resumed", "is_paused")

    def __init__(self) -> None:
        self._resumed: asyncio.Future[None] | None = None
        self.is_paused = False

    def pause(self) -> None:
        """Note that the transport paused writing."""
        if self._resumed is None:
            self._resumed = asyncio.get_running_loop().create_future()
            self.is_paused = True

    def resume(self, fault: Exception | None = None) -> None:
        """Release the writers that wait; with `fault`, `drain` raises it for them."""
        resumed, self._resumed, self.is_paused = self._resumed, None, False
        if resumed is None:
            return
        if fault is None:
            resumed.set_result(None)
        else:
            resumed.set_exception(fault)
            resumed.exception()  # marked as retrieved: perhaps no writer waits

    def call_when_resumed(self, call: Callable[[], None]) -> None:
        """Call `call` when writing resumes or the connection is lost; soon where writing is not paused."""
        if self._resumed is None:
            asyncio.get_running_loop().call_soon(call)
        else:
            self._resumed.add_done_callback(lambda _: call())

    async def drain(self) -> None:
        """Return when writing is not paused.

        Raises:
            Exception: the fault that `resume` was given.
        """
        if self._resumed is not None:
            await asyncio.shield(self._resumed)


JSON: Final = "application/json"
JOINED: Final = 64 * 1024
"""Bytes of a body up to which it is joined to its head."""
_NO_FIELDS: Final[Mapping[str, str]] = {}

Piece = bytes | memoryview


class ResponseConnection(Protocol):
    """The connection, as far as a response needs it.

    Attributes:
        backpressure: whether the client keeps up.
    """

    backpressure: Backpressure

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the server at the latest."""

    def send(self, pieces: Sequence[Piece]) -> None:
        """Hand bytes to the transport at once."""

    def answered(self, *, is_last: bool) -> None:
        """Note that the response is complete; another request follows unless it `is_last`."""

    def abort(self) -> None:
        """Close the connection without flushing."""


class BaseRequest:
    """A request and its response.

    Attributes:
        body: the whole body of the request.
        on_disconnect: called when the client disconnects before the response is complete.
        is_begun: whether the response has begun.
    """

    __slots__ = ("_connection", "_framing", "_is_chunked", "body", "is_begun", "on_disconnect")

    fixed_lines: ClassVar[FixedLines]
    """Renders the heads of responses; set by the program."""
    has_date: ClassVar[bool] = True
    """Whether responses have a `Date` field."""

    def __init__(self, connection: ResponseConnection, framing: Framing, body: bytes) -> None:
        self.body = body
        self.on_disconnect: Callable[[], object] | None = None
        self.is_begun = False
        self._connection: ResponseConnection | None = connection
        self._framing = framing
        self._is_chunked = False

    @property
    def allows_chunked(self) -> bool:
        """Whether a response may be chunked: not in HTTP/1.0."""
        return self._framing.allows_chunked

    @property
    def is_disconnected(self) -> bool:
        """Whether no response can be written: the client disconnected, or the response is complete."""
        return self._connection is None

    @property
    def is_full(self) -> bool:
        """Whether the transport's write buffer is above its high-water mark."""
        return self._connection is not None and self._connection.backpressure.is_paused

    def disconnected(self) -> None:
        """Note that the client disconnected; called by the connection."""
        self._connection = None
        on_disconnect, self.on_disconnect = self.on_disconnect, None  # breaks a cycle, to spare the collector
        if on_disconnect is not None:
            on_disconnect()

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Answer in a task that is cancelled when the client disconnects; None where it has."""
        if self._connection is None:
            work.close()
            return None
        task = self._connection.run(work)
        self.on_disconnect = task.cancel
        return task

    # -- whole responses ------------------------------------------------------------------------------------

    def respond(
        self,
        status: int,
        body: bytes = b"",
        fields: Mapping[str, str] = _NO_FIELDS,
        kind: str = JSON,
        last_line: bytes = b"",
    ) -> None:
        """Write a whole response; does nothing if the client has disconnected.

        Args:
            last_line: a whole field that differs in each response, without line end; the others are cached.

        Raises:
            ValueError: a field has CR, LF or NUL in it; nothing was written.
        """
        head = self._head(
            status, kind if body else None, fields, None if status == 204 else len(body), last_line
        )
        if self._framing.is_head_only:
            body = b""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.is_begun = True
            connection.send((head + body,) if len(body) < JOINED else (head, body))
            connection.answered(is_last=self._framing.is_last)

    # -- responses in parts ---------------------------------------------------------------------------------

    def start(
        self,
        status: int,
        fields: Mapping[str, str],
        kind: str,
        length: int | None = None,
        begin: bytes = b"",
    ) -> None:
        """Begin a response whose body follows.

        Args:
            status: of HTTP.
            fields: further header fields.
            kind: the content type.
            length: bytes of the body, where that is known.
            begin: the first bytes of the body.

        Raises:
            ConnectionError: the client has disconnected; also raised by `write`, `put` and `finish`.
        """
        self._is_chunked = length is None and self._framing.allows_chunked
        if self._is_chunked:
            fields = {**fields, "Transfer-Encoding": "chunked"}
        head = self._head(status, kind, fields, length)
        self.is_begun = True
        if begin and self._is_chunked:
            begin = b"%x\r\n%b\r\n" % (len(begin), begin)
        self._open().send((head + begin,))

    def put(self, *pieces: Piece) -> bool:
        """Write a part of the body, which is not empty; return whether more may be written at once."""
        connection = self._open()
        if self._is_chunked:
            connection.send((b"%x\r\n" % sum(map(len, pieces)), *pieces, b"\r\n"))
        else:
            connection.send(pieces)
        return not connection.backpressure.is_paused

    async def write(self, data: bytes) -> None:
        """Write a part of the body, which is not empty; return when the client keeps up."""
        self.put(data)
        await self.drain()

    async def drain(self) -> None:
        """Return when the client keeps up."""
        await self._open().backpressure.drain()

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call `call` when the client keeps up again or has disconnected."""
        self._open().backpressure.call_when_resumed(call)

    def finish(self, last: bytes = b"", trailer: bytes = b"") -> None:
        """End the body, with its last bytes where some are left.

        Args:
            trailer: a whole field behind a chunked body, without line end.
        """
        connection, self._connection = self._open(), None
        if self._is_chunked:
            end = b"0\r\n%b\r\n\r\n" % trailer if trailer else b"0\r\n\r\n"
            last = b"%x\r\n%b\r\n%b" % (len(last), last, end) if last else end
        if last:
            connection.send((last,))
        connection.answered(is_last=self._framing.is_last)

    def abort(self) -> None:
        """Cut the connection off, so that the client does not take an incomplete response for a whole one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def _open(self) -> ResponseConnection:
        if self._connection is None:
            raise ConnectionResetError("the client is gone")
        return self._connection

    def _head(
        self,
        status: int,
        kind: str | None,
        fields: Mapping[str, str],
        length: int | None,
        last_line: bytes = b"",
    ) -> bytes:
        fixed = self.fixed_lines(status, kind, tuple(fields.items()), is_last=self._framing.is_last)
        measured = b"" if length is None else b"\r\nContent-Length: %d" % length
        if last_line:
            measured += b"\r\n" + last_line
        if not self.has_date:
            return b"%b%b\r\n\r\n" % (fixed, measured)
        return b"%b%b\r\nDate: %b\r\n\r\n" % (fixed, measured, http_date(int(time.time())))
