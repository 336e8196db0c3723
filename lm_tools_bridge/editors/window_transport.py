"""Sends JSON-RPC messages to a window: a POST for each, with a connection and a thread of its own.

A window keeps no sessions, and answers as an event stream. That takes so little of HTTP that the standard
library is enough; the SDK, which other remote servers need, would cost each project with a window 60 MB.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import http.client
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from lm_tools_bridge.machine.peer_uid import is_served_by_us
from lm_tools_bridge.protocol import names, sse
from lm_tools_bridge.protocol.names import Era
from workspace_server.sources.mcp.failures import TransportEnded
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.rpc.transport import RequestFailed, ResponseStreamMessage

MAX_MESSAGE: Final = 32 * 1024 * 1024
"""A screenshot or a large file as base64 fits, as in the answers of remote servers."""
CONNECT_S: Final = 2.0
"""A listener on this machine accepts at once; one that does not is a window that hangs."""
AT_ONCE: Final = 32
"""Calls that run in a window at once; more wait."""
NOTIFICATION_S: Final = 2.0
"""A window answers notifications at once; one that hangs must not hold up the requests that follow."""
CHUNK: Final = 64 * 1024  # bytes of an event stream, as many as a socket's buffer gives at once
_QUEUED: Final = 16
"""Messages that wait to be taken; more wait in the sockets, so that a window cannot fill memory."""
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

_Received = ResponseStreamMessage | RequestFailed | bytes


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    method: str = ""
    params: msgspec.Raw = msgspec.Raw()


class _Cancelled(msgspec.Struct, rename="camel"):
    request_id: int


class WindowTransport:
    """The way to one window: a `Transport`.

    Args:
        port: where the window serves, on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[_Received | TransportEnded] = asyncio.Queue(_QUEUED)
        self._threads = ThreadPoolExecutor(AT_ONCE, "window")
        self._exchanges: set[asyncio.Future[None]] = set()
        self._open: dict[int, socket.socket] = {}  # by the id of the request
        self._cancelled: set[int] = set()
        self._revision: str | None = None
        self._closed = False

    async def send(self, message: bytes) -> None:
        """As `Transport.send`. A cancelled request ends with its connection."""
        if self._closed:
            raise TransportEnded("the connection is closed")
        envelope = msgspec.json.decode(message, type=_Envelope)
        if envelope.method == names.CANCELLED:
            self._cancel(msgspec.json.decode(envelope.params, type=_Cancelled).request_id)
            return
        number = int(bytes(envelope.id)) if envelope.method and bytes(envelope.id) else None
        exchange = self._loop.run_in_executor(self._threads, self._exchange, message, number)
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)
        if number is None:  # what follows may depend on it
            await asyncio.wait({exchange}, timeout=NOTIFICATION_S)

    async def receive(self) -> _Received:
        """As `Transport.receive`."""
        item = await self._received.get()
        if isinstance(item, TransportEnded):
            self._received.put_nowait(item)  # for whoever asks again
            raise item
        return item

    def negotiated(self, era: Era, revision: str) -> None:
        """The header follows the revision."""
        self._revision = revision

    async def close(self) -> None:
        """End every request in flight. Idempotent."""
        self._closed = True
        for number in list(self._open):
            self._cancel(number)
        while self._exchanges:
            self._drain()
            await asyncio.wait(self._exchanges, timeout=0.05)
        self._threads.shutdown(wait=False)
        self._drain()
        self._received.put_nowait(TransportEnded("the connection is closed"))

    def _drain(self) -> None:
        """Take out what nobody reads any more, so that no thread waits for room."""
        while not self._received.empty():
            self._received.get_nowait()

    def _cancel(self, number: int) -> None:
        self._cancelled.add(number)
        with contextlib.suppress(KeyError, OSError):
            self._open[number].shutdown(socket.SHUT_RDWR)

    def _exchange(self, message: bytes, number: int | None) -> None:
        """One POST, in a thread of its own. What it gives is received, failures included."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=CONNECT_S)
        try:
            failure = self._posted(connection, message, number)
        finally:
            if number is not None:
                self._open.pop(number, None)
                self._cancelled.discard(number)
            connection.close()
        if failure is not None and number is not None and not self._closed:
            self._put(RequestFailed(number, failure))

    def _posted(
        self, connection: http.client.HTTPConnection, message: bytes, number: int | None
    ) -> HttpFailure | None:
        """Send the message and pass on what comes back; returns why there is no answer."""
        try:
            connection.connect()
        except OSError as fault:
            return HttpFailure("unreachable", f"does not accept connections ({fault.strerror or fault})")
        if not is_served_by_us(connection.sock.getsockname(), connection.sock.getpeername()):
            return HttpFailure("unreachable", "is no longer served by a program of this user")
        connection.sock.settimeout(None)  # calls have limits of their own, and end by being cancelled
        if number is not None:
            self._open[number] = connection.sock
        if self._closed or number in self._cancelled:
            return None
        try:
            headers = _HEADERS | ({"MCP-Protocol-Version": self._revision} if self._revision else {})
            connection.request("POST", "/mcp", message, headers)
            response = connection.getresponse()
            return self._read(response, number)
        except (OSError, http.client.HTTPException) as fault:
            return HttpFailure("failing", f"broke off its answer ({type(fault).__name__})", "unknown")
        except sse.EventTooLarge:
            return HttpFailure("too_large", f"answered with more than {MAX_MESSAGE // 2**20} MiB", "unknown")

    def _read(self, response: http.client.HTTPResponse, number: int | None) -> HttpFailure | None:
        if response.status == http.HTTPStatus.ACCEPTED or number is None:
            return None
        if response.status != http.HTTPStatus.OK:
            text = f"answered with HTTP {response.status}"
            return HttpFailure("rejected", text, status=response.status)
        for body in _messages(response):
            try:
                is_answer = _is_answer(body, number)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                what = "answered with something that is no JSON-RPC message"
                return HttpFailure("failing", what, "unknown")
            self._put(body if is_answer else ResponseStreamMessage(number, body))
            if is_answer:
                return None
        return HttpFailure("failing", "broke off its answer", "unknown")

    def _put(self, item: _Received) -> None:
        asyncio.run_coroutine_threadsafe(self._received.put(item), self._loop).result()


def _messages(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The messages of a response: those of an event stream, or its only one."""
    if not response.getheader("Content-Type", "").startswith("text/event-stream"):
        body = response.read(MAX_MESSAGE + 1)
        if len(body) > MAX_MESSAGE:
            raise sse.EventTooLarge
        yield body
        return
    events = sse.Decoder(MAX_MESSAGE)
    while chunk := response.read1(CHUNK):
        yield from (event.data for event in events.feed(chunk))


def _is_answer(text: bytes, number: int) -> bool:
    """Whether a message is the response to the request with this id. Raises if it cannot be read."""
    envelope = msgspec.json.decode(text, type=_Envelope)
    return not envelope.method and bytes(envelope.id) == b"%d" % number
