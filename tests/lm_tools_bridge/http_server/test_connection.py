"""One connection over a scripted transport: which deadline holds, and how the connection ends."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, cast

import pytest

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.connection import HttpConnection
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import Connections, ServerContext
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request import BaseRequest
from lm_tools_bridge.http_server.request_head import Framing, HeadReader, ReadHead, RequestHead, framing
from lm_tools_bridge.http_server.response_head import fixed_lines

LIMITS = Limits(first_s=1000, head_s=2000, body_s=3000, keepalive_s=4000, linger_s=5000)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Head(NamedTuple):
    """An admitted head."""

    parsed: RequestHead
    framing: Framing


class Reader(HeadReader[Head]):
    """Admits every head."""

    def admit(self, raw: bytes, parsed: RequestHead) -> Head | AdmissionRefusal:
        framed = framing(raw, parsed)
        return framed if isinstance(framed, AdmissionRefusal) else Head(parsed, framed)


class Request(BaseRequest):
    """A request and its response."""

    __slots__ = ()
    fixed_lines = staticmethod(fixed_lines(()))


class Connection(HttpConnection[Head]):
    """Answers every request at once."""

    __slots__ = ()

    def serve(self, read: ReadHead[Head], body: bytes) -> None:
        request = Request(self, read.head.framing, body)
        self.start_serving(request)
        request.respond(200, b"{}")

    def render_refusal(self, refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
        return b"HTTP/1.1 %d Refused\r\n\r\n" % refusal.status


class BadFieldConnection(Connection):
    """Begins a response that cannot be sent, then answers with an error."""

    __slots__ = ()

    def serve(self, read: ReadHead[Head], body: bytes) -> None:
        request = Request(self, read.head.framing, body)
        self.start_serving(request)
        with pytest.raises(ValueError, match="CR, LF or NUL"):
            request.start(200, {"X-Bad": "a\nb"}, "text/plain")
        request.respond(500 if not request.is_begun else 200)


class Transport:
    """Notes how it is ended. It never flushes, as if the client did not read."""

    def __init__(self) -> None:
        self.sent = b""
        self.ended: list[str] = []

    def write(self, data: bytes) -> None:
        self.sent += data

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.ended.append("close")

    def abort(self) -> None:
        self.ended.append("abort")


def opened(kind: type[Connection] = Connection) -> tuple[Connection, Transport]:
    deadlines = Deadlines(asyncio.get_running_loop())
    reader = Reader(9999, AdmissionRefusal(431, "too large"), 999)
    connection = kind(ServerContext(reader, 999, Connections(LIMITS), deadlines, ByteBudget()))
    transport = Transport()
    connection.connection_made(cast("Any", transport))
    return connection, transport


def expire(connection: Connection) -> None:
    connection.deadline.expire(connection.deadline.at)


def due_in(connection: Connection) -> int:
    """Seconds, rounded, until the deadline."""
    return round(connection.deadline.at - asyncio.get_running_loop().time())


BLANK = pytest.mark.parametrize("pieces", [(b"\r\n",), (b"\r", b"\n"), (b"\r\n\r", b"\n\r", b"\n")])


@BLANK
async def test_empty_lines_before_the_first_request_change_no_deadline(pieces: tuple[bytes, ...]) -> None:
    connection, transport = opened()
    for piece in pieces:
        connection.data_received(piece)
        assert due_in(connection) == LIMITS.first_s
    connection.data_received(GET[:5])
    assert due_in(connection) == LIMITS.head_s
    connection.data_received(GET[5:])
    assert transport.sent.startswith(b"HTTP/1.1 200 ")


@BLANK
async def test_empty_lines_between_requests_do_not_prolong_the_idle_time(pieces: tuple[bytes, ...]) -> None:
    connection, transport = opened()
    connection.data_received(GET)
    connection.deadline.set(7, connection.on_head_timeout)  # as if most of the time had passed
    for piece in pieces:
        connection.data_received(piece)
        assert due_in(connection) == 7
    connection.data_received(GET)
    assert transport.sent.count(b"HTTP/1.1 200 ") == 2
    assert due_in(connection) == LIMITS.keepalive_s


@pytest.mark.parametrize("blank", [b"\r", b"\r\n"])
async def test_a_client_that_sent_empty_lines_only_is_idle_and_not_late(blank: bytes) -> None:
    connection, transport = opened()
    connection.data_received(blank)
    expire(connection)
    assert (transport.sent, transport.ended) == (b"", ["close"])


async def test_too_many_empty_lines_are_refused() -> None:
    connection, transport = opened()
    connection.data_received(b"\r\n" * 1000)
    assert transport.sent.startswith(b"HTTP/1.1 400 ")
    assert due_in(connection) == LIMITS.linger_s


async def test_an_idle_connection_is_aborted_if_its_client_does_not_read() -> None:
    """Closing waits until the client has read its responses."""
    connection, transport = opened()
    connection.data_received(GET)
    expire(connection)
    assert transport.ended == ["close"]
    expire(connection)
    assert transport.ended == ["close", "abort"]


async def test_a_response_whose_head_is_invalid_has_not_begun() -> None:
    connection, transport = opened(BadFieldConnection)
    connection.data_received(GET)
    assert transport.sent.startswith(b"HTTP/1.1 500 ")
