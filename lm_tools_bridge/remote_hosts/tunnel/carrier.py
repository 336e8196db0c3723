"""Carries many byte streams over one pair of pipes: HTTP/2, each stream a CONNECT (RFC 9113 §8.5).

h2 frames the streams and keeps their windows; this module moves bytes between them and their owners. Neither
side can make the other hold more than its windows: what an owner has not taken is not acknowledged, and what
the pipe does not take is not framed. A side that sends much that is no content loses the line, since each
such frame costs time here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Final, Protocol

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from lm_tools_bridge.remote_hosts.tunnel.stream import Nobody, StreamOwner, TunnelStream

MAX_BACKLOG: Final = 4 * 1024 * 1024
"""Bytes that a pipe may lag behind. Only answers to floods of small frames can reach it."""
PIECE: Final = 16 * 1024
"""Bytes that are parsed at once, so that a flood is noticed soon."""
PIPE_ROOM: Final = 256 * 1024
"""Bytes in the pipe's buffer above which no data is framed."""
STREAM_WINDOW: Final = 1024 * 1024
"""What one stream may have under way: 10 MB/s at a round trip of 100 ms, and the memory that an owner who
takes nothing can cost."""
LINE_WINDOW: Final = 16 * 1024 * 1024
"""Sixteen streams with full windows: the memory that a line can cost at most."""
MAX_FRAME: Final = 64 * 1024
"""A head waits behind one frame at most: 50 ms at 10 Mbit/s. Smaller frames would make large results slower.
"""
MAX_STREAMS: Final = 400
"""Streams at a time; one carries one request at a time."""
IDLE_FRAMES: Final = 500
"""Frames without content in one second at which the other side counts as hostile."""

IDLE_BYTES: Final = 128 * 1024
"""Bytes in one second that are no content, in frames of any kind, at which it counts as hostile too.

Twice the largest frame: one of which a part has arrived counts until its rest is there.
"""

EXPECTED_BYTES: Final = 8 * 1024 * 1024
"""Eight streams with full windows (`STREAM_WINDOW`)."""
EXPECTED_S: Final = 60.0
"""What may still arrive of streams that this side has dropped: at most so much, and not longer."""

_IDLE: Final = (
    h2.events.PingReceived,
    h2.events.RemoteSettingsChanged,
    h2.events.SettingsAcknowledged,
    h2.events.PriorityUpdated,
    h2.events.UnknownFrameReceived,
)


class FloodGuard:
    """Counts frames without content, and bytes that are no content."""

    def __init__(self) -> None:
        self._count, self._size, self._since = 0, 0, float("-inf")
        self._expected, self._expected_at = 0, float("-inf")

    def expect(self, size: int, now: float) -> None:
        """Note that so many bytes may be on their way for a stream that this side drops at this time."""
        expected = self._expected if now - self._expected_at < EXPECTED_S else 0
        self._expected, self._expected_at = min(expected + size, EXPECTED_BYTES), now

    def is_flood(self, events: Collection[h2.events.Event], size: int, now: float) -> bool:
        """Count a read at this monotonic time; returns whether it is too much.

        Args:
            events: of the read.
            size: of the read, in bytes.
        """
        if now - self._since > 1:
            self._count, self._size, self._since = 0, 0, now
        self._count += sum(map(_is_idle, events))
        content = sum(len(event.data or b"") for event in events if isinstance(event, h2.events.DataReceived))
        self._size += self._unexpected(size - content, now)
        return self._count > IDLE_FRAMES or self._size > IDLE_BYTES

    def _unexpected(self, size: int, now: float) -> int:
        """How many of these bytes belong to no stream that was dropped."""
        if size <= 0 or now - self._expected_at >= EXPECTED_S:
            return size
        expected = min(size, self._expected)
        self._expected -= expected
        return size - expected


def _is_idle(event: h2.events.Event) -> bool:
    """Whether a frame says nothing about any stream."""
    if isinstance(event, h2.events.DataReceived):
        return not event.data and event.stream_ended is None
    return isinstance(event, _IDLE)


class Pipe(Protocol):
    """The writing side of the line."""

    def write(self, data: bytes) -> None:
        """Write, or buffer."""

    def get_write_buffer_size(self) -> int:
        """Bytes that are buffered."""

    def abort(self) -> None:
        """Close at once."""


class TransportPipe:
    """A transport of asyncio as a pipe."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Write, or buffer."""
        self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        """Bytes that are buffered."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()


class Carrier:
    """One end of a line.

    Args:
        pipe: its writing side.
        is_client: whether this side opens streams.
        on_stream: makes the owner of a stream that the other side opens, by its target; None refuses it.
        on_closed: called once, when the line is unusable, with a clause that says why.
        now: monotonic seconds.

    Attributes:
        latency_s: of the last ping; None before its answer.
        heard_at: monotonic time when something arrived last.
    """

    def __init__(
        self,
        pipe: Pipe,
        *,
        is_client: bool,
        on_closed: Callable[[str], None],
        now: Callable[[], float],
        on_stream: Callable[[TunnelStream, str], StreamOwner | None] = lambda stream, target: None,
    ) -> None:
        self._h2 = _h2_state(is_client=is_client)
        self._pipe = pipe
        self._on_closed: Callable[[str], None] | None = on_closed
        self._on_stream = on_stream
        self._now = now
        self._streams: dict[int, TunnelStream] = {}
        self._blocked: dict[int, TunnelStream] = {}  # in order: who waited longest is first
        self._is_feeding = False
        self._pinged_at: float | None = None
        self._flood_guard = FloodGuard()
        self.latency_s: float | None = None
        self.heard_at = now()

    @property
    def is_open(self) -> bool:
        """Whether the line can be used."""
        return self._on_closed is not None

    @property
    def stream_count(self) -> int:
        """The number of open streams."""
        return len(self._streams)

    def start(self) -> None:
        """Send the preface and the settings."""
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(LINE_WINDOW - 65535)
        self._write()

    def open_stream(self, target: str, make_owner: Callable[[TunnelStream], StreamOwner]) -> TunnelStream:
        """Open a stream. Bytes may be written at once; if the target is not there, the stream is lost.

        Raises:
            ConnectionError: the line is gone, or has no room for a further stream.
        """
        if not self.is_open:
            raise ConnectionResetError("the line is gone")
        try:
            identity = self._h2.get_next_available_stream_id()
            self._h2.send_headers(identity, [(":method", "CONNECT"), (":authority", target)])
        except h2.exceptions.ProtocolError as error:  # too many streams, or no id is left
            raise ConnectionRefusedError("the line has no room for a further stream") from error
        stream = TunnelStream(self, identity, Nobody())
        stream.owner = make_owner(stream)
        self._streams[identity] = stream
        self._write()
        return stream

    def accept(self, stream: TunnelStream) -> None:
        """Tell the other side that the target of a stream that it opened is connected."""
        if stream.is_open:
            self._h2.send_headers(stream.id, [(":status", "200")])
            self._write()

    def ping(self) -> None:
        """Measure the latency of the line, unless an earlier ping is not answered yet."""
        if self.is_open and self._pinged_at is None:
            self._pinged_at = self._now()
            self._h2.ping(b"lmtbping")
            self._write()

    def close(self, why: str) -> None:
        """Close the line; all streams are lost. Idempotent."""
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is None:
            return
        self._pipe.abort()
        streams = list(self._streams.values())
        self._streams.clear()
        self._blocked.clear()
        for stream in streams:
            stream.close()
            stream.owner.stream_lost(is_line=True)
        on_closed(why)

    # -- the pipe -------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take what arrived over the line."""
        if not self.is_open:
            return
        self.heard_at = self._now()
        view = memoryview(data)
        while view and self.is_open:
            piece, view = view[:PIECE], view[PIECE:]
            self._feed(bytes(piece))
        self.flush()

    def _feed(self, piece: bytes) -> None:
        try:
            events = self._h2.receive_data(piece)
        except (h2.exceptions.ProtocolError, UnicodeDecodeError) as error:
            self.close(f"the other side broke the protocol ({type(error).__name__})")
            return
        self._is_feeding = True
        try:
            for event in events:
                self._handle(event)
        finally:
            self._is_feeding = False
        if self._flood_guard.is_flood(events, len(piece), self.heard_at):
            self.close("the other side floods the line")

    def flush(self) -> None:
        """Frame what waits, as far as the windows and the pipe have room. Call it when the pipe drained."""
        if not self.is_open:
            return
        for stream in list(self._blocked.values()):
            if not self._has_room():
                break
            self._frame(stream)
        self._write()

    def _has_room(self) -> bool:
        return self._pipe.get_write_buffer_size() < PIPE_ROOM

    def _write(self) -> None:
        if self._is_feeding or not self.is_open:
            return
        data = self._h2.data_to_send()
        if data:
            self._pipe.write(data)
            if self._pipe.get_write_buffer_size() > MAX_BACKLOG:
                self.close("the other side does not read")

    # -- streams --------------------------------------------------------------------------------------------

    def flush_stream(self, stream: TunnelStream) -> None:
        """Frame what a stream has to send."""
        if stream.id in self._blocked:
            return
        self._frame(stream)
        self._write()

    def _frame(self, stream: TunnelStream) -> None:
        """Frame the bytes of one stream until it has none, or there is no room."""
        try:
            while self._has_room():
                window = self._h2.local_flow_control_window(stream.id)
                piece = stream.next_piece(min(window, self._h2.max_outbound_frame_size))
                if piece is None:
                    break
                self._h2.send_data(stream.id, bytes(piece[0]), end_stream=piece[1])
                if piece[1]:
                    self._half_closed(stream, is_ours=True)
                if not self._is_feeding:
                    self._write()
        except h2.exceptions.ProtocolError:  # closed by the other side; its event is under way
            self._blocked.pop(stream.id, None)
            return
        self._blocked.pop(stream.id, None)
        if stream.is_open and stream.is_waiting:
            self._blocked[stream.id] = stream
        elif stream.is_open:
            stream.owner.stream_writable()

    def acknowledge(self, stream: TunnelStream, count: int) -> None:
        """Make room for further bytes of a stream."""
        self._h2.acknowledge_received_data(count, stream.id)
        self._write()

    def reset(self, stream: TunnelStream) -> None:
        """Drop a stream, and tell the other side, which may have filled its window meanwhile."""
        self._forget(stream)
        with contextlib.suppress(h2.exceptions.ProtocolError):  # both sides have ended it
            self._flood_guard.expect(self._h2.remote_flow_control_window(stream.id), self.heard_at)
            self._h2.reset_stream(stream.id, h2.errors.ErrorCodes.CANCEL)
        self._write()

    def _forget(self, stream: TunnelStream) -> None:
        """Remove a stream, and give back the room of what nobody took."""
        self._streams.pop(stream.id, None)
        self._blocked.pop(stream.id, None)
        if untaken := stream.close():
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._h2.acknowledge_received_data(untaken, stream.id)

    def _half_closed(self, stream: TunnelStream, *, is_ours: bool) -> None:
        if is_ours:
            stream.has_sent_end = True
        else:
            stream.has_received_end = True
        if stream.has_sent_end and stream.has_received_end:
            self._forget(stream)

    # -- events ---------------------------------------------------------------------------------------------

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.DataReceived(stream_id=identity, data=data, flow_controlled_length=length):
                self._receive(identity or 0, data or b"", length or 0)
            case h2.events.WindowUpdated(stream_id=identity):
                self._widened(identity or 0)
            case h2.events.RemoteSettingsChanged():
                self._widened(0)
            case h2.events.RequestReceived(stream_id=identity, headers=fields):
                self._request(identity or 0, {str(name): str(value) for name, value in fields or ()})
            case h2.events.StreamEnded(stream_id=identity):
                if (stream := self._streams.get(identity or 0)) is not None:
                    self._half_closed(stream, is_ours=False)
                    stream.owner.stream_ended()
            case h2.events.StreamReset(stream_id=identity):
                self._was_reset(identity or 0)
            case h2.events.PingAckReceived():
                if self._pinged_at is not None:
                    self.latency_s, self._pinged_at = self._now() - self._pinged_at, None
            case h2.events.ConnectionTerminated():
                self.close("the other side closed the line")

    def _receive(self, identity: int, data: bytes, length: int) -> None:
        stream = self._streams.get(identity)
        padding = length - len(data)
        if stream is None:
            if length:
                self._h2.acknowledge_received_data(length, identity)
            return
        if padding:
            self._h2.acknowledge_received_data(padding, identity)
        if data:
            stream.receive(data)

    def _widened(self, identity: int) -> None:
        if identity == 0:  # of the whole line
            for stream in list(self._blocked.values()):
                self._frame(stream)
        elif (one := self._blocked.get(identity)) is not None:
            self._frame(one)

    def _request(self, identity: int, fields: dict[str, str]) -> None:
        stream = TunnelStream(self, identity, Nobody())
        target = fields.get(":authority", "") if fields.get(":method") == "CONNECT" else ""
        owner = self._on_stream(stream, target)
        if owner is None:
            self._h2.reset_stream(identity, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        stream.owner = owner
        self._streams[identity] = stream

    def _was_reset(self, identity: int) -> None:
        stream = self._streams.get(identity)
        if stream is None:
            return
        self._forget(stream)
        stream.owner.stream_lost(is_line=False)


def _h2_state(*, is_client: bool) -> h2.connection.H2Connection:
    """The state, before the preface is sent."""
    config = h2.config.H2Configuration(client_side=is_client, header_encoding="utf-8")
    state = h2.connection.H2Connection(config)
    state.local_settings = h2.settings.Settings(
        client=is_client,
        initial_values={
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            h2.settings.SettingCodes.MAX_FRAME_SIZE: MAX_FRAME,
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 4096,
            h2.settings.SettingCodes.ENABLE_PUSH: 0,
        },
    )
    state.max_inbound_frame_size = MAX_FRAME  # h2 notes it for later changes of settings alone
    return state
