"""One connection of the manager: heads are collected, judged, and requests served one after the other.

How many connections there are, and how they end, says `connections.py`; what an answer looks like,
`request.py`. Only this file says where a request ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, cast

from http_server.backpressure import Room
from http_server.body_reader import Body, ChunkedBody, MeasuredBody
from http_server.deadline import Deadline, Deadlines
from http_server.refusal import AdmissionRefusal
from http_server.response_head import render_head
from protocol import jsonrpc
from workspace_server.http.admission import MAX_BODY
from workspace_server.http.head_reader import Head, Heads, Refused
from workspace_server.http.request import JSON, HttpRequest

HEAD_S: Final = 10.0
"""From the first byte of a head to its end."""
BODY_S: Final = 30.0
"""From the head's end to the body's."""
IDLE_S: Final = 3600.0
"""The manager keeps its connections; closing one under its hands would lose a call."""
LINGER_S: Final = 2.0
"""How long a refused caller's bytes are read and dropped: closing at once could destroy the answer."""
MAX_PIPELINED: Final = 64 * 1024
"""Bytes a caller may send ahead while its last request is being answered; more ends the connection."""

_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LATE: Final = AdmissionRefusal(408, "the request did not arrive in time; send it at once")


class ClientConnection(asyncio.Protocol):
    """One connection. `_take` is what the next bytes are given to, and says in which state it is.

    Args:
        heads: reads heads.
        serve: answers a request; what takes time goes into `HttpRequest.run`.
        is_open: the connections there are.
        tasks: the work of answering that is under way.
        deadlines: those of all connections.
    """

    def __init__(
        self,
        heads: Heads,
        serve: Callable[[HttpRequest], None],
        is_open: set[ClientConnection],
        tasks: set[asyncio.Task[None]],
        deadlines: Deadlines,
    ) -> None:
        self._heads = heads
        self._serve = serve
        self._is_open = is_open
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._take: Callable[[bytes], None] = self._take_head
        self._ahead = b""  # bytes of requests to come
        self._head: Head
        self._body: Body
        self._http_request: HttpRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_sorting = False
        self._deadline = Deadline(deadlines)
        self.room = Room()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # not an isinstance check: uvloop's transports do not inherit from asyncio's
        self._transport = cast("asyncio.Transport", transport)
        self._is_open.add(self)
        self._deadline.set(IDLE_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once: releases everything."""
        self._take, self._ahead = _drop, b""
        self._deadline.close()
        self._is_open.discard(self)
        self.room.grow(ConnectionResetError("the caller is gone"))
        http_request, self._http_request = self._http_request, None
        if http_request is not None:
            http_request.left()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Give the bytes to whom they are for."""
        self._take(data)

    def pause_writing(self) -> None:
        """The caller reads more slowly than we write."""
        self.room.shrink()

    def resume_writing(self) -> None:
        """The caller has caught up."""
        self.room.grow()
        if self._http_request is None and self._take == self._take_head:
            self._transport.resume_reading()
            self._next()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._http_request is None

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()

    # -- heads --------------------------------------------------------------------------------------------

    def _take_head(self, data: bytes) -> None:
        if not self._ahead and self._take_whole(data):
            return
        is_first = not self._ahead
        self._ahead = data if is_first else self._ahead + data
        self._next(is_first=is_first)

    def _take_whole(self, data: bytes) -> bool:
        """Serve one whole request with a head that is known; False where it is something else."""
        end = data.find(_HEAD_END) + 4
        known = self._heads.same(data[:end])
        if known is None or known[1] != len(data) - end:
            return False
        self._head = known[0]
        self._begin(data[end:])
        return True

    def _next(self, *, is_first: bool = True) -> None:
        """Serve what has come; `is_first` where nothing of the next request had come before."""
        if self._is_sorting:
            return  # answered at once: the loop below goes on
        self._is_sorting = True
        try:
            while self._ahead and self._take == self._take_head and self._sort(is_first=is_first):
                is_first = True
        finally:
            self._is_sorting = False

    def _sort(self, *, is_first: bool) -> bool:
        """Look for a request in what has come; whether there was one."""
        # RFC 9112 2.2: an empty line before the request line is ignored.
        data = self._ahead
        while data.startswith(b"\r\n"):
            data = self._ahead = data[2:]
        end = data.find(_HEAD_END) + 4
        if end < 4:
            self._wait_for_head(is_first=is_first)
            return False
        raw, self._ahead = data[:end], data[end:]
        read = self._heads.read(raw)
        if isinstance(read, Refused):
            self._refuse(read.refusal, read.method)
            return False
        self._head, length = read
        self._receive(length)
        return True

    def _wait_for_head(self, *, is_first: bool) -> None:
        refusal = self._heads.hopeless(self._ahead)
        if refusal is not None:
            self._refuse(refusal)
        elif is_first:
            self._deadline.set(HEAD_S if self._ahead else IDLE_S, self._head_is_late)

    def _head_is_late(self) -> None:
        if self._ahead:
            self._refuse(_LATE)
        else:
            self._transport.close()

    def _refuse(self, refusal: AdmissionRefusal, method: str = "") -> None:
        """Say why: a JSON-RPC error without an id, as no message was read. The connection ends."""
        self._take, self._ahead = _drop, b""
        body = jsonrpc.error(None, refusal.code, refusal.reason)
        length = ("Content-Length", str(len(body)))
        head = render_head(
            refusal.status, [("Content-Type", JSON), length, ("Connection", "close"), *refusal.headers]
        )
        self._transport.write(head if method == "HEAD" else head + body)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._deadline.set(LINGER_S, self.abort)

    # -- requests -----------------------------------------------------------------------------------------

    def _receive(self, length: int | None) -> None:
        """Collect the body, and serve the request when it is whole."""
        data = self._ahead
        if length is not None and len(data) >= length:
            self._ahead = data[length:]
            self._begin(data[:length])
            return
        if self._head.framing.waits and not data:
            self._transport.write(_CONTINUE)
        self._ahead = b""
        self._body = ChunkedBody(MAX_BODY) if length is None else MeasuredBody(length)
        self._take = self._take_body
        self._deadline.set(BODY_S, lambda: self._refuse(_LATE))
        self._take(data)

    def _take_body(self, data: bytes) -> None:
        body = self._body
        refusal = body.feed(data)
        if refusal is not None:
            self._refuse(refusal)
        elif body.is_whole:
            self._ahead = body.rest
            del self._body
            self._begin(body.body)

    def _begin(self, body: bytes) -> None:
        self._take = self._take_ahead
        self._deadline.clear()
        http_request = self._http_request = HttpRequest(self, self._head, body)
        self._serve(http_request)

    def _take_ahead(self, data: bytes) -> None:
        self._ahead += data
        if len(self._ahead) > MAX_PIPELINED:
            self.abort()

    # -- answers (`request.Line`) ----------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of answering in a task, which is cancelled when the caller leaves."""
        task = self._task = self._loop.create_task(work, name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def send(self, pieces: Sequence[bytes]) -> None:
        """Hand bytes to the transport at once."""
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

    def answered(self, *, is_last: bool) -> None:
        """The answer is complete; the next request may follow."""
        self._http_request = self._task = None
        if is_last:
            self._take, self._ahead = _drop, b""
            self._transport.close()
            return
        self._take = self._take_head
        self._deadline.set(IDLE_S, self._head_is_late)
        if self.room.is_short:  # it does not read its answers: no more requests until it does
            self._transport.pause_reading()
        elif self._ahead:
            self._next()


def _drop(_: bytes) -> None:
    """Nobody wants these bytes."""
