"""Which responses the header cache handles, and which go to the parser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from httptools import HttpParserError, HttpResponseParser
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from manager.upstream import response
from manager.upstream.response import ResponseHead

BEGIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
HEAD = ResponseHead(
    200, ((b"content-type", b"application/json"), (b"content-length", b"2")), 2, b"application/json"
)


def message(body: bytes, length: int | None = None) -> bytes:
    return b"%b%d\r\n\r\n%b" % (BEGIN, len(body) if length is None else length, body)


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    response._heads.clear()
    yield
    response._heads.clear()


def test_a_cached_head_matches_with_another_length() -> None:
    response.remember_head(message(b"{}"), HEAD)
    assert response.read_known_response(message(b"{}")) == (HEAD, b"", b"{}")
    found = response.read_known_response(message(b'{"a":1}'))
    assert found is not None
    assert (found[0].content_length, found[0].header(b"content-length"), found[2]) == (7, b"7", b'{"a":1}')


@pytest.mark.parametrize(
    "data",
    [
        message(b"{}").replace(b"200", b"500"),
        message(b"{}", 3),
        message(b"{}", 1),
        message(b"{}") + b"x",
        message(b"{}") * 2,
        message(b"{}")[:-3],
        message(b"{}").replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"),
        message(b"{}").replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
        message(b"{}").replace(b": 2", b": +2"),
    ],
    ids=range(9),
)
def test_anything_else_goes_to_the_parser(data: bytes) -> None:
    response.remember_head(message(b"{}"), HEAD)
    assert response.read_known_response(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + message(b"{}"),
        message(b"{}")[9:],
        message(b"{}").replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"),
        message(b"{}").replace(b": 2", b": 3"),
    ],
    ids=range(4),
)
def test_data_that_begins_with_another_head_is_not_cached(data: bytes) -> None:
    response.remember_head(data, HEAD)
    assert response.read_known_response(data) is None
    assert response.read_known_response(message(b"{}")) is None


TIMING = CallTiming("scripts", 7, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n%b\r\nContent-Length: 2\r\n\r\n{}" % TIMING.line,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n%b\r\n\r\n{}" % TIMING.line.replace(b"Took", b"took"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n%b\r\n\r\n0\r\n\r\n" % TIMING.line,
    ],
    ids=["before the length", "in other letters", "with chunks"],
)
def test_a_head_whose_timing_would_be_lost_is_not_cached(data: bytes) -> None:
    length = None if b"chunked" in data else 2
    fields = [(b"lm-tools-bridge-took", TIMING.value)] + [(b"content-length", b"2")] * (length == 2)
    response.remember_head(data, ResponseHead(200, tuple(fields), length))
    assert response.read_known_response(data) is None


# -- chunked bodies --------------------------------------------------------------------------------------

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = ResponseHead(
    200,
    ((b"content-type", b"text/event-stream"), (b"transfer-encoding", b"chunked")),
    None,
    b"text/event-stream",
)


@pytest.mark.parametrize(
    ("chunks", "body"),
    [
        (b"0\r\n\r\n", b""),
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (b"1\r\na\r\n0A\r\n0123456789\r\n0\r\n\r\n", b"a0123456789"),
    ],
)
def test_a_chunked_body_matches_with_the_same_head(chunks: bytes, body: bytes) -> None:
    response.remember_head(STREAM + chunks, CHUNKED)
    assert response.read_known_response(STREAM + chunks) == (CHUNKED, b"", body)
    assert response.read_known_response(STREAM.replace(b"200", b"201") + chunks) is None


@pytest.mark.parametrize(
    "chunks",
    [
        b"",
        b"3\r\nabc\r\n",
        b"3\r\nabc\r\n0\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\r\nab\r\n0\r\n\r\n",
        b"3;x=y\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"+3\r\nabc\r\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\r\n0\r\nT: x\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"0\r\n\r\n0\r\n\r\n",
        b"fffffffff\r\n",
        b"1\r\na\r\n" * response.MAX_CHUNKS + b"0\r\n\r\n",
    ],
    ids=str,
)
def test_incomplete_or_unusual_chunks_go_to_the_parser(chunks: bytes) -> None:
    response.remember_head(STREAM, CHUNKED)
    assert response.read_known_response(STREAM + chunks) is None


class Parsed:
    """The body as the parser reads it; `is_whole` once it has ended."""

    def __init__(self, data: bytes) -> None:
        self.body = b""
        self.is_whole = False
        try:
            HttpResponseParser(self).feed_data(data)
        except HttpParserError:
            self.is_whole = False

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.is_whole = not self.is_whole  # a second end must not count


CHUNK = st.tuples(
    st.sampled_from([b"1", b"2", b"0", b"00", b"A", b"a", b"+1", b"0x1", b"", b"1;x", b" 1", b"fffffffff"]),
    st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\r", b""]),
    st.sampled_from([b"", b"x", b"xy", b"x" * 10, b"\r\n", b"0\r\n\r\n"]),
    st.sampled_from([b"\r\n", b"\r\n", b"\n", b""]),
).map(b"".join)


@given(
    chunks=st.lists(
        CHUNK | st.binary(min_size=1, max_size=9).map(lambda one: b"%x\r\n%b\r\n" % (len(one), one))
    ),
    end=st.sampled_from([b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\n", b"", b"0\r\n\r\nx"]),
)
def test_chunks_are_joined_as_the_parser_joins_them(chunks: list[bytes], end: bytes) -> None:
    begin = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    response._heads.clear()
    response.remember_head(begin, ResponseHead(200, ((b"transfer-encoding", b"chunked"),), None))
    data = begin + b"".join(chunks) + end
    found, parsed = response.read_known_response(data), Parsed(data)
    if found is not None:
        assert (found[2], True) == (parsed.body, parsed.is_whole)
