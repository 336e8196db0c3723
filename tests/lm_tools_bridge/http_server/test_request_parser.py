"""The parser of a connection: requests however their bytes are cut, refusals, and what is left over."""

from __future__ import annotations

import time
import tracemalloc
from typing import NamedTuple

import pytest

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import (
    MALFORMED,
    Framing,
    HeadReader,
    ReadHead,
    RefusedHead,
    RequestHead,
    framing,
)
from lm_tools_bridge.http_server.request_parser import (
    BROKEN,
    MAX_BLANK_BYTES,
    MAX_LINE,
    MAX_TRAILERS,
    TOO_MANY_BLANK_LINES,
    ChunkedBody,
    RequestParser,
)

CAP = 100
REFUSAL = AdmissionRefusal(403, "no")
FIRST = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\none"
CHUNKED = b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n0\r\n\r\n"
EMPTY = b"GET /c HTTP/1.1\r\n\r\n"


class Head(NamedTuple):
    parsed: RequestHead
    framing: Framing


class Reader(HeadReader[Head]):
    """Admits everything but `/no`."""

    def admit(self, raw: bytes, parsed: RequestHead) -> Head | AdmissionRefusal:
        return REFUSAL if parsed.target == "/no" else Head(parsed, framing(raw, parsed))


@pytest.fixture
def parser() -> RequestParser[Head]:
    return RequestParser(Reader(1000, REFUSAL, CAP), CAP)


def requests(parser: RequestParser[Head], sent: bytes, step: int) -> list[tuple[str, bytes]]:
    """All requests that are found in bytes which come in pieces of this size."""
    found: list[tuple[str, bytes]] = []
    read: ReadHead[Head] | None = None
    for at in range(0, len(sent), step):
        parser.receive(sent[at : at + step])
        while parser.buffer:
            if read is None:
                head = parser.next_head()
                if head is None:
                    break
                assert isinstance(head, ReadHead)
                body = parser.whole_body(head.length)
                if body is None:
                    parser.expect_body(head.length)
                    read = head
                    continue
            else:
                head, received = read, parser.next_body()
                assert not isinstance(received, AdmissionRefusal)
                if received is None:
                    continue
                body, read = received, None
            found.append((head.head.parsed.target, body))
    return found


@pytest.mark.parametrize("step", [1, 2, 3, 7, 30, 1000])
def test_requests_are_the_same_however_they_are_cut(parser: RequestParser[Head], step: int) -> None:
    sent = FIRST + b"\r\n" + CHUNKED + EMPTY + FIRST
    assert requests(parser, sent, step) == [("/a", b"one"), ("/b", b"two"), ("/c", b""), ("/a", b"one")]
    assert parser.buffer == b""


def test_more_bytes_are_needed_until_a_head_is_complete(parser: RequestParser[Head]) -> None:
    assert parser.next_head() is None
    parser.receive(EMPTY[:-1])
    assert parser.next_head() is None
    parser.receive(EMPTY[-1:])
    assert isinstance(parser.next_head(), ReadHead)
    assert parser.raw_head == EMPTY


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_a_few_empty_lines_are_ignored_before_every_head(parser: RequestParser[Head], step: int) -> None:
    blank = b"\r\n" * (MAX_BLANK_BYTES // 2)
    assert requests(parser, (blank + EMPTY) * 3, step) == [("/c", b"")] * 3


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_many_empty_lines_are_refused_however_they_are_cut(parser: RequestParser[Head], step: int) -> None:
    blank = b"\r\n" * (MAX_BLANK_BYTES // 2 + 1)
    answers = []
    for at in range(0, len(blank), step):
        parser.receive(blank[at : at + step])
        answers.append(parser.next_head())
    assert set(answers[:-1]) <= {None}
    assert answers[-1] == RefusedHead(TOO_MANY_BLANK_LINES)
    assert TOO_MANY_BLANK_LINES.status == 400


def test_megabytes_of_empty_lines_are_refused_at_once(parser: RequestParser[Head]) -> None:
    """Stripping them one by one copied all others each time: hours for these."""
    parser.receive(b"\r\n" * 4_000_000)
    assert parser.next_head() == RefusedHead(TOO_MANY_BLANK_LINES)


def test_a_discarded_body_is_skipped_and_not_kept(parser: RequestParser[Head]) -> None:
    tracemalloc.start()
    try:
        parser.discard_body(64 * 1024 * 100)
        for _ in range(100):
            assert parser.buffer == b""
            parser.receive(bytes(64 * 1024))
            body = parser.next_body()
        parser.receive(EMPTY)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert body == b""
    assert isinstance(parser.next_head(), ReadHead)
    assert kept < 64 * 1024
    assert peak < 5 * 64 * 1024


def test_what_cannot_become_a_head_is_refused_at_once(parser: RequestParser[Head]) -> None:
    parser.receive(b"\x16\x03\x01")
    assert parser.next_head() == RefusedHead(MALFORMED)


def test_a_head_that_is_not_admitted_comes_with_what_it_says(parser: RequestParser[Head]) -> None:
    parser.receive(b"GET /no HTTP/1.1\r\n\r\n")
    refused = parser.next_head()
    assert isinstance(refused, RefusedHead)
    assert refused.refusal is REFUSAL
    assert refused.parsed is not None
    assert refused.parsed.target == "/no"


@pytest.mark.parametrize(("chunks", "status"), [(b"zz\r\n", BROKEN.status), (b"fff\r\n", 413)])
def test_a_body_that_is_broken_or_too_large_is_refused(
    parser: RequestParser[Head], chunks: bytes, status: int
) -> None:
    parser.receive(b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert isinstance(parser.next_head(), ReadHead)
    assert parser.whole_body(None) is None
    parser.expect_body(None)
    refusal = parser.next_body()
    assert isinstance(refusal, AdmissionRefusal)
    assert refusal.status == status


def test_the_rest_of_the_bytes_can_be_taken_for_another_protocol(parser: RequestParser[Head]) -> None:
    parser.receive(FIRST + EMPTY)
    parser.next_head()
    assert parser.take_rest() == b"one" + EMPTY
    assert parser.buffer == b""


WHOLE = b'5;name="a b"\r\nabcde\r\nA\r\n0123456789\r\n000\r\nX-Trailer: 1\r\n\r\nGET'
BODY_READER_CAP = 100


@pytest.mark.parametrize("step", [*range(1, 20), len(WHOLE)])
def test_a_body_is_the_same_however_it_is_cut(step: int) -> None:
    body = ChunkedBody(BODY_READER_CAP)
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
    body = ChunkedBody(BODY_READER_CAP)
    assert body.feed(sent) is BROKEN or (body.feed(b"\r\n") is BROKEN)


def test_what_is_too_long_is_refused_at_its_announcement() -> None:
    body = ChunkedBody(BODY_READER_CAP)
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
