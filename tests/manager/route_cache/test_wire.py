"""Cached calls in any segmentation, and other requests between and instead of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest
import pytest_asyncio

from manager.supervision import workspaces
from support.http.client_connection import Known, RawConnection, calls_known_again, sent, warmed
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import PLAIN_RESULT
from support.servers.scripted.scripted_workspace_server import COMPLETE, held, result

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspaces, "ROOT_CHECK_S", 60)  # nothing has to be looked at for what a test sends
        async with registered_setup(tmp_path_factory.mktemp("fast")) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module", params=["modern", "legacy"])
async def client(setup: RegisteredSetup, request: pytest.FixtureRequest) -> AsyncIterator[RawConnection]:
    async with warmed(setup, request.param, "t") as one:
        yield one


@pytest.fixture
def known(client: RawConnection) -> Iterator[Known]:
    """The cached calls from now on."""
    with calls_known_again() as found:
        yield found


def call(client: RawConnection, identity: int) -> bytes:
    return client.request(client.body("t", identity, {"a": "b" * identity}))


async def ids(client: RawConnection, count: int) -> list[int]:
    return [(await client.answer()).message["id"] for _ in range(count)]


async def is_cached(client: RawConnection, known: Known) -> bool:
    """Whether the connection still works, and a call on it is cached."""
    before = len(known)
    assert (await client.send(call(client, 99))).message["id"] == 99
    return len(known) == before + 1


# -- segments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 10, -200, -90, -89, -30, -1])
async def test_a_call_in_two_segments_is_answered(cut: int, client: RawConnection, known: Known) -> None:
    raw = call(client, 5)
    assert (await client.send(raw[:cut], raw[cut:])).message["id"] == 5
    assert len(known) == 1
    assert await is_cached(client, known)


async def test_a_call_with_head_and_body_apart_is_answered(client: RawConnection, known: Known) -> None:
    for identity in (5, 6):
        body = client.body("t", identity)
        assert (await client.send(client.head(len(body)), body)).message["id"] == identity
    assert len(known) == 2


async def test_empty_lines_before_a_call_are_ignored(client: RawConnection, known: Known) -> None:
    for identity, blank in enumerate((b"\r\n", b"\r\n\r\n", b"\r"), 5):
        rest = b"\n" if blank == b"\r" else b""
        assert (await client.send(blank, rest + call(client, identity))).message["id"] == identity
        assert await is_cached(client, known)


async def test_a_call_behind_half_an_empty_line_is_refused(client: RawConnection, known: Known) -> None:
    """A cached call must not pass where a parsed one would not."""
    assert (await client.send(b"\r", call(client, 5))).status == 400
    assert known == []


async def test_a_call_sent_byte_by_byte_is_answered(client: RawConnection, known: Known) -> None:
    raw = call(client, 5)
    assert (await client.send(*(raw[at : at + 1] for at in range(len(raw))))).message["id"] == 5
    assert await is_cached(client, known)


@pytest.mark.parametrize("separator", [b"", b"\r\n"])
async def test_calls_in_one_segment_are_answered_in_order(
    separator: bytes, client: RawConnection, known: Known
) -> None:
    client.writer.write(separator.join(call(client, identity) for identity in (5, 6, 7)))
    assert await ids(client, 3) == [5, 6, 7]
    assert await is_cached(client, known)


async def test_a_partial_call_after_another_is_completed(client: RawConnection, known: Known) -> None:
    raw = call(client, 5) + call(client, 6)
    assert (await client.send(raw[:-20])).message["id"] == 5
    assert (await client.send(raw[-20:])).message["id"] == 6
    assert await is_cached(client, known)


@pytest.mark.parametrize("size", [20, None])
async def test_a_pipelined_call_waits_for_the_previous_answer(
    size: int | None, client: RawConnection, known: Known
) -> None:
    """It arrives while another call is in flight, in one piece or in two."""
    gate = asyncio.Event()
    client.setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
    client.writer.write(call(client, 5))
    await sent(known, 1)
    raw = call(client, 6)
    for piece in (raw[:size], raw[size:] if size else b""):
        client.writer.write(piece)
        await asyncio.sleep(0.01)
    gate.set()
    assert await ids(client, 2) == [5, 6]
    assert await is_cached(client, known)


async def test_too_many_pipelined_bytes_end_the_connection(client: RawConnection, known: Known) -> None:
    client.setup.upstream.answers["t"] = held(asyncio.Event(), PLAIN_RESULT)
    client.writer.write(call(client, 5))
    await sent(known, 1)
    client.writer.write(call(client, 6) * 500)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await client.answer()


# -- what comes between ------------------------------------------------------------------------------------


async def test_other_requests_between_cached_calls_are_answered(client: RawConnection, known: Known) -> None:
    host = client.lines[0]
    ping = client.body("t", 1).replace(b"tools/call", b"ping")
    between = {
        f"GET /mcp/health HTTP/1.1\r\n{host}\r\n\r\n".encode(): 200,
        f"PUT /mcp HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\n\r\n".encode(): 405,
        client.request(ping, "X-More: 1"): 400 if client.is_modern else 200,
        client.request(b"{"): 400,
        client.request(client.body("t", 1) + b"\xff"): 400,
        client.request(client.body("t", 1).replace(b'"2.0"', b'"1.0"')): 400,
        client.request(b'{"jsonrpc":"2.0","method":"notifications/x"}'): 202,
        client.request(client.body("t", 1, {"a": "\u00e9"})): 200,
        client.request(client.body("t", 1, {"a": [1] * 20_000})): 200,
    }
    for raw, status in between.items():
        assert (await client.send(raw)).status == status, raw
        assert await is_cached(client, known)
    assert len(known) == len(between)


async def test_a_call_with_too_many_values_is_refused(client: RawConnection, known: Known) -> None:
    refused = (await client.call("t", 5, {"a": [1] * 200_001})).error
    assert (refused["code"], refused["message"].partition("; ")[2]) == (-32700, "send less at once")
    assert (await client.call("t", 5, {"a": [1] * 2000})).status == 200
    assert len(known) == 1


async def test_a_body_above_the_limit_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("limit")
    async with registered_setup(folder, body_limit=1024) as small, warmed(small, "legacy", "t") as client:
        assert (await client.call("t", 5, {"a": "b" * 800})).status == 200
        assert (await client.call("t", 5, {"a": "b" * 1000})).status == 413


# -- how a connection ends, and does not --------------------------------------------------------------------


@pytest.mark.parametrize("line", ["Connection: close", "Connection: keep-alive, close"])
async def test_connection_close_is_obeyed(line: str, client: RawConnection, known: Known) -> None:
    answer = await client.send(client.request(client.body("t", 5), line))
    assert (answer.message["id"], answer.headers["Connection"]) == (5, "close")
    assert await client.reader.read() == b""
    assert known == []


async def test_expect_100_continue_is_answered(client: RawConnection, known: Known) -> None:
    """Such a call is parsed each time."""
    body = client.body("t", 5)
    for _ in range(4):
        client.writer.write(client.head(len(body), "Expect: 100-continue"))
        assert await client.reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await client.send(body)).message["id"] == 5
    assert known == []
    assert await is_cached(client, known)


async def test_a_chunked_call_is_answered(client: RawConnection, known: Known) -> None:
    body = client.body("t", 5)
    head = client.head(1, "Transfer-Encoding: chunked").replace(b"Content-Length: 1\r\n", b"")
    for _ in range(4):
        assert (await client.send(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))).message["id"] == 5
    assert known == []


async def test_an_http_1_0_call_ends_the_connection(client: RawConnection, known: Known) -> None:
    for _ in range(4):
        async with client.other() as old:
            answer = await old.send(call(old, 5).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            assert (answer.message["id"], answer.headers["Connection"]) == (5, "close")
            assert await old.reader.read() == b""
    assert known == []


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("Origin: https://evil.example", 403),
        ("Sec-Fetch-Site: cross-site", 403),
        ("Host: evil.example", 400),
        ("Content-Length: 5", 400),
        ("Transfer-Encoding: chunked", 400),
        ("Mcp-Session-Id: other", 400),
        ("X-Big: " + "x" * 17_000, 431),
    ],
)
async def test_admission_checks_apply_on_a_cached_connection(
    line: str, status: int, client: RawConnection, known: Known
) -> None:
    if "Session" in line and client.is_modern:
        line += "\r\n" + line
    assert (await client.send(client.request(client.body("t", 5), *line.split("\r\n")))).status == status
    assert await client.reader.read() == b""
    assert known == []


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b"127.0.0.1:", b"127.0.0.2:", 421),
        (b"application/json\r\n", b"application/text\r\n", 415),
        (b"Content-Length: ", b"Content-Length: +", 400),
        (b"Content-Length: ", b"Content-Length: 99999999", 413),
        (b"\r\n\r\n", b"\n\n", 400),
        (b" HTTP/1.1", b" HTTP/1.2", 400),
    ],
)
async def test_a_slightly_different_head_is_parsed(
    old: bytes, new: bytes, status: int, client: RawConnection, known: Known
) -> None:
    raw = call(client, 5)
    begin, found, end = raw.rpartition(old) if old.startswith(b"application") else raw.partition(old)
    assert found
    assert (await client.send(begin + new + end)).status == status
    assert known == []


@pytest.mark.parametrize("by", [-1, 1, 40])
async def test_a_wrong_content_length_is_refused(by: int, client: RawConnection, known: Known) -> None:
    body = client.body("t", 5)
    raw = client.head(len(body) + by) + body + call(client, 6)
    client.writer.write(raw)
    answer = await client.answer()
    assert answer.status == 400
    assert known == []


async def test_a_client_that_does_not_read_gets_back_pressure(client: RawConnection, known: Known) -> None:
    """Answers are not buffered without limit; once the client reads, it gets all of them."""
    client.setup.upstream.answers["t"] = result({**COMPLETE, "text": "x" * 60_000})
    before = len(client.setup.upstream.received)
    transport = cast("asyncio.Transport", client.writer.transport)
    transport.pause_reading()
    is_taken = True
    for identity in range(120):
        client.writer.write(client.request(client.body("t", identity)))
        if is_taken:
            is_taken = await reach_server(client, before + identity + 1)
    assert not is_taken
    assert len(known) > 10
    transport.resume_reading()
    assert await ids(client, 120) == list(range(120))


async def reach_server(client: RawConnection, count: int) -> bool:
    """Whether the workspace server gets `count` requests in time."""
    try:
        async with asyncio.timeout(0.3):
            while len(client.setup.upstream.received) < count:
                await asyncio.sleep(0.001)
    except TimeoutError:
        return False
    return True
