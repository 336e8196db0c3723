"""Bodies in chunks: what they hold, however they are cut, and what is refused."""

from __future__ import annotations

import time

import pytest

from lm_tools_bridge.http_server.parsing.body_reader import BROKEN, MAX_LINE, MAX_TRAILERS, ChunkedBody

WHOLE = b'5;name="a b"\r\nabcde\r\nA\r\n0123456789\r\n000\r\nX-Trailer: 1\r\n\r\nGET'
CAP = 100


@pytest.mark.parametrize("step", [*range(1, 20), len(WHOLE)])
def test_a_body_is_the_same_however_it_is_cut(step: int) -> None:
    body = ChunkedBody(CAP)
    for at in range(0, len(WHOLE), step):
        assert (
            body.feed(body.rest + WHOLE[at : at + step] if body.is_complete else WHOLE[at : at + step])
            is None
        )
        if body.is_complete:
            break
    assert (body.is_complete, body.body) == (True, b"abcde0123456789")
    assert b"GET".startswith(body.rest)


@pytest.mark.parametrize(
    "sent",
    [
        b"zz\r\n", b"\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"1 \r\na\r\n", b"1\na\r\n0\r\n\r\n", b"1\r\nab\r\n",
        b"1\r\na\n0\r\n\r\n", b"1;\x00\r\n", b"F" * 16 + b"\r\n", b"1" * (MAX_LINE + 1),
        b"0\r\n" + b"X: y\r\n" * (MAX_TRAILERS + 1),
        b"1;" + b"x" * MAX_LINE + b"\r\n", b"0\r\nX: " + b"y" * MAX_LINE + b"\r\n",
    ],
)  # fmt: skip
def test_broken_framing_is_refused(sent: bytes) -> None:
    """Where the next request begins must never be a matter of opinion."""
    body = ChunkedBody(CAP)
    assert body.feed(sent) is BROKEN or (body.feed(b"\r\n") is BROKEN)


def test_what_is_too_long_is_refused_at_its_announcement() -> None:
    body = ChunkedBody(CAP)
    assert body.feed(b"50\r\n" + b"x" * 80 + b"\r\n") is None
    refusal = body.feed(b"15\r\n")
    assert refusal is not None
    assert (refusal.status, body.body) == (413, b"")


def seconds_to_read(chunks: int) -> float:
    """Processor time for a read with so many small chunks; the best of three."""
    times = []
    for _ in range(3):
        body = ChunkedBody(chunks)
        sent = b"1\r\nx\r\n" * chunks + b"0\r\n\r\nGET"
        began = time.process_time()
        assert body.feed(sent) is None
        times.append(time.process_time() - began)
        assert (body.is_complete, body.body, body.rest) == (True, b"x" * chunks, b"GET")
    return min(times)


def test_many_small_chunks_in_one_read_take_linear_time() -> None:
    """Eight times as many take about eight times as long; if each copied the rest, more than forty times."""
    assert seconds_to_read(256 * 1024) < 20 * seconds_to_read(32 * 1024)
