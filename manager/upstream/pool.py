"""Pools keep-alive connections to one workspace server, each verified once; the newest is reused first.

It writes the heads of requests, and rejects fields that would alter their framing.

The pool has no queue, no retries and no limit of calls in flight; admission and deadlines belong to the
caller. Each new connection is verified before it carries a call, so another process on an old port never
receives a byte of one. A verified TCP connection stays with the same process until it closes.

An answer that nobody asked for shows that a server answers twice. Its second answer to one call could reach
another call with the same id on a reused connection, so for `REUSE_AGAIN_S` every call gets its own one.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Final

from lm_tools_bridge.machine.own_process import own_uid
from lm_tools_bridge.machine.peer_uid import Address, tcp_peer_uid
from lm_tools_bridge.machine.proved_server import ServedByOthers, require_own_server
from lm_tools_bridge.protocol import trace_context
from manager.upstream.connection import Connection
from manager.upstream.failures import Blame, ResponseTooLarge, UpstreamFailure
from manager.upstream.response import ResponseHead, UpstreamResponse

Fields = Sequence[tuple[bytes, bytes]]
"""Names and values of header fields."""
_FRAMING_FIELDS: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection"})
TRACE_BEGIN: Final = f"{trace_context.NAME}: ".encode()
"""The beginning of the line with the trace context."""
_NAME_OCTETS: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")


def request_head(
    method: bytes,
    target: bytes,
    host: bytes,
    headers: Fields,
    body_length: int,
    *,
    last_line: bytes = b"",
) -> bytes:
    """The complete head of a request, with Host and Content-Length added.

    Args:
        last_line: a whole line that differs with each request, so that all else is cached.

    Raises:
        ValueError: As by `head_before_length`.
    """
    head = head_before_length(method, target, host, tuple(headers))
    if body_length or method != b"GET":
        return b"%bContent-Length: %d\r\n%b\r\n" % (head, body_length, last_line)
    return head + b"\r\n"


def trace_line(number: int) -> bytes:
    """The line with the trace context of this number. It is the last of a head, where servers cut it off."""
    return b"%b%b\r\n" % (TRACE_BEGIN, trace_context.make_traceparent(number))


@lru_cache(maxsize=256)  # a client's calls of one tool differ only in their bodies
def head_before_length(
    method: bytes, target: bytes, host: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> bytes:
    """The lines of a head, without Content-Length and the empty line.

    Raises:
        ValueError: The framing would be altered: by CR, LF or NUL, a space in method or target, a header name
            that is not a token, a framing field, or a method whose responses are framed differently.
    """
    names = [name.lower() for name, _ in headers]
    if not _NAME_OCTETS.fullmatch(b"".join(names)) or b"" in names:
        raise ValueError("header name is not a token")
    if not _FRAMING_FIELDS.isdisjoint(names):
        raise ValueError("framing fields are written by the connection")
    if method in (b"HEAD", b"CONNECT") or b" " in method or b" " in target:
        raise ValueError("unsupported method or target")
    lines = [
        b"%b %b HTTP/1.1" % (method, target),
        b"Host: " + host,
        *[b"%b: %b" % field for field in headers],
    ]
    head = b"\r\n".join(lines) + b"\r\n"
    line_ends = len(lines)
    if head.count(b"\n") != line_ends or head.count(b"\r") != line_ends or b"\0" in head:
        raise ValueError("CR, LF or NUL in the request head")
    return head


MAX_IDENTITY_BODY = 64 * 1024
"""Bytes of the answer that proves a server's identity. Ours has under 100, that of a registered server may
have its health; until it is read, the connection may lead to a stranger."""
MAX_DESCRIPTION = 2 * 1024 * 1024
"""Size of the answer to `probe` with further headers, which comes from a verified server."""
NOTICED_S = 0.05
"""Seconds after an answer in which a connection is reused without asking the kernel if it is closed."""
REUSE_AGAIN_S = 600.0
"""Seconds after an answer that nobody asked for in which no connection is reused."""

Dial = Callable[[Callable[[], Connection]], Awaitable[Connection]]


class Pool:
    """Keep-alive connections to `host`:`port`, with one call in flight on each.

    Args:
        verify: Takes head and body (at most 64 KiB) of the answer to `GET verify_path`, and returns whether
            it came from the expected instance.
        connect_timeout: Seconds for connecting and verifying together.
        max_idle: Most idle connections.
        owner_of: Returns the user id that owns the server's socket, None if unknown.
        verify_headers: Sent with `GET verify_path`, once the server is proved to be of our user.
        on_out_of_step: Called when the server sent something that answers no request, and reuse ends.
        dial: Connects a protocol to a server that is not at `host`:`port`; it returns the protocol, and
            raises OSError. The transport need not have a socket.
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
        on_out_of_step: Callable[[], None] = lambda: None,
        verify_headers: Fields = (),
        dial: Dial | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._host_field = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode("ascii")
        self._verify_path = verify_path
        self._identity_request = request_head(b"GET", verify_path, self._host_field, verify_headers, 0)
        self._has_secret = bool(verify_headers)
        self._verify = verify
        self._owner_of = owner_of
        self._connect_timeout = connect_timeout
        self._max_idle = max_idle
        self._on_out_of_step = on_out_of_step
        self._dial = dial or self._dial_tcp
        self._reuse_at = 0.0  # monotonic; after an answer that nobody asked for
        self._idle: list[Connection] = []  # oldest first
        self._live: set[Connection] = set()  # all with an open socket, idle ones included
        self._none_live = asyncio.Event()
        self._none_live.set()
        self._closed = False

    @property
    def idle_count(self) -> int:
        """The number of idle connections."""
        return len(self._idle)

    @property
    def in_use(self) -> int:
        """The number of connections with a call in flight, in verification or about to close."""
        return len(self._live) - len(self._idle)

    async def request(self, method: bytes, target: bytes, headers: Fields, body: bytes) -> UpstreamResponse:
        """Send a request and wait for the head of its response.

        Host and Content-Length are added. The caller reads the response to its end or calls its `abandon()`;
        cancelling closes the connection.

        Raises:
            ValueError: As by `request_head`.
            UpstreamFailure: NOT_DELIVERED up to and including the verification; MAYBE_DELIVERED once the
                first byte was written, also on a reused connection that turns out to be dead.
        """
        response = self.request_now(method, target, headers, body)
        if response is None:
            response = await self.request_anew(method, target, headers, body)
        await response.head_arrival()
        return response

    def request_now(
        self, method: bytes, target: bytes, headers: Fields, body: bytes, last_line: bytes = b""
    ) -> UpstreamResponse | None:
        """Send a request on an idle connection.

        Args:
            last_line: As of `request_head`.

        Returns:
            The response, for whose head `head_arrival` waits; None if no connection is idle.

        Raises:
            ValueError: As by `request_head`.
        """
        head = request_head(method, target, self._host_field, headers, len(body), last_line=last_line)
        connection = self._take_idle()
        return None if connection is None else connection.begin(head, body)

    def lasting_head(self, method: bytes, target: bytes, headers: Fields) -> bytes:
        """The head of such requests up to the digits of `Content-Length`.

        Raises:
            ValueError: As by `request_head`.
        """
        return head_before_length(method, target, self._host_field, tuple(headers)) + b"Content-Length: "

    def take_now(self, now: float) -> Connection | None:
        """Take an idle connection for one request; None if none is idle.

        Args:
            now: Monotonic time. Shortly after an answer the connection is assumed to be open, which saves a
                system call.
        """
        idle = self._idle
        if idle and now - idle[-1].idle_since < NOTICED_S and idle[-1].is_open:
            return idle.pop()
        return self._take_idle()

    async def request_anew(
        self, method: bytes, target: bytes, headers: Fields, body: bytes, last_line: bytes = b""
    ) -> UpstreamResponse:
        """Send a request like `request_now`, on a new connection.

        Raises:
            ValueError: As by `request_head`.
            UpstreamFailure: NOT_DELIVERED; the connection was not opened or verified.
        """
        head = request_head(method, target, self._host_field, headers, len(body), last_line=last_line)
        connection, _, _ = await self._open(self._connect_timeout)
        connection.on_idle = self._keep
        if not connection.is_open:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "connection_lost")
        return connection.begin(head, body)

    async def probe(self, deadline: float, headers: Fields = ()) -> tuple[ResponseHead, bytes]:
        """Request `verify_path` on a new connection and return the verified answer.

        The connection replaces the oldest idle one, so that probes do not make the pool grow.

        Args:
            deadline: Seconds.
            headers: For a second request, sent once the server is verified, whose answer is returned.

        Raises:
            UpstreamFailure: Always NOT_DELIVERED, because a probe carries no call.
        """
        connection, head, body = await self._open(deadline, headers)
        connection.on_idle = self._keep
        if connection.is_open:
            if self._idle:
                self._idle.pop(0).close("connection_lost")
            self._keep(connection)
        return head, body

    async def close(self) -> None:
        """Close all connections and wait until their sockets are closed; calls in flight fail. Idempotent."""
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
        if len(self._idle) < self._max_idle and (not self._reuse_at or self._may_reuse()):
            self._idle.append(connection)
        else:
            connection.close("connection_lost")

    def _lost(self, connection: Connection) -> None:
        self._live.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if connection.is_out_of_step:
            self._end_reuse()
        if connection.broke_off:
            self._drop_idle()
        if not self._live:
            self._none_live.set()

    def _may_reuse(self) -> bool:
        return time.monotonic() >= self._reuse_at

    def _end_reuse(self) -> None:
        is_news = self._may_reuse()
        self._reuse_at = time.monotonic() + REUSE_AGAIN_S
        self._drop_idle()
        if is_news:
            self._on_out_of_step()

    def _drop_idle(self) -> None:
        """Close the idle connections: a server that broke off a call may be ending and lose the next one, and
        one that answers twice may send its second answer on any of them."""
        while self._idle:
            self._idle.pop().close("connection_lost")

    async def _open(self, seconds: float, headers: Fields = ()) -> tuple[Connection, ResponseHead, bytes]:
        """Open and verify a connection; return it with the answer that verified it, or that to `headers`."""
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connect()
                self._prove_owner(connection)
                answer = await self._identify(connection, self._identity_request, MAX_IDENTITY_BODY)
                if headers and connection.is_open:
                    asked = request_head(b"GET", self._verify_path, self._host_field, headers, 0)
                    answer = await self._identify(connection, asked, MAX_DESCRIPTION)
                return connection, *answer
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
        connection = await self._dial(lambda: Connection(self._lost))
        # Lost before this task ran: `_lost` was already called, so nothing would remove it from `_live`.
        if self._closed or not connection.is_open:
            connection.close("connection_lost")
            raise UpstreamFailure(Blame.NOT_DELIVERED, "pool_closed" if self._closed else "connection_lost")
        self._live.add(connection)
        self._none_live.clear()
        return connection

    async def _dial_tcp(self, make: Callable[[], Connection]) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(make, self._host, self._port)
        return connection

    async def _identify(
        self, connection: Connection, request: bytes, limit: int
    ) -> tuple[ResponseHead, bytes]:
        genuine = False
        try:
            response = await connection.exchange(request, b"")
            body = await response.read(limit)
            genuine = self._verify(response.head, body) and self._belongs_to_us(connection)
        except ResponseTooLarge as answer:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "identity_mismatch") from answer
        finally:
            if not genuine:
                connection.close("identity_mismatch")
        if not genuine:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "identity_mismatch")
        return response.head, body

    def _prove_owner(self, connection: Connection) -> None:
        """Nothing identifies us to a program of another user, which may have taken the port."""
        if not self._has_secret or connection.ends is None:
            return
        try:
            require_own_server(*connection.ends, has_secret=True)
        except ServedByOthers:
            connection.close("identity_mismatch")
            raise UpstreamFailure(Blame.NOT_DELIVERED, "identity_mismatch") from None

    def _belongs_to_us(self, connection: Connection) -> bool:
        """Whether our user owns the server's socket, because any local user can read the nonce.

        It is checked after the answer, since a connection has no owner before it is accepted. If the platform
        does not tell the owner, the nonce alone counts.
        """
        ends = connection.ends
        owner = self._owner_of(*ends) if ends is not None else None
        return owner is None or owner == own_uid()
