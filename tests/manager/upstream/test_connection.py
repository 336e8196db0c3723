"""One HTTP/1.1 exchange over real sockets: framing, limits, back-pressure, cancellation."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import socket
from unittest.mock import Mock

import pytest

from lm_tools_bridge.protocol.internal import call_reports
from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from manager.forwarding.body_flow import Flow
from manager.upstream import connection as read_buffer
from manager.upstream import response as upstream_response
from manager.upstream.connection import PIECE, Connection
from manager.upstream.failures import Blame, ResponseTooLarge, UpstreamFailure
from manager.upstream.pool import request_head
from manager.upstream.response import HIGH_WATER, ResponseHead
from manager.upstream.response_parser import MAX_HEAD
from support.processes.timeouts import GUARD_S

BOUND = GUARD_S
LIMIT = 1024 * 1024
ONE_READ = 256 * 1024  # the most a loop takes from a socket at once
GET = request_head(b"GET", b"/", b"h", (), 0)
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def answering(*pieces: bytes):
    """A script that answers one request with `pieces` and closes."""

    async def script(peer):
        await peer.request()
        await peer.send(*pieces)

    return script


async def until(condition) -> None:
    async with asyncio.timeout(BOUND):
        while not condition():
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("answer", "status", "body", "kept"),
    [
        pytest.param(OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True, id="content-length"),
        pytest.param(OK + b"Content-Length: 0\r\n\r\n", 200, b"", True, id="empty"),
        pytest.param(CHUNKED + b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", 200, b"hello", True, id="chunked"),
        pytest.param(
            CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 9\r\nMcp-Session-Id: evil\r\n\r\n",
            200,
            b"hello",
            True,
            id="trailers",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
            + OK
            + b"Content-Length: 2\r\n\r\nhi",
            200,
            b"hi",
            True,
            id="interim",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", 204, b"", True, id="204"),
        pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, b"", True, id="304"),
        pytest.param(OK + b"\r\nhello", 200, b"hello", False, id="until-close"),
        pytest.param(
            OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", False, id="connection-close"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", False, id="http-1.0"),
    ],
)
async def test_answer_cut_at_any_byte_reads_the_same(serve, connect, answer, status, body, kept):
    async def script(peer):
        while True:
            await peer.request()
            cut = cuts.pop(0)
            await peer.send(answer[:cut])
            await connection.has_seen(cut)
            await peer.send(answer[cut:])
            if not kept:
                return

    cuts = list(range(len(answer)))
    server = await serve(script)
    connection = await connect(server)
    idle: list[object] = []
    while cuts:
        if not connection.is_open:
            connection = await connect(server)
        connection.seen = 0
        connection.on_idle = idle.append
        response = await connection.exchange(GET, b"")
        names = [name for name, _ in response.head.headers]
        assert (response.head.status, await response.read(LIMIT)) == (status, body)
        assert b"mcp-session-id" not in names and b"link" not in names
        assert connection.is_open is kept
        assert idle == ([connection] if kept else [])
        idle.clear()


def test_header_is_found_in_any_case_and_the_first_one_counts():
    head = ResponseHead(200, ((b"x-a", b"1"), (b"x-a", b"2")), None)
    assert (head.header(b"X-A"), head.header(b"x-b")) == (b"1", None)


async def test_the_head_has_the_length_of_the_body(serve, connect):
    connection = await connect(
        await serve(answering(OK + b"Content-Length: 5\r\nX-Name: Kept As Is\r\n\r\nhello"))
    )
    head = (await connection.exchange(GET, b"")).head
    assert head == ResponseHead(200, ((b"content-length", b"5"), (b"x-name", b"Kept As Is")), 5)


async def test_stream_event_is_readable_before_the_next_one_is_sent(serve, connect):
    async def script(peer):
        await peer.request()
        await peer.send(CHUNKED)
        for event in events:
            await peer.send(b"%x\r\n%b\r\n" % (len(event), event))
            await taken.wait()
            taken.clear()
        await peer.send(b"0\r\n\r\n")

    events = [b"data: %d\n\n" % number for number in range(20)]
    taken = asyncio.Event()
    connection = await connect(await serve(script))
    got = []
    async with asyncio.timeout(BOUND):
        async for piece in (await connection.exchange(GET, b"")).chunks():
            got.append(piece)
            taken.set()
    assert got == events


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param(b"", "connection_lost", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", "connection_lost", id="half-a-head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", "connection_lost", id="only-interim"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "malformed_response", id="other-protocol"),
        pytest.param(GET, "malformed_response", id="own-request-echoed"),
        pytest.param(
            OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nhi", "malformed_response", id="two-lengths"
        ),
        pytest.param(
            CHUNKED[:-2] + b"Content-Length: 2\r\n\r\nhi", "malformed_response", id="length-and-chunked"
        ),
        pytest.param(OK + b"Content-Length: -1\r\n\r\n", "malformed_response", id="negative-length"),
        pytest.param(
            OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "malformed_response", id="coding"
        ),
        pytest.param(OK.replace(b"\r\n", b"\n") + b"\n", "malformed_response", id="bare-lf"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "malformed_response",
            id="upgrade",
        ),
        pytest.param(OK + b"X: " + b"y" * 1_000_000, "head_too_large", id="giant-field"),
        pytest.param(OK + b"X: y\r\n" * 50_000, "head_too_large", id="many-fields"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 50_000, "head_too_large", id="endless-interim"),
    ],
)
async def test_a_failure_before_the_head_may_have_been_delivered(serve, connect, answer, cause):
    async def script(peer):
        await peer.request()
        await peer.send(answer)

    server = await serve(script)
    connection = await connect(server)
    with pytest.raises(UpstreamFailure) as failure:
        await connection.exchange(GET, b"")
    assert (failure.value.blame, failure.value.cause) == (Blame.MAYBE_DELIVERED, cause)
    assert not connection.is_open


@pytest.mark.parametrize(
    ("answer", "before", "cause"),
    [
        pytest.param(OK + b"Content-Length: 9\r\n\r\nhello", b"hello", "truncated_response", id="length"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n", b"hello", "truncated_response", id="no-last-chunk"),
        pytest.param(CHUNKED + b"9\r\nhello", b"hello", "truncated_response", id="inside-a-chunk"),
        pytest.param(
            CHUNKED + b"5\r\nhello\r\n0\r\n", b"hello", "truncated_response", id="inside-the-trailers"
        ),
        pytest.param(CHUNKED + b"5\r\nhello\r\nzz\r\n", b"hello", "malformed_response", id="no-chunk-size"),
        pytest.param(
            CHUNKED + b"0\r\n" + b"X: y\r\n" * 200_000, b"", "head_too_large", id="endless-trailers"
        ),
    ],
)
async def test_a_body_that_breaks_off_fails_after_the_received_data(serve, connect, answer, before, cause):
    connection = await connect(await serve(answering(answer)))
    response = await connection.exchange(GET, b"")
    got = b""
    with pytest.raises(UpstreamFailure) as failure:
        async for piece in response.chunks():
            got += piece
    assert (got, failure.value.blame, failure.value.cause) == (before, Blame.MAYBE_DELIVERED, cause)
    with pytest.raises(UpstreamFailure):
        await response.read(LIMIT)
    assert not connection.is_open


TIMING = CallTiming("stdio:git", 1_500_000, 20_000)


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK + b"Content-Length: 5\r\n%b\r\n\r\nhello" % TIMING.line, id="head"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\n%b\r\n\r\n" % TIMING.line, id="trailer"),
    ],
)
async def test_the_time_of_a_call_is_read_from_head_and_trailer(serve, connect, answer, pieces):
    cut = len(answer) // pieces
    server = await serve(answering(*filter(None, (answer[:cut], answer[cut:]))))
    connection = await connect(server)
    response = await connection.exchange(GET, b"")
    assert await response.read(LIMIT) == b"hello"
    assert response.took == TIMING.value


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 5\r\nLm-Tools-Bridge-Took: %b\r\n\r\nhello",
        CHUNKED + b"5\r\nhello\r\n0\r\nLm-Tools-Bridge-Took: %b\r\n\r\n",
    ],
    ids=["head", "trailer"],
)
async def test_what_is_too_long_for_a_time_is_not_kept_for_the_recorder(serve, connect, answer):
    """Tens of thousands of them may wait while a disk hangs."""
    for surplus in (0, 1):
        value = b"x" * (call_reports.LONGEST + surplus)
        connection = await connect(await serve(answering(answer % value)))
        response = await connection.exchange(GET, b"")
        assert await response.read(LIMIT) == b"hello"
        assert response.took == (b"" if surplus else value)


async def test_the_time_of_each_call_is_its_own_where_heads_are_cached(serve, connect):
    timings = [CallTiming("stdio:git", number, 0) for number in (1, 22, 333)] + [None, CallTiming("x", 4, 0)]

    async def script(peer):
        for timing in timings:
            await peer.request()
            line = b"" if timing is None else timing.line + b"\r\n"
            await peer.send(OK + b"Content-Length: 2\r\n%b\r\nhi" % line)

    connection = await connect(await serve(script))
    found = []
    for _ in timings:
        response = await connection.exchange(GET, b"")
        assert await response.read(LIMIT) == b"hi"
        found.append(response.took)
    assert found == [b"" if timing is None else timing.value for timing in timings]


async def test_body_until_close_that_ends_with_a_reset_is_truncated(serve, connect):
    async def script(peer):
        await peer.request()
        await peer.send(OK + b"\r\nhello")
        await until(lambda: connection.seen)
        peer.reset()

    connection = await connect(await serve(script))
    response = await connection.exchange(GET, b"")
    with pytest.raises(UpstreamFailure, match="truncated_response"):
        await response.read(LIMIT)


@pytest.mark.parametrize(("surplus", "accepted"), [(0, True), (1, False)])
async def test_head_may_have_64_kib_and_not_one_byte_more(serve, connect, surplus, accepted):
    padding = MAX_HEAD - len(OK + b"Content-Length: 2\r\nX: \r\n\r\n") + surplus
    connection = await connect(
        await serve(answering(OK + b"Content-Length: 2\r\nX: " + b"y" * padding + b"\r\n\r\nhi"))
    )
    if accepted:
        assert await (await connection.exchange(GET, b"")).read(LIMIT) == b"hi"
    else:
        with pytest.raises(UpstreamFailure, match="head_too_large"):
            await connection.exchange(GET, b"")


@pytest.mark.parametrize("surplus", [b"x", OK + b"Content-Length: 4\r\n\r\nevil"])
async def test_bytes_after_the_answer_close_the_connection_only(serve, connect, surplus):
    connection = await connect(await serve(answering(OK + b"Content-Length: 2\r\n\r\nhi" + surplus)))
    response = await connection.exchange(GET, b"")
    assert await response.read(LIMIT) == b"hi"
    assert not connection.is_open


async def test_closed_connection_says_that_nothing_was_delivered(serve, connect):
    async def script(peer):
        await peer.disconnect()

    server = await serve(script)
    connection = await connect(server)
    connection.close("test")
    with pytest.raises(UpstreamFailure) as failure:
        await connection.exchange(GET, b"")
    await server.finished()
    assert (failure.value.blame, bytes(server.peers[0].received)) == (Blame.NOT_DELIVERED, b"")


async def test_a_slow_reader_pauses_the_server_and_bounds_the_buffer(serve, connect):
    block = hashlib.sha256(b"block").digest() * 2048
    rounds = 64 * 1024 * 1024 // len(block)

    async def script(peer):
        await peer.request()
        await peer.send(OK + b"Content-Length: %d\r\n\r\n" % (rounds * len(block)), *[block] * rounds)

    connection = await connect(await serve(script))
    response = await connection.exchange(GET, b"")
    await until(lambda: not connection.transport.is_reading())
    digest = hashlib.sha256()
    async for piece in response.chunks():
        digest.update(piece)
        connection.consumed += len(piece)
        await asyncio.sleep(0)  # the server may run ahead here
    assert connection.peak <= HIGH_WATER + ONE_READ + MAX_HEAD
    assert connection.consumed == rounds * len(block)
    assert digest.digest() == hashlib.sha256(block * rounds).digest()


async def test_reading_goes_on_if_the_last_byte_of_an_answer_fills_the_buffer(serve, connect):
    async def script(peer):
        for body in (b"x" * (HIGH_WATER + 1), b"hi"):
            await peer.request()
            await peer.send(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await peer.disconnect()

    connection = await connect(await serve(script))
    first = await connection.exchange(GET, b"")
    await connection.has_seen(HIGH_WATER + 1 + len(OK + b"Content-Length: 262145\r\n\r\n"))
    async with asyncio.timeout(BOUND):
        assert await (await connection.exchange(GET, b"")).read(LIMIT) == b"hi"
    assert len(await first.read(LIMIT)) == HIGH_WATER + 1


async def test_data_after_a_large_body_closes_the_connection(serve, connect):
    """The body is complete, but the connection is not reused."""
    body = b"x" * LIMIT
    connection = await connect(
        await serve(answering(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"HTTP/1.1 200 OK"))
    )
    assert await (await connection.exchange(GET, b"")).read(LIMIT) == body
    await until(lambda: not connection.is_open)


async def test_json_body_of_20_mb_is_read_whole(serve, connect):
    body = json.dumps({"text": "ä" * 3_500_000}).encode()
    assert len(body) > 20_000_000
    connection = await connect(await serve(answering(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)))
    assert await (await connection.exchange(GET, b"")).read(32 * LIMIT) == body


@pytest.mark.parametrize(
    "head", [OK + b"Content-Length: 200000000\r\n\r\n", CHUNKED + b"bebc200\r\n", OK + b"\r\n"]
)
async def test_body_over_the_limit_closes_the_connection(serve, connect, head):
    async def script(peer):
        await peer.request()
        await peer.send(head, *[b"x" * 65536] * 3000)
        raise AssertionError("the whole body was taken")

    server = await serve(script)
    connection = await connect(server)
    with pytest.raises(ResponseTooLarge) as refusal:
        await (await connection.exchange(GET, b"")).read(LIMIT)
    await server.finished()
    assert refusal.value.limit == LIMIT
    assert connection.seen <= LIMIT + HIGH_WATER + 2 * ONE_READ


async def test_a_content_length_over_the_limit_is_refused_before_the_body(serve, connect):
    async def script(peer):
        await peer.request()
        await peer.send(OK + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1))
        await peer.disconnect()

    server = await serve(script)
    response = await (await connect(server)).exchange(GET, b"")
    async with asyncio.timeout(BOUND):
        with pytest.raises(ResponseTooLarge):
            await response.read(LIMIT)
    await server.finished()


@pytest.mark.parametrize(("limit", "fits"), [(5, True), (4, False)])
async def test_a_body_of_exactly_the_limit_passes(serve, connect, limit, fits):
    connection = await connect(await serve(answering(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n")))
    response = await connection.exchange(GET, b"")
    if fits:
        assert await response.read(limit) == b"hello"
    else:
        with pytest.raises(ResponseTooLarge):
            await response.read(limit)


@pytest.mark.parametrize("size", [0, 1, 65_000, PIECE, PIECE + 1, 20_000_000])
async def test_request_body_arrives_byte_for_byte(serve, connect, size):
    async def script(peer):
        await release.wait()
        request = await peer.request()
        digest = hashlib.sha256(request).hexdigest().encode()
        await peer.send(OK + b"Content-Length: %d\r\n\r\n%b" % (len(digest), digest))

    release = asyncio.Event()
    connection = await connect(await serve(script))
    idle: list[object] = []
    connection.on_idle = idle.append
    body = (b"0123456789abcde" * (size // 15 + 1))[:size]
    head = request_head(b"POST", b"/mcp", b"h", ((b"X", b"y"),), size)
    call = asyncio.create_task(connection.exchange(head, body))
    await asyncio.sleep(0)
    # The server does not read yet: data that the kernel does not take must wait in `body`, not in copies.
    assert connection.transport.get_write_buffer_size() <= 2 * PIECE
    release.set()
    async with asyncio.timeout(BOUND):
        answer = await (await call).read(LIMIT)
    assert answer == hashlib.sha256(head + body).hexdigest().encode()
    assert idle == [connection], "the whole request was sent, so the connection can serve again"


async def test_an_early_answer_is_read_and_the_connection_closed(serve, connect):
    async def script(peer):
        await peer.head()
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await until(lambda: not connection.is_open)

    connection = await connect(await serve(script))
    body = b"x" * 20_000_000
    response = await connection.exchange(request_head(b"POST", b"/", b"h", (), len(body)), body)
    assert (response.head.status, await response.read(LIMIT)) == (413, b"big")
    assert not connection.is_open


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nConte", CHUNKED, CHUNKED + b"2\r\nhi\r\n"])
async def test_cancelled_caller_makes_the_server_see_a_disconnect(serve, connect, answer):
    async def script(peer):
        await peer.request()
        await peer.send(answer)
        await peer.disconnect()

    async def call():
        await (await connection.exchange(GET, b"")).read(LIMIT)

    server = await serve(script)
    connection = await connect(server)
    task = asyncio.create_task(call())
    await until(lambda: server.peers and server.peers[0].received and connection.seen == len(answer))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not connection.is_open
    await server.finished()


async def test_cancelling_a_large_request_closes_without_waiting(serve, connect):
    async def script(peer):
        peer.stop_reading()
        await resume.wait()

    resume = asyncio.Event()
    server = await serve(script)
    connection = await connect(server)
    # With kernel buffers smaller than one piece, the transport cannot write all its data.
    connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
    await until(lambda: server.peers)
    body = b"x" * 20_000_000
    task = asyncio.create_task(connection.exchange(request_head(b"POST", b"/", b"h", (), len(body)), body))
    await until(connection.transport.get_write_buffer_size)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: connection.is_lost)
    resume.set()


async def test_aclose_of_an_unfinished_response_closes_and_may_be_repeated(serve, connect):
    async def script(peer):
        await peer.request()
        await peer.send(CHUNKED + b"2\r\nhi\r\n")
        await peer.disconnect()

    server = await serve(script)
    connection = await connect(server)
    response = await connection.exchange(GET, b"")
    response.abandon()
    response.abandon()
    assert not connection.is_open
    await server.finished()
    with pytest.raises(UpstreamFailure, match="abandoned"):
        await response.read(LIMIT)


async def test_aclose_of_a_finished_response_leaves_the_connection_alone(serve, connect):
    async def script(peer):
        for _ in range(2):
            await peer.request()
            await peer.send(OK + b"Content-Length: 2\r\n\r\nhi")
        await peer.disconnect()

    connection = await connect(await serve(script))
    first = await connection.exchange(GET, b"")
    await until(lambda: connection.seen == len(OK + b"Content-Length: 2\r\n\r\nhi"))
    second = asyncio.create_task(connection.exchange(GET, b""))
    await asyncio.sleep(0)
    first.abandon()
    assert await (await second).read(LIMIT) == b"hi"


async def test_cancelling_a_finished_call_does_not_affect_the_next_one(serve, connect):
    """The answer comes in between the cancellation and the moment the cancelled task runs."""

    async def script(peer):
        await peer.request()
        await peer.request()
        await peer.send(OK + b"Content-Length: 6\r\n\r\nsecond")
        await peer.disconnect()

    connection = await connect(await serve(script))
    following: list[asyncio.Task] = []
    connection.on_idle = lambda idle: following.append(asyncio.ensure_future(idle.exchange(GET, b"")))
    cancelled = asyncio.create_task(connection.exchange(GET, b""))
    await asyncio.sleep(0)
    cancelled.cancel()
    connection.data_received(OK + b"Content-Length: 5\r\n\r\nfirst")
    connection.on_idle = None
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    async with asyncio.timeout(BOUND):
        assert await (await following[0]).read(LIMIT) == b"second"


def test_request_head_is_written_as_given():
    head = request_head(b"POST", b"/w/a/mcp", b"127.0.0.1:9", ((b"Accept", b"*/*"), (b"X-Empty", b"")), 12)
    assert head == (
        b"POST /w/a/mcp HTTP/1.1\r\nHost: 127.0.0.1:9\r\n"
        b"Accept: */*\r\nX-Empty: \r\nContent-Length: 12\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("method", "expected"),
    [(b"GET", b""), (b"POST", b"Content-Length: 0\r\n"), (b"DELETE", b"Content-Length: 0\r\n")],
)
def test_only_a_get_without_body_has_no_content_length(method, expected):
    assert request_head(method, b"/", b"h", (), 0) == b"%b / HTTP/1.1\r\nHost: h\r\n%b\r\n" % (
        method,
        expected,
    )


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        *[
            (b"GET", b"/", [(b"X", b"a" + octets + b"b")])
            for octets in (b"\r\n", b"\n", b"\r", b"\0", b"\r\nY: z")
        ],
        *[
            (b"GET", b"/", [(name, b"v")])
            for name in (b"", b"X\r\nY", b"X Y", b"X:", b"Host", b"TRANSFER-encoding")
        ],
        *[(b"GET", b"/", [(name, b"1")]) for name in (b"Content-Length", b"Connection")],
        *[(b"GET", target, []) for target in (b"/ HTTP/1.1\r\nX: y", b"/a b", b"/\n", b"/\0")],
        *[(method, b"/", []) for method in (b"HEAD", b"CONNECT", b"GET /x", b"GET\r\n")],
    ],
)
def test_request_that_would_alter_the_framing_is_refused(method, target, headers):
    with pytest.raises(ValueError):
        request_head(method, target, b"h", headers, 0)


async def test_a_close_that_the_loop_has_not_processed_makes_it_unfit():
    """Otherwise the connection of a server that has just ended would lose the next call."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        lost = asyncio.Event()
        _, connection = await loop.create_connection(
            lambda: Connection(lambda _: lost.set()), *listener.getsockname()
        )
        peer, _ = await loop.sock_accept(listener)
        assert connection.is_fit
        peer.close()
        assert connection.is_open
        assert not connection.is_fit
        connection.close("test_over")
        await asyncio.wait_for(lost.wait(), BOUND)


BODY = random.Random(1).randbytes(5_000_000)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


class Line(asyncio.Protocol):
    """A client's connection, and the sink in front of it."""

    def __init__(self) -> None:
        self.is_full = False
        self.kinds: set[type] = set()
        self._then = lambda: None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        then, self._then = self._then, lambda: None
        then()

    def put(self, data) -> bool:
        self.kinds.add(type(data))
        self.transport.write(data)
        return not self.is_full

    def when_writable(self, call) -> None:
        self._then = call


@pytest.fixture
async def both():
    """A client's connection, and the client."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    _, line = await asyncio.get_running_loop().create_connection(Line, sock=ours)
    yield line, theirs
    line.transport.abort()
    theirs.close()


async def read(client: socket.socket, size: int, *, at_a_time: int) -> bytes:
    loop, got = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(BOUND):
        while len(got) < size:
            got += await loop.sock_recv(client, at_a_time)
            await asyncio.sleep(0)
    return bytes(got)


async def begun(serve, connect, script):
    """The response to a request, and its connection."""
    connection = await connect(await serve(script))
    return await connection.exchange(GET, b""), connection


def lent(response, line):
    ended = asyncio.get_running_loop().create_future()
    Flow(response, line, ended.set_result)
    response.lend()
    return ended


@pytest.mark.parametrize("at_a_time", [5_000, 5_000_000])
async def test_a_lent_body_arrives_whole_and_its_connection_is_reused(serve, connect, both, at_a_time):
    async def script(peer):
        for _ in range(3):
            await peer.request()
            await peer.send(HEAD % len(BODY) + BODY)
        await peer.request()
        await peer.send(HEAD % 2 + b"hi")

    response, connection = await begun(serve, connect, script)
    line, client = both
    for turn in range(3):
        if turn:
            response = await connection.exchange(GET, b"")
        ended = lent(response, line)
        got = await read(client, len(BODY), at_a_time=at_a_time)
        assert hashlib.sha256(got).digest() == hashlib.sha256(BODY).digest()
        assert await ended is None
    assert memoryview in line.kinds
    assert await (await connection.exchange(GET, b"")).read(10) == b"hi"


async def test_a_body_that_breaks_off_ends_the_flow_after_its_last_bytes(serve, connect, both):
    async def script(peer):
        await peer.request()
        await peer.send(HEAD % len(BODY) + BODY[:-1])

    response, connection = await begun(serve, connect, script)
    line, client = both
    ended = lent(response, line)
    assert await read(client, len(BODY) - 1, at_a_time=1_000_000) == BODY[:-1]
    failure = await ended
    assert isinstance(failure, UpstreamFailure)
    assert failure.cause == "truncated_response"
    assert not connection.is_open


async def test_data_after_a_lent_body_closes_the_connection(serve, connect, both):
    async def script(peer):
        await peer.request()
        await peer.send(HEAD % len(BODY) + BODY + b"HTTP/1.1 200 OK")

    response, connection = await begun(serve, connect, script)
    line, client = both
    ended = lent(response, line)
    assert await read(client, len(BODY), at_a_time=1_000_000) == BODY
    assert await ended is None
    async with asyncio.timeout(BOUND):
        while connection.is_open:
            await asyncio.sleep(0)


async def test_abandoning_a_lent_body_closes_its_connection(serve, connect, both):
    async def script(peer):
        await peer.request()
        await peer.send(HEAD % len(BODY) + BODY)
        await peer.disconnect()

    response, connection = await begun(serve, connect, script)
    line, client = both
    lent(response, line)
    await read(client, read_buffer.SIZE, at_a_time=10_000)
    response.abandon()
    async with asyncio.timeout(BOUND):
        while connection.is_open:
            await asyncio.sleep(0)


async def silent(peer) -> None:
    await peer.request()
    await peer.disconnect()


async def test_a_cached_head_within_another_head_is_not_taken_for_a_head(serve, connect):
    connection = await connect(await serve(silent))
    response = connection.begin(GET, b"")
    connection.data_received(HEAD % 5 + b"hello")
    assert response.head.status == 200
    response = connection.begin(GET, b"")
    connection.data_received(b"HTTP/1.1 500 Oops\r\nX-Half: ")
    connection.data_received(HEAD % len(BODY) + BODY[:20_000])
    assert response.head.status == 500


@pytest.mark.parametrize("first", [0, 100])
async def test_a_body_abandoned_with_its_last_piece_ends_once(serve, connect, first):
    upstream_response._heads.clear()  # a whole response in one read could not be abandoned
    connection = await connect(await serve(silent))
    idle = []
    connection.on_idle = idle.append
    response = connection.begin(GET, b"")
    if first:
        connection.data_received(HEAD % len(BODY) + BODY[:first])
    response.on_data = response.abandon
    connection.data_received(
        BODY[first:] if first else HEAD.replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n") % 5 + b"hello"
    )
    assert idle == []
    assert response.failure is not None
    assert response.failure.cause == "abandoned"


def filled(reading: read_buffer.ReadBuffer, data: bytes) -> memoryview:
    """The piece that the connection is lent of these bytes."""
    buffer = reading.get_buffer(-1)
    assert len(buffer) == read_buffer.SIZE
    buffer[: len(data)] = data
    reading.buffer_updated(len(data))
    return reading._reader.piece_received.call_args.args[0]


def test_the_next_body_reuses_the_buffer() -> None:
    first = read_buffer.ReadBuffer(Mock())
    piece = filled(first, b"one")
    assert piece == b"one"
    address = id(piece.obj)
    piece.release()
    first._reader.piece_received.reset_mock()
    first.close()
    second = read_buffer.ReadBuffer(Mock())
    assert id(second.get_buffer(-1)) == address
    assert id(read_buffer.ReadBuffer(Mock()).get_buffer(-1)) != address, "it has one user at a time"


def test_a_piece_that_waits_to_be_written_is_not_overwritten() -> None:
    reading = read_buffer.ReadBuffer(Mock())
    pieces = [filled(reading, b"one"), filled(reading, b"two")]
    reading.close()
    pieces.append(filled(read_buffer.ReadBuffer(Mock()), b"six"))
    assert pieces == [b"one", b"two", b"six"]
