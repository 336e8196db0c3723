"""A stream of a line as an asyncio transport: its protocol need not know that there is no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from lm_tools_bridge.remote_hosts.tunnel.carrier import Carrier
from lm_tools_bridge.remote_hosts.tunnel.stream import TunnelStream
from manager.upstream.failures import LineCut

HIGH_WATER: Final = 128 * 1024
"""Bytes that are not framed yet at which the protocol is asked to pause."""
_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)


def connect(
    carrier: Carrier, target: str, make_protocol: Callable[[], _Protocol]
) -> tuple[StreamTransport, _Protocol]:
    """Open a stream to a target at the other end of the line, and connect a protocol to it.

    Does not wait for the other end: if the target is not there, the connection is lost.

    Raises:
        ConnectionError: the line is gone or full.
    """
    protocol = make_protocol()
    transport: StreamTransport | None = None

    def owner(stream: TunnelStream) -> StreamTransport:
        nonlocal transport
        transport = StreamTransport(stream, protocol, asyncio.get_running_loop())
        return transport

    carrier.open_stream(target, owner)
    assert transport is not None  # noqa: S101  narrows the type: the carrier has called `owner`
    protocol.connection_made(transport)
    return transport, protocol


class StreamTransport(asyncio.Transport):
    """The near end of a stream: what it writes goes over the line, what arrives goes to its protocol."""

    def __init__(
        self, stream: TunnelStream, protocol: asyncio.BaseProtocol, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__()
        self._stream = stream
        self._protocol: Any = protocol
        self._loop = loop
        self._kept: list[bytes] = []  # arrived while reading is paused
        self._is_paused = False
        self._has_ended = False
        self._is_closing = False
        self._has_paused_writer = False

    # -- used by the protocol -------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """There is no socket."""
        return default

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._is_closing

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that gets what arrives."""
        return self._protocol  # type: ignore[no-any-return]  # the protocol is of any type here

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Give what arrives to another protocol from now on."""
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if self._is_closing:
            return
        self._stream.write(bytes(data))
        if self._stream.pending_size > HIGH_WATER and not self._has_paused_writer:
            self._has_paused_writer = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send the pieces one after the other."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """Bytes that are not framed yet."""
        return self._stream.pending_size

    def can_write_eof(self) -> bool:
        """One side may end before the other."""
        return True

    def write_eof(self) -> None:
        """Send nothing more."""
        self._stream.end()

    def pause_reading(self) -> None:
        """Keep what arrives, up to the window of the stream."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Pass on what was kept, then what arrives."""
        self._is_paused = False
        self._loop.call_soon(self._pass_on)

    def is_reading(self) -> bool:
        """Whether what arrives is passed on."""
        return not self._is_paused and not self._is_closing

    def close(self) -> None:
        """Close, once everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            self._stream.end()
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """Close at once."""
        if not self._is_closing:
            self._is_closing = True
            self._stream.reset()
            self._loop.call_soon(self._lose, None)

    # -- called by the line ---------------------------------------------------------------------------------

    def stream_data(self, data: bytes) -> None:
        """Pass on what arrived."""
        self._kept.append(data)
        self._pass_on()

    def stream_ended(self) -> None:
        """Tell the protocol that nothing more arrives."""
        self._has_ended = True
        self._pass_on()

    def stream_lost(self, *, is_line: bool) -> None:
        """Tell the protocol that the connection is lost."""
        if not self._is_closing:
            self._is_closing = True
            fault = (
                LineCut("the line was cut") if is_line else ConnectionResetError("closed at the other end")
            )
            self._loop.call_soon(self._lose, fault)

    def stream_writable(self) -> None:
        """Let the protocol write again."""
        if self._has_paused_writer:
            self._has_paused_writer = False
            self._protocol.resume_writing()

    def _pass_on(self) -> None:
        while self._kept and not self._is_paused and not self._is_closing:
            data = self._kept.pop(0)
            self._stream.taken(len(data))
            self._deliver(data)
        if self._has_ended and not self._kept and not self._is_paused and not self._is_closing:
            self._has_ended = False
            if not self._protocol.eof_received():
                self.close()

    def _deliver(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        view = memoryview(data)
        while view and isinstance(self._protocol, asyncio.BufferedProtocol) and not self._is_closing:
            room = memoryview(self._protocol.get_buffer(len(view))).cast("B")
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            self._protocol.buffer_updated(count)
        if view and not self._is_closing:
            self._deliver(bytes(view))  # the protocol has given the connection back

    def _lose(self, fault: Exception | None) -> None:
        self._kept.clear()
        self._protocol.connection_lost(fault)
