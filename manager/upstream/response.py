"""The response that arrives on a connection, and the ways in which it can fail.

It holds what was received and not yet read; the bytes come from `connection.py`. Every failure says whether
the request may have been read by the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from enum import Enum, auto
from typing import Protocol

import msgspec

from protocol.internal.result_trim import ResultTrim

# Unread body at which the server is made to wait. One more read (300 KiB at most) can already be under way.
HIGH_WATER = 256 * 1024


Piece = bytes | memoryview


class Blame(Enum):
    """May the request have been read by the server? Only what was not delivered may be sent again."""

    NOT_DELIVERED = auto()
    MAYBE_DELIVERED = auto()


class UpstreamFailure(Exception):
    """No (complete) answer came.

    `cause` is one of: connection_refused, connect_failed, timeout, identity_mismatch, connection_lost,
    truncated_response, malformed_response, head_too_large, pool_closed, abandoned (by its own caller).
    """

    def __init__(self, blame: Blame, cause: str) -> None:
        super().__init__(f"{cause} ({blame.name.lower()})")
        self.blame = blame
        self.cause = cause


class ResponseTooLarge(Exception):
    """The body is longer than the caller's `limit` in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"response body exceeds {limit} bytes")
        self.limit = limit


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """Status and fields, names in lower case; `content_length` in bytes, None if only the end tells.

    `content_type` is the media type alone, in lower case; empty where none is named. `trim`: what of it a
    session does not get, as the server says.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content_length: int | None
    content_type: bytes = b""
    trim: ResultTrim | None = None

    def header(self, name: bytes) -> bytes | None:
        """Value of the first field of that name (any case), or None."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


class Carrier(Protocol):
    """The connection a response arrives on, as far as the response needs it."""

    def close(self, cause: str) -> None:
        """End the connection at once."""

    def resume_reading(self) -> None:
        """Let the server send on."""

    def lend(self) -> None:
        """Give pieces that are not to be kept."""


class Taker(Protocol):
    """Who takes an answer that comes in one piece, and leaves any other to a response object."""

    def take(self, data: bytes) -> bool:
        """The first bytes of the answer: whether they are all of it and were taken.

        Then this has also called `release`. Otherwise nothing was done, and `respond` follows.
        """

    def respond(self) -> UpstreamResponse:
        """What is to get the answer instead, whatever comes of it."""


class UpstreamResponse:
    """A response whose head has arrived; its body is read once, by one reader.

    A task reads it with `chunks()` or `read()`; who would rather be called sets `on_data`, and takes what has
    come with `take()`. It owns what was received and not yet read: its connection is free again once the last
    byte is in.
    """

    __slots__ = ("_buffer", "_buffered", "_carrier", "_cause", "_connection", "_waiter", "head", "on_data")

    head: ResponseHead  # set before the response is handed out

    def __init__(self, connection: Carrier) -> None:
        self._carrier = connection
        self._connection: Carrier | None = connection  # None once the response has ended, well or badly
        self._cause: str | None = None  # why it ended badly
        self._buffer: list[Piece] = []
        self._buffered = 0
        self._waiter: asyncio.Future[None] | None = None
        self.on_data: Callable[[], None] | None = None  # called when something came, while nobody reads

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come, for good or bad."""
        return self._connection is None

    @property
    def failure(self) -> UpstreamFailure | None:
        """How it ended badly, if it did."""
        return None if self._cause is None else UpstreamFailure(Blame.MAYBE_DELIVERED, self._cause)

    def take(self) -> list[Piece]:
        """The pieces of the body that have come since; the server may send on."""
        pieces, self._buffer = self._buffer, []
        self._buffered = 0
        if self._connection is not None:
            self._connection.resume_reading()
        return pieces

    def put_back(self, pieces: list[Piece]) -> None:
        """Have what was taken read by somebody else."""
        self._buffer[:0] = pieces
        self._buffered += sum(map(len, pieces))

    @property
    def is_events(self) -> bool:
        """Whether it is known to be an event stream."""
        return hasattr(self, "head") and self.head.content_type == b"text/event-stream"

    @property
    def first(self) -> Piece:
        """The first piece of the body, as long as nobody has taken it; empty where there is none."""
        return self._buffer[0] if self._buffer else b""

    def whole(self) -> bytes | None:
        """The whole body, where all of it is here and nobody has read of it; it is not taken out."""
        if self._connection is not None or self._cause is not None:
            return None
        return bytes(self._buffer[0]) if len(self._buffer) == 1 else b"".join(self._buffer)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, never an empty piece; the server waits while 256 KiB are unread.

        Raises UpstreamFailure where the body breaks off, after everything received before that.
        """
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    # An iterator object, not an async generator: nothing is left suspended when its reader breaks off.
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
        """The whole body.

        Raises ResponseTooLarge above `limit` bytes, as soon as that is known (a connection still busy with it
        is closed), and UpstreamFailure if the body breaks off.
        """
        size, announced = 0, self.head.content_length or 0
        pieces: list[Piece] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look() -> None:
            nonlocal size
            has_ended, new = self.has_ended, self.take()
            pieces.extend(new)
            size += sum(map(len, new))
            if done.done() or not (has_ended or max(size, announced) > limit):
                return
            done.set_result(None)
            if not has_ended:
                self.abandon()  # at once: many pieces may come before the reader's turn

        self.on_data = look
        look()
        try:
            await done
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            self.on_data = None
        if max(size, announced) > limit:
            self.abandon()
            raise ResponseTooLarge(limit)
        self._raise_failure()
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    async def aclose(self) -> None:
        """As `abandon`."""
        self.abandon()

    def abandon(self) -> None:
        """Ends the interest in this response: an unfinished one closes its connection at once. Idempotent."""
        self._buffer.clear()
        self._buffered = 0
        if self._connection is not None:
            self._connection.close("abandoned")

    def reject(self) -> None:
        """Close its connection even if the response is complete: what comes on it may be out of step."""
        self.abandon()
        self._carrier.close("malformed_response")

    async def body_arrival(self) -> None:
        """Return when some of the body is there, or its end; raises UpstreamFailure where it breaks off."""
        while not self._buffer and self._connection is not None:
            await self._wait()
        if not self._buffer:
            self._raise_failure()

    async def head_arrival(self) -> None:
        """For the connection: returns when `head` is set, raises UpstreamFailure when it never will be."""
        while not hasattr(self, "head"):
            self._raise_failure()
            await self._wait()

    def receive_head(self, head: ResponseHead) -> None:
        """For the connection."""
        self.head = head
        self._wake()

    def receive_whole(self, head: ResponseHead, body: bytes) -> None:
        """For the connection: takes a response that came in one piece; nothing more will come."""
        self.head = head
        if body:
            self._buffer.append(body)
            self._buffered = len(body)
        self.end(None)

    def lend(self) -> None:
        """From now on pieces may be lent to who takes them, for as long as `on_data` is being called."""
        if self._connection is not None:
            self._connection.lend()

    def receive_body(self, piece: bytes | memoryview) -> bool:
        """For the connection: takes a piece of the body; True when the server should wait."""
        self._buffer.append(piece)
        self._buffered += len(piece)
        self._wake()
        if self._buffer and not isinstance(piece, bytes):
            self._buffer[-1] = bytes(piece)  # it was lent, and nobody took it
        return self._buffered > HIGH_WATER

    def end(self, cause: str | None) -> None:
        """For the connection: nothing more will come; `cause` is None after a complete response."""
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
            # Only through our own claim: the connection may be busy with another call already.
            self.abandon()
            raise
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self.on_data is not None:
            self.on_data()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
