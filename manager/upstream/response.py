"""The response that arrives on a connection: its head, heads that came before, and its body.

`connection.py` delivers the bytes. `failures.py` has what can go wrong.

A server sends the same head again and again, so parsed heads are remembered. Two heads are the same if they
differ only in the digits of their single `Content-Length` and in the timing of the call
(`lm_tools_bridge/protocol/internal/call_reports.py`); with a chunked body they must be identical. A known
head is recognised in a whole response in one read, and at the beginning of a response of known length.
Everything else goes to the parser (`response_parser.py`), which also adds heads.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal import call_reports
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.configuration.budgets import MAX_ANSWER_HEADS
from manager.upstream.failures import Blame, ResponseTooLarge, UpstreamFailure

OWN_BLOCK: Final = 64 * 1024
"""Bytes from which a body gets a block of its own."""


class CollectedBody:
    """A body that is being collected.

    Args:
        length: bytes of the whole body; 0 if it is not known.

    Attributes:
        size: bytes so far.
    """

    __slots__ = ("_block", "_pieces", "size")

    def __init__(self, length: int) -> None:
        self.size = 0
        self._block = bytearray(length) if length > OWN_BLOCK else None
        self._pieces: list[bytes] = []

    def add(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Add the next pieces, which may be valid during this call only."""
        for piece in pieces:
            if self._block is None:
                self._pieces.append(bytes(piece))
            else:
                self._block[self.size : self.size + len(piece)] = piece
            self.size += len(piece)

    def whole(self) -> bytes:
        """What was collected."""
        if self._block is not None:
            return bytes(memoryview(self._block)[: self.size])
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """Status and header fields of a response.

    Attributes:
        headers: Names in lower case.
        content_length: Bytes of the body; None if only its end tells.
        content_type: The media type without parameters, in lower case; empty if there is none.
        trim: The part of the result that a session does not get, as the server states it.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content_length: int | None
    content_type: bytes = b""
    trim: ResultTrim | None = None

    def header(self, name: bytes) -> bytes | None:
        """The value of the first field of that name (in any case), or None."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


# Bytes of unread body at which reading from the server pauses. One more read (300 KiB at most) can follow.
HIGH_WATER = 256 * 1024


Piece = bytes | memoryview


class Carrier(Protocol):
    """The part of a connection that a response uses."""

    is_out_of_step: bool

    def close(self, cause: str) -> None:
        """Close the connection at once."""

    def close_idle(self, cause: str) -> None:
        """Close the connection unless it carries a request."""

    def pause_reading(self) -> None:
        """Read no more from the server until `resume_reading`."""

    def resume_reading(self) -> None:
        """Resume reading from the server."""

    def lend(self) -> None:
        """Deliver pieces as memoryviews that are valid during `on_data` only."""


class FirstReadHandler(Protocol):
    """Handles an answer that arrives in one read; any other answer goes to a response object."""

    def take(self, data: bytes) -> bool:
        """Handle the first bytes of the answer.

        Returns:
            Whether they are the whole answer; then this has called `Connection.release`. Otherwise nothing
            was done, and `respond` is called.
        """

    def respond(self) -> UpstreamResponse:
        """The response object that gets the answer instead."""


class UpstreamResponse:
    """A response, whose body is read once, by one reader.

    A task reads it with `chunks()` or `read()`, or a callback in `on_data` reads it with `take()`. Unread
    data is buffered, so the connection is free as soon as the last byte has arrived.
    """

    __slots__ = (
        "_buffer",
        "_buffered",
        "_carrier",
        "_cause",
        "_connection",
        "_waiter",
        "head",
        "on_data",
        "took",
    )

    head: ResponseHead  # set before the response is handed out

    def __init__(self, connection: Carrier) -> None:
        self._carrier = connection
        # where the time went (`lm_tools_bridge/protocol/internal/call_reports.py`): from the head or trailer
        self.took = b""
        self._connection: Carrier | None = connection  # None once the response has ended or failed
        self._cause: str | None = None  # of its failure
        self._buffer: list[Piece] = []
        self._buffered = 0
        self._waiter: asyncio.Future[None] | None = None
        self.on_data: Callable[[], None] | None = None  # called for new data and at the end

    @property
    def has_ended(self) -> bool:
        """Whether the response is complete or has failed."""
        return self._connection is None

    @property
    def failure(self) -> UpstreamFailure | None:
        """The failure, if it has failed."""
        return None if self._cause is None else UpstreamFailure(Blame.MAYBE_DELIVERED, self._cause)

    def take(self) -> list[Piece]:
        """Take the buffered pieces of the body, and resume reading from the server."""
        pieces, self._buffer = self._buffer, []
        self._buffered = 0
        if self._connection is not None:
            self._connection.resume_reading()
        return pieces

    def keep_reading(self, *, is_wanted: bool) -> None:
        """Read from the server, or not for now."""
        if self._connection is not None:
            switch = self._connection.resume_reading if is_wanted else self._connection.pause_reading
            switch()

    @property
    def is_events(self) -> bool:
        """Whether its head has arrived and says that it is an event stream."""
        return hasattr(self, "head") and self.head.content_type == b"text/event-stream"

    @property
    def first(self) -> Piece:
        """The first buffered piece of the body, which stays buffered; empty if there is none."""
        return self._buffer[0] if self._buffer else b""

    def whole(self) -> bytes | None:
        """The whole body if it is buffered completely, else None; it stays buffered."""
        if self._connection is not None or self._cause is not None:
            return None
        return bytes(self._buffer[0]) if len(self._buffer) == 1 else b"".join(self._buffer)

    def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives, in pieces that are never empty.

        Reading from the server pauses while 256 KiB are unread.

        Raises:
            UpstreamFailure: The body broke off; raised after all data that was received.
        """
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    # An iterator, not an async generator, which would stay suspended when its reader stops early.
    async def __anext__(self) -> bytes:
        while not self._buffer:
            if self._connection is None:
                self._raise_failure()
                raise StopAsyncIteration
            await self._wait()
        piece = self._buffer.pop(0)
        self._buffered -= len(piece)
        if not self._buffer and self._connection is not None:
            self._connection.resume_reading()
        return bytes(piece)

    async def read(self, limit: int) -> bytes:
        """Read the whole body.

        Raises:
            ResponseTooLarge: It is larger than `limit` bytes. Raised as soon as that is known; an unfinished
                connection is closed.
            UpstreamFailure: It broke off.
        """
        announced = self.head.content_length or 0
        body = CollectedBody(announced if announced <= limit else 0)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def take_new() -> None:
            has_ended = self.has_ended
            body.add(self.take())
            if done.done() or not (has_ended or max(body.size, announced) > limit):
                return
            done.set_result(None)
            if not has_ended:
                self.abandon()  # at once, since many pieces can arrive before the reader runs

        self.on_data = take_new
        self.lend()
        take_new()
        try:
            await done
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            self.on_data = None
        if max(body.size, announced) > limit:
            self.abandon()
            raise ResponseTooLarge(limit)
        self._raise_failure()
        return body.whole()

    def abandon(self) -> None:
        """Drop the response; an unfinished one closes its connection at once. Idempotent."""
        self._buffer.clear()
        self._buffered = 0
        if self._connection is not None:
            self._connection.close("abandoned")

    def reject(self) -> None:
        """Close the connection even if the response is complete, since later responses may be out of step.

        A connection that carries another call by now stays open: that call checks its own response.
        """
        self._carrier.is_out_of_step = True
        self.abandon()
        self._carrier.close_idle("malformed_response")

    async def body_arrival(self) -> None:
        """Wait for the first bytes of the body or its end.

        Raises:
            UpstreamFailure: It broke off.
        """
        while not self._buffer and self._connection is not None:
            await self._wait()
        if not self._buffer:
            self._raise_failure()

    async def head_arrival(self) -> None:
        """Wait until `head` is set.

        Raises:
            UpstreamFailure: The connection ended before that.
        """
        while not hasattr(self, "head"):
            self._raise_failure()
            await self._wait()

    def receive_head(self, head: ResponseHead, took: bytes) -> None:
        """Set the head, and where the time of the call went; called by the connection."""
        self.head, self.took = head, took
        self._wake()

    def receive_whole(self, head: ResponseHead, took: bytes, body: bytes) -> None:
        """Do the same, and set the whole body; called by the connection for a response in one read."""
        self.head, self.took = head, took
        if body:
            self._buffer.append(body)
            self._buffered = len(body)
        self.end(None)

    def lend(self) -> None:
        """Allow pieces to be memoryviews that are valid only while `on_data` is called."""
        if self._connection is not None:
            self._connection.lend()

    def receive_body(self, piece: bytes | memoryview) -> bool:
        """Add a piece of the body; called by the connection.

        Returns:
            Whether reading from the server should pause.
        """
        self._buffer.append(piece)
        self._buffered += len(piece)
        self._wake()
        if self._buffer and not isinstance(piece, bytes):
            self._buffer[-1] = bytes(piece)  # not taken by `on_data`, so it must be copied
        return self._buffered > HIGH_WATER

    def end(self, cause: str | None) -> None:
        """End the response; called by the connection. `cause` is None if it is complete."""
        self._connection = None
        self._cause = cause
        self._wake()

    def _raise_failure(self) -> None:
        if (failure := self.failure) is not None:
            raise failure

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            # Not `_carrier.close`: the connection may already carry another call.
            self.abandon()
            raise
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self.on_data is not None:
            self.on_data()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


LONGEST_HEAD: Final = 2048
"""Most bytes of a cached head."""
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,9})(?=\r\n)")
_TOOK: Final = b"\r\n%b: " % headers.TOOK.encode()
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_LINE_END: Final = b"\r\n"
_END: Final = b"\r\n\r\n"
MAX_CHUNKS: Final = 16
"""Chunks of a body above which the parser is as fast."""

_heads: dict[bytes, ResponseHead] = {}


def read_known_response(data: bytes) -> tuple[ResponseHead, bytes, bytes] | None:
    """Head, timing and body if `data` is exactly one response with a cached head, else None."""
    end = data.find(_END, 0, LONGEST_HEAD) + len(_END)
    digits = _LENGTH.search(data, 0, end)
    if digits is None:
        chunked = _heads.get(data[:end])
        body = None if chunked is None else join_chunks(data, end)
        return None if chunked is None or body is None else (chunked, b"", body)
    found = _of_length(data, digits, end) if end + int(digits[1]) == len(data) else None
    return None if found is None else (*found, data[end:])


def read_known_beginning(data: bytes) -> tuple[ResponseHead, bytes, int] | None:
    """The cached head of an incomplete response of known length, its timing and the offset of its body.

    None if the response is complete or its head is not cached.
    """
    end = data.find(_END, 0, LONGEST_HEAD) + len(_END)
    digits = _LENGTH.search(data, 0, end)
    if digits is None or end + int(digits[1]) <= len(data):
        return None
    found = _of_length(data, digits, end)
    return None if found is None else (*found, end)


def remember_head(data: bytes, head: ResponseHead) -> None:
    """Cache the head that `data` begins with and the parser parsed as `head`, on a keep-alive connection."""
    end = data.find(_END, 0, LONGEST_HEAD) + len(_END)
    found = _LENGTH.findall(data, 0, end)
    expected = [head.content_length] if head.content_length is not None else []
    if [int(one) for one in found] != expected or end < len(_END) or not data.startswith(b"HTTP/1.1 "):
        return
    digits = _LENGTH.search(data, 0, end)
    key, took = (data[:end], b"") if digits is None else _key(data, *digits.span(1), end)
    if took != (head.header(headers.TOOK.encode()) or b""):
        return  # the timing is where it would not be found again
    if len(_heads) >= MAX_ANSWER_HEADS:
        _heads.clear()
    _heads[key] = head


def join_chunks(data: bytes, start: int) -> bytes | None:
    """The chunked body that begins at `start`; None unless it ends with the data and has no trailer."""
    pieces: list[bytes] = []
    while len(pieces) < MAX_CHUNKS and (found := _SIZE.match(data, start)) is not None:
        size, begin = int(found[1], 16), found.end()
        start = begin + size + len(_LINE_END)
        if not data.startswith(_LINE_END, begin + size):
            return None
        if not size:
            return b"".join(pieces) if start == len(data) else None
        pieces.append(data[begin : begin + size])
    return None


def _key(data: bytes, begin: int, behind: int, end: int) -> tuple[bytes, bytes]:
    """The head without the length in `data[begin:behind]` and without the timing behind it; the latter."""
    took = data.find(_TOOK, behind, end)
    if took < 0:
        return data[:begin] + data[behind:end], b""
    took += len(_TOOK)
    line_end = data.index(_LINE_END, took)
    return data[:begin] + data[behind:took] + data[line_end:end], data[took:line_end]


def _of_length(data: bytes, digits: re.Match[bytes], end: int) -> tuple[ResponseHead, bytes] | None:
    """Cached head and timing of a response whose head ends at `end`, with the length that its digits say."""
    begin, behind = digits.span(1)
    key, took = _key(data, begin, behind, end)
    known = _heads.get(key)
    if known is None or len(took) > call_reports.LONGEST:
        return None
    return _with_length(known, int(digits[1])), took


def _with_length(head: ResponseHead, length: int) -> ResponseHead:
    if head.content_length == length:
        return head
    fields = tuple(
        (name, b"%d" % length if name == b"content-length" else value) for name, value in head.headers
    )
    return replace(head, headers=fields, content_length=length)
