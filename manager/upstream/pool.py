"""Pools keep-alive connections to one workspace server: verified once each, reused newest first.

It is deliberately not a scheduler: there is no queue, no retry and no limit of calls in flight; admission and
deadlines are the caller's. A connection carries nothing before the server at its other end has proved to be
the right one, so a stranger on an old port never receives a byte of a call. A verified TCP connection belongs
to that process for its life.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from host.peer_uid import Address, tcp_peer_uid
from manager.upstream.connection import Connection
from manager.upstream.request_head import head_before_length, request_head
from manager.upstream.response import (
    Blame,
    ResponseHead,
    ResponseTooLarge,
    UpstreamFailure,
    UpstreamResponse,
)

MAX_IDENTITY_BODY = 64 * 1024
NOTICED_S = 0.05
"""Seconds after an answer in which a connection is taken without asking the kernel for news of its end."""


class Pool:
    """Keep-alive connections to `host`:`port`, one call in flight on each.

    `verify(head, body)` judges the answer to a bare `GET verify_path` (body up to 64 KiB): is it the instance
    we mean? `connect_timeout` in seconds covers connecting and verifying together.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        verify: Callable[[ResponseHead, bytes], bool],
        verify_path: bytes = b"/mcp/health",
        connect_timeout: float = 5.0,
        max_idle: int = 256,
        owner_of: Callable[[Address, Address], int | None] = tcp_peer_uid,
    ) -> None:
        self._host = host
        self._port = port
        self._host_field = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode("ascii")
        self._identity_request = request_head(b"GET", verify_path, self._host_field, (), 0)
        self._verify = verify
        self._owner_of = owner_of
        self._connect_timeout = connect_timeout
        self._max_idle = max_idle
        self._idle: list[Connection] = []  # oldest first
        self._live: set[Connection] = set()  # every one whose socket is open, idle ones included
        self._none_live = asyncio.Event()
        self._none_live.set()
        self._closed = False

    @property
    def idle_count(self) -> int:
        """Connections waiting for a call."""
        return len(self._idle)

    @property
    def in_use(self) -> int:
        """Connections with a call in flight, being verified, or about to be closed."""
        return len(self._live) - len(self._idle)

    async def request(
        self, method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> UpstreamResponse:
        """Sends one request and returns when the head of its response is there.

        Host and Content-Length are added here. The caller reads the response to its end or calls its
        `aclose()`; cancelling closes the connection. Raises ValueError as `request_head` does, and
        UpstreamFailure: NOT_DELIVERED up to and including the verification, MAYBE_DELIVERED once the first
        byte was handed to the transport, also on a reused connection that proves to be dead.
        """
        response = self.request_now(method, target, headers, body)
        if response is None:
            response = await self.request_anew(method, target, headers, body)
        await response.head_arrival()
        return response

    def request_now(
        self, method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> UpstreamResponse | None:
        """Sends one request as `request` does, where a connection waits for it; None where none does.

        Nothing of the response is there yet: its `head_arrival` tells. Raises ValueError as `request` does.
        """
        head = request_head(method, target, self._host_field, headers, len(body))
        connection = self._take_idle()
        return None if connection is None else connection.begin(head, body)

    def lasting_head(self, method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """The head of such requests up to the digits of the length. Raises ValueError as `request_head`."""
        return head_before_length(method, target, self._host_field, tuple(headers)) + b"Content-Length: "

    def take_now(self, now: float) -> Connection | None:
        """A connection for one request, where one waits for it; it is the caller's to use or to `keep`.

        Args:
            now: monotonic time. An end that came just after the last answer reaches us before long, and is
                not asked for, since asking is a system call.
        """
        idle = self._idle
        if idle and now - idle[-1].idle_since < NOTICED_S and idle[-1].is_open:
            return idle.pop()
        return self._take_idle()

    async def request_anew(
        self, method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> UpstreamResponse:
        """Sends one request as `request_now` does, on a connection that is opened for it."""
        head = request_head(method, target, self._host_field, headers, len(body))
        connection, _, _ = await self._open(self._connect_timeout)
        connection.on_idle = self._keep
        if not connection.is_open:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "connection_lost")
        return connection.begin(head, body)

    async def probe(self, deadline: float) -> tuple[ResponseHead, bytes]:
        """Asks `verify_path` on a fresh connection, within `deadline` seconds; returns the answer, verified.

        The connection is kept in place of the oldest idle one, so that probing does not make the pool grow.
        Raises UpstreamFailure, always NOT_DELIVERED, since a probe carries no call.
        """
        connection, head, body = await self._open(deadline)
        connection.on_idle = self._keep
        if connection.is_open:
            if self._idle:
                self._idle.pop(0).close("connection_lost")
            self._keep(connection)
        return head, body

    async def close(self) -> None:
        """Closes every connection at once, returns when the sockets are; calls in flight fail. Idempotent."""
        self._closed = True
        self._idle.clear()
        for connection in tuple(self._live):
            connection.close("pool_closed")
        await self._none_live.wait()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fit:
                return connection
            connection.close("connection_lost")
        return None

    def _keep(self, connection: Connection) -> None:
        if len(self._idle) < self._max_idle:
            self._idle.append(connection)
        else:
            connection.close("connection_lost")

    def _lost(self, connection: Connection) -> None:
        self._live.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if connection.broke_off:
            self._drop_idle()
        if not self._live:
            self._none_live.set()

    def _drop_idle(self) -> None:
        """A server that breaks off a call may be ending: its idle connections would swallow the next one."""
        while self._idle:
            self._idle.pop().close("connection_lost")

    async def _open(self, seconds: float) -> tuple[Connection, ResponseHead, bytes]:
        """A verified connection, not in the pool yet, with the answer that identified it."""
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connect()
                return connection, *await self._identify(connection)
        except UpstreamFailure as failure:
            raise UpstreamFailure(Blame.NOT_DELIVERED, failure.cause) from failure
        except TimeoutError:
            cause = "timeout"
        except ConnectionRefusedError:
            cause = "connection_refused"
        except OSError:
            cause = "connect_failed"
        raise UpstreamFailure(Blame.NOT_DELIVERED, cause)

    async def _connect(self) -> Connection:
        if self._closed:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "pool_closed")
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self._lost), self._host, self._port)
        # Lost while we waited for our turn: it must not enter the books, nothing would take it out again.
        if self._closed or not connection.is_open:
            connection.close("connection_lost")
            raise UpstreamFailure(Blame.NOT_DELIVERED, "pool_closed" if self._closed else "connection_lost")
        self._live.add(connection)
        self._none_live.clear()
        return connection

    async def _identify(self, connection: Connection) -> tuple[ResponseHead, bytes]:
        genuine = False
        try:
            response = await connection.exchange(self._identity_request, b"")
            body = await response.read(MAX_IDENTITY_BODY)
            genuine = self._verify(response.head, body) and self._belongs_to_us(connection)
        except ResponseTooLarge as answer:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "identity_mismatch") from answer
        finally:
            if not genuine:
                connection.close("identity_mismatch")
        if not genuine:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "identity_mismatch")
        return response.head, body

    def _belongs_to_us(self, connection: Connection) -> bool:
        """Whether the server's socket is our user's: others can read a nonce, but not own our processes.

        Asked after the answer, since a connection that nobody accepted yet has no owner. Where the platform
        cannot tell, the nonce alone counts.
        """
        ends = connection.ends
        owner = self._owner_of(*ends) if ends is not None else None
        return owner is None or owner == os.getuid()
