"""Tests of the head pattern: a request matches only if reading its head gives the same result."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lm_tools_bridge.http_server.request_head import RefusedHead
from manager.route_cache.bound_route import HeadPattern
from manager.routing.admission import AdmissionRules, ClientHeadReader
from manager.routing.request_metadata import RequestMetadata

CAP = 4000
RULES = AdmissionRules.for_ports([4000], body_cap=CAP)
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}'
FIELDS = (
    b"Host: 127.0.0.1:4000\r\nContent-Type: application/json\r\nContent-Length: %b\r\n"
    b"Accept: application/json\r\nMcp-Session-Id: s-1\r\n"
)
ENDS = b"\r\n\r\n"


def head(length: bytes, fields: bytes = FIELDS, more: bytes = b"") -> bytes:
    return b"POST /mcp HTTP/1.1\r\n" + fields % length + more + b"\r\n"


def request(body: bytes = BODY, more: bytes = b"") -> bytes:
    return head(b"%d" % len(body), more=more) + body


class Reader:
    """A reader that parses every head, and the pattern of one head."""

    def __init__(self, fields: bytes = FIELDS) -> None:
        self.heads = ClientHeadReader(RULES)
        first = head(b"%d" % len(BODY), fields)
        self.metadata = (self.of(first) or (None, None, 0))[0]
        self.names_session = b"s-1" in fields
        self.pattern = HeadPattern(first, CAP)

    def of(self, raw: bytes) -> tuple[RequestMetadata | None, str | None, int | None] | None:
        """Metadata, session id and body length of a head; None if it is refused."""
        read = self.heads.read(raw)
        return None if isinstance(read, RefusedHead) else (read.head.metadata, read.session, read.length)

    def match(self, data: bytes) -> tuple[int, bytes] | None:
        """What `HeadPattern.match` may return at most."""
        end = data.find(ENDS) + len(ENDS)
        said = self.of(data[:end]) if end >= len(ENDS) else None
        if said is None or (said[0], said[2]) != (self.metadata, len(data) - end):
            return None
        if self.names_session and not said[1]:
            return None
        return end, (said[1] or "").encode()


FORMS = pytest.mark.parametrize(
    "fields",
    [
        FIELDS,
        FIELDS.replace(b"Content-Length", b"content-length").replace(b"Mcp-Session-Id", b"mcp-session-id"),
        b"Mcp-Session-Id: s-1\r\n" + FIELDS.replace(b"Mcp-Session-Id: s-1\r\n", b""),
        FIELDS.replace(b"Mcp-Session-Id: s-1\r\n", b""),
    ],
)


@FORMS
@pytest.mark.parametrize("size", [0, 1, 9, 10, 99, 100, 999, 1000, CAP])
def test_a_request_with_another_length_matches(fields: bytes, size: int) -> None:
    reader = Reader(fields)
    data = head(b"%d" % size, fields) + b"x" * size
    named = b"s-1" if b"s-1" in fields else b""
    assert reader.pattern.match(data) == (len(data) - size, named) == reader.match(data)


@FORMS
@pytest.mark.parametrize("session", [b"s", b"another-one", b"x" * 128, b"!~:,;"])
def test_a_request_of_another_session_matches_if_the_pattern_has_one(fields: bytes, session: bytes) -> None:
    reader = Reader(fields)
    data = head(b"88", fields.replace(b"s-1", session)) + BODY
    named = session if b"s-1" in fields else b""
    assert reader.pattern.match(data) == (len(data) - len(BODY), named) == reader.match(data)


LENGTHS = st.sampled_from(
    [b"0", b"87", b"88", b"89", b"087", b"00000087", b"+87", b"8 7", b" 87", b"87 ", b"", b"87, 87"]
)
SESSIONS = st.sampled_from(
    [b"s-1", b"s-1", b"s-2", b"", b" ", b"s 2", b"\xff", b"s-1, s-2", b"x" * 129, b"s\r\nHost: evil", b"\0"]
)
SMUGGLED = st.sampled_from(
    [
        b"",
        b"",
        b"Content-Length: 87\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Origin: http://evil.example\r\n",
        b"Mcp-Session-Id: s-2\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"X: y\n",
        b"\n",
    ]
)


@given(
    length=LENGTHS | st.integers(0, 5000).map(b"%d".__mod__),
    session=SESSIONS | st.binary(max_size=4),
    more=SMUGGLED,
    body=st.sampled_from(
        [BODY, BODY[:-1], BODY + b"\r\n", BODY * 2, BODY + request(), b"", b"x" * (CAP + 1)]
    ),
    cut=st.integers(-300, 400),
    inserted=st.sampled_from([b"", b"", b"", b"\r\n", b"\r", b"\n", b" ", b"0", b"7", b"\0", b": ", b"\xe9"]),
    dropped=st.integers(0, 2),
)
@example(b"88", b"", b"", BODY, 0, b"", 0)
@example(b"88", b"x" * 129, b"", BODY, 0, b"", 0)
@example(b"00000088", b"s-1", b"", BODY, 0, b"", 0)
@example(b"4001", b"s-1", b"", b"x" * 4001, 0, b"", 0)
@example(b"88", b"s-1", b"", BODY, 120, b"", 0)
@example(b"88", b"s\xe9", b"", BODY, 0, b"", 0)
def test_no_other_request_matches(
    length: bytes, session: bytes, more: bytes, body: bytes, cut: int, inserted: bytes, dropped: int
) -> None:
    """Wrong or repeated lengths, missing ids, other fields, and any inserted or removed byte."""
    reader = Reader()
    whole = head(length, more=more).replace(b"s-1", session) + body
    data = whole[:cut] + inserted + whole[cut + dropped :]
    assert reader.pattern.match(data) in (None, reader.match(data))


def test_an_incomplete_or_pipelined_request_does_not_match() -> None:
    pattern, data = Reader().pattern, request()
    assert [pattern.match(data[:size]) for size in range(len(data))] == [None] * len(data)
    assert [pattern.match(data[start:]) for start in range(1, len(data))] == [None] * (len(data) - 1)
    assert pattern.match(data) is not None
    for other in (data * 2, data[:-1], data + b"x", data[1:] + b"}", b"x" * len(data)):
        assert pattern.match(other) is None


@FORMS
def test_without_content_length_nothing_matches(fields: bytes) -> None:
    bare = head(b"1", fields.replace(b"Content-Length", b"X").replace(b"content-length", b"X"))
    pattern = HeadPattern(bare, CAP)
    assert [pattern.match(data) for data in (head(b"1", fields) + b"x", bare, bare + b"x", b"")] == [None] * 4
