"""One stream of a line: what it has to send, and what arrived that nobody took. Does no I/O."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class StreamOwner(Protocol):
    """What a stream belongs to, on either side. Nothing here may raise."""

    def stream_data(self, data: bytes) -> None:
        """Take what arrived. `TunnelStream.taken` says when there is room for more."""

    def stream_ended(self) -> None:
        """The other side sends nothing more."""

    def stream_lost(self, *, is_line: bool) -> None:
        """The stream is gone; `is_line` says that the line itself is. The last call."""

    def stream_writable(self) -> None:
        """All that was written has been framed."""


class Framer(Protocol):
    """What frames the bytes of streams (`carrier.py`)."""

    def flush_stream(self, stream: TunnelStream) -> None:
        """Frame what a stream has to send."""

    def acknowledge(self, stream: TunnelStream, count: int) -> None:
        """Make room for further bytes of a stream."""

    def reset(self, stream: TunnelStream) -> None:
        """Drop a stream, and tell the other side."""


class TunnelStream:
    """One stream of a line."""

    __slots__ = (
        "_carrier",
        "_ends",
        "_pending",
        "_untaken",
        "has_received_end",
        "has_sent_end",
        "id",
        "is_open",
        "owner",
        "pending_size",
    )

    def __init__(self, carrier: Framer, stream_id: int, owner: StreamOwner) -> None:
        self._carrier = carrier
        self._pending: deque[memoryview] = deque()
        self._ends = False
        self._untaken = 0
        self.has_sent_end = self.has_received_end = False
        self.id = stream_id
        self.owner = owner
        self.is_open = True
        self.pending_size = 0
        """Bytes that were written, but not framed yet."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; those for which there is no room yet are kept."""
        if self.is_open and data and not self._ends and not self.has_sent_end:
            self._pending.append(memoryview(data))
            self.pending_size += len(data)
            self._carrier.flush_stream(self)

    def end(self) -> None:
        """Send nothing more, once everything is sent."""
        if self.is_open and not self._ends and not self.has_sent_end:
            self._ends = True
            self._carrier.flush_stream(self)

    def reset(self) -> None:
        """Drop the stream at once. Its owner is not told."""
        if self.is_open:
            self._carrier.reset(self)

    def taken(self, count: int) -> None:
        """Say that so many bytes that arrived were taken, which makes room for more."""
        if self.is_open and count:
            self._untaken -= count
            self._carrier.acknowledge(self, count)

    # -- called by the carrier ------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether something is still to be framed."""
        return bool(self._pending) or self._ends

    def receive(self, data: bytes) -> None:
        """Pass on what arrived."""
        self._untaken += len(data)
        self.owner.stream_data(data)

    def next_piece(self, limit: int) -> tuple[memoryview, bool] | None:
        """At most so many bytes to frame, and whether they are the last; None if nothing is to be sent."""
        if not self._pending:
            is_end, self._ends = self._ends, False
            return (memoryview(b""), True) if is_end else None
        if limit <= 0:
            return None
        piece = self._pending[0][:limit]
        rest = self._pending[0][limit:]
        if rest:
            self._pending[0] = rest
        else:
            self._pending.popleft()
        self.pending_size -= len(piece)
        is_end = self._ends and not self._pending
        if is_end:
            self._ends = False
        return piece, is_end

    def close(self) -> int:
        """Mark the stream as gone; returns the bytes that arrived and were never taken."""
        self.is_open = False
        self._pending.clear()
        self.pending_size = 0
        untaken, self._untaken = self._untaken, 0
        return untaken


class Nobody:
    """The owner of a stream that is just being made."""

    def stream_data(self, data: bytes) -> None:
        """Nothing arrives yet."""

    def stream_ended(self) -> None:
        """Nothing ends yet."""

    def stream_lost(self, *, is_line: bool) -> None:
        """Nothing is lost yet."""

    def stream_writable(self) -> None:
        """Nothing is written yet."""
