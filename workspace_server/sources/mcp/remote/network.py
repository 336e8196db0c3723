"""Connects to allowed addresses, decodes bodies within limits, and classifies network errors.

Imported with the first connection, because it needs httpx2 and anyio.
"""

from __future__ import annotations

import functools
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import anyio
import httpcore2
import httpx2

from lm_tools_bridge.machine.proved_server import require_own_server
from workspace_server.sources.mcp.remote.addresses import (
    Origin,
    Resolver,
    allowed_addresses,
    parse_origin,
    system_resolver,
)

# A compressed body is decoded in pieces of this size, so that a limit ends it before it fills the memory.
_CHUNK: Final = 64 * 1024
_PROBES: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
_KEEPALIVE: Final = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _PROBES.items()
        if hasattr(socket, name)
    ),
]
"""A stream may be silent for hours; whether the other side is still there is found out below it."""
CONNECTING: Final = (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout)
"""What is raised before anything was sent."""
BROKEN: Final = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    TimeoutError,
    anyio.ClosedResourceError,
)
"""What is raised when something may have been sent."""


class TooLarge(Exception):
    """More bytes than a message may have."""


class BadEncoding(Exception):
    """The body has an encoding that was not requested, or is not encoded as declared."""


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to checked addresses only, even if the name resolves differently a moment later.

    Name, TLS server name and `Host` stay as they are in the URL.
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        is_literal: Callable[[Origin], bool],
        resolver: Resolver = system_resolver,
        is_own_manager: bool = False,
    ) -> None:
        """Make it.

        Args:
            allow_private: as for `allowed_addresses`.
            is_literal: whether a origin is one that the configuration itself names.
            resolver: asked for the addresses of names.
            is_own_manager: whether the server is this user's manager, which is proved for each connection.
        """
        self._is_own_manager = is_own_manager
        self._allow_private = allow_private
        self._is_literal = is_literal
        self._resolver = resolver
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve, check and connect within the timeout."""
        origin = parse_origin(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        last: Exception = httpcore2.ConnectTimeout("no answer in time")
        with anyio.move_on_after(timeout):
            try:
                addresses = await allowed_addresses(
                    origin,
                    allow_private=self._allow_private,
                    allow_literal=self._is_literal(origin),
                    resolver=self._resolver,
                )
            except OSError as error:
                raise httpcore2.ConnectError(
                    f"the name cannot be resolved ({error.strerror or error})"
                ) from None
            for address in addresses:
                each = None if timeout is None else timeout / min(len(addresses), 3)
                try:
                    stream = await self._inner.connect_tcp(address, port, each, local_address, _KEEPALIVE)
                    return await _proved(stream) if self._is_own_manager else stream
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    last = error
        raise last


async def _proved(stream: httpcore2.AsyncNetworkStream) -> httpcore2.AsyncNetworkStream:
    """The stream, if a program of this user serves it."""
    sock = stream.get_extra_info("socket")
    try:
        require_own_server(sock.getsockname(), sock.getpeername(), has_secret=True)
    except OSError as error:
        await stream.aclose()
        raise httpcore2.ConnectError(str(error)) from None
    return stream


async def decoded(response: httpcore2.Response, encoding: str) -> AsyncIterator[bytes]:
    """The body in pieces of bounded size, however much they were compressed."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        async for piece in response.aiter_stream():
            yield piece
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BadEncoding("compressed in a way nobody asked for")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for piece in response.aiter_stream():
        packed = piece
        while packed:
            try:
                yield unpacker.decompress(packed, _CHUNK)
            except zlib.error:
                raise BadEncoding("not compressed as it says") from None
            packed = unpacker.unconsumed_tail


async def collected(pieces: AsyncIterator[bytes], limit: int, *, cut: bool = False) -> bytes:
    """All of a body; beyond the limit it is cut, or `TooLarge`."""
    parts: list[bytes] = []
    size = 0
    async for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > limit:
            if cut:
                break
            raise TooLarge
    return b"".join(parts)


def why(error: Exception) -> str:
    """The text of an exception as the end of a sentence."""
    if isinstance(error, httpcore2.LocalProtocolError):
        return ": a header of ours cannot be sent"  # its text quotes the header
    text = str(error).strip()
    if text == "All connection attempts failed":  # what the library says of each refused connection
        return ": nothing answers at its address and port"
    return f": {text}" if text else ""


@functools.cache
def tls() -> ssl.SSLContext:
    """The system's certificates, read once per process: it takes tens of milliseconds."""
    return httpx2.create_ssl_context()
