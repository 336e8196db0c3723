"""The grammar of a request's head."""

from __future__ import annotations

import pytest

from lm_tools_bridge.http_server.request_head import (
    MALFORMED,
    RequestHead,
    body_length,
    may_become_head,
    parse_head,
)

HEAD = b"POST /mcp?cwd=%2Fa HTTP/1.1\r\nHost: h:1\r\nX-Empty:\r\nx-two:  a b \t\r\nx-two: \xc3\xb6\r\n\r\n"


def test_head_is_read_in_order_with_duplicates() -> None:
    facts = parse_head(HEAD)
    assert isinstance(facts, RequestHead)
    assert (facts.method, facts.target) == ("POST", "/mcp?cwd=%2Fa")
    assert list(facts.headers) == [
        (b"Host", b"h:1"),
        (b"X-Empty", b""),
        (b"x-two", b"a b"),
        (b"x-two", b"\xc3\xb6"),
    ]


@pytest.mark.parametrize("length", range(len(HEAD)))
def test_every_beginning_of_a_head_may_become_one(length: int) -> None:
    assert length == 0 or may_become_head(HEAD[:length])


@pytest.mark.parametrize(
    "begin",
    [
        b"\x16\x03\x01",
        b'{"jsonrpc"',
        b"get / HTTP/1.1",
        b"PRI * HTTP/2",
        b"GET  /",
        b"GET /\r\n",
        b"GET / HTTP/1.1\n",
        b"GET / HTTP/1.1\r\nHost: h\nX",
        b"GET /\x00",
        b"G" * 40,
        b"SSH-2.0-OpenSSH",
    ],
)
def test_other_protocols_are_seen_at_once(begin: bytes) -> None:
    assert not may_become_head(begin)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"HTTP/1.1", b"HTTP/2.0"),
        (b"HTTP/1.1", b"HTTP/1.2"),
        (b"POST", b"post"),
        (b"/mcp", b"/m\xc3\xb6p"),
        (b"/mcp", b"/mcp#part"),
        (b"Host: ", b"Host : "),
        (b"Host: ", b" Host: "),
        (b"Host: ", b": "),
        (b"Host: h:1", b"Host"),
        (b"a b", b"a\r\n b"),
        (b"a b", b"a\nb"),
        (b"a b", b"a\rb"),
        (b"a b", b"a\x00b"),
        (b"a b", b"a\x7fb"),
    ],
)
def test_head_that_is_not_strictly_well_formed_is_refused(old: bytes, new: bytes) -> None:
    assert parse_head(HEAD.replace(old, new, 1)) == MALFORMED


def test_long_line_of_blanks_is_read_in_linear_time() -> None:
    assert parse_head(b"GET / HTTP/1.1\r\nX:" + b" \t" * 8_000 + b"\x00\r\n\r\n") == MALFORMED


@pytest.mark.parametrize(
    ("headers", "expected"),
    [([], 0), ([(b"content-Length", b"12")], 12), ([(b"Transfer-Encoding", b"chunked")], None)],
)
def test_body_length(headers: list[tuple[bytes, bytes]], expected: int | None) -> None:
    assert body_length(RequestHead("POST", "/", headers)) == expected
