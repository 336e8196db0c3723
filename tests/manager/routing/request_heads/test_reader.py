"""Tests of the head cache: heads that differ only in body length or session id share one entry."""

from __future__ import annotations

import pytest

from lm_tools_bridge.http_server import request_head
from lm_tools_bridge.http_server.request_head import ReadHead, RefusedHead
from lm_tools_bridge.protocol import trace_context
from manager.routing.request_heads.admission import TUNNEL_HOST, AdmissionRules
from manager.routing.request_heads.reader import ClientHead, ClientHeadReader

RULES = AdmissionRules.for_ports([4000], body_cap=5_000_000)


def head(*lines: str, length: str | None = "12", target: str = "/mcp", method: str = "POST") -> bytes:
    own = [] if length is None else [f"Content-Length: {length}"]
    fixed = ["Host: 127.0.0.1:4000", "Content-Type: application/json"]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *fixed, *own, *lines, "", ""]).encode()


def read(known: ClientHeadReader, raw: bytes) -> ReadHead[ClientHead]:
    found = known.read(raw)
    assert not isinstance(found, RefusedHead), found
    return found


def test_a_head_that_differs_in_its_length_is_a_cache_hit() -> None:
    known = ClientHeadReader(RULES)
    first, twelve, *_ = read(known, head())
    second, more, *_ = read(known, head(length="3456"))
    assert (twelve, more) == (12, 3456)
    assert second is first


@pytest.mark.parametrize(
    "raw",
    [
        head(length=""),
        head(length="-1"),
        head(length="+12"),
        head(length="12, 12"),
        head("Content-Length: 12"),
        head("content-length: 13"),
        head("Transfer-Encoding: chunked"),
        head("Host: 127.0.0.1:4000"),
        head("Mcp-Session-Id: a", "Mcp-Session-Id: b"),
        head("X: a\x00b"),
        head(" folded"),
        head(length="5000001"),
        head(length="99999999999"),
        head("X: " + "y" * 20_000),
    ],
    ids=range(14),
)
def test_a_cached_head_admits_no_other_head(raw: bytes) -> None:
    """A head that is refused alone is refused after any number of admitted ones."""
    known = ClientHeadReader(RULES)
    for _ in range(3):
        read(known, head())
        assert isinstance(known.read(raw), RefusedHead)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one"), ("one", "one")])
@pytest.mark.parametrize("name", ["Mcp-Session-Id", "mcp-session-id", "MCP-SESSION-ID"])
@pytest.mark.parametrize("is_behind", [True, False])
def test_a_head_that_differs_in_its_session_is_a_cache_hit(
    order: tuple[str, str], name: str, is_behind: bool
) -> None:
    """The length stands before or after the session id, with another number of digits."""
    known = ClientHeadReader(RULES)
    found = []
    for session, length in zip(order, ["7", "12345"], strict=True):
        lines = [f"{name}: {session}", f"Content-Length: {length}"]
        found.append(read(known, head(*lines if is_behind else lines[::-1], length=None)))
    assert [(one.session, one.length) for one in found] == [(order[0], 7), (order[1], 12345)]
    if name != "MCP-SESSION-ID":
        assert found[0].head is found[1].head
        assert known.session_of(found[0].head) == ""


@pytest.mark.parametrize("session", ["", " ", "a b", "\u00e9", "x" * 129, None])
def test_a_malformed_session_id_is_read_as_it_was_sent(session: str | None) -> None:
    """The head reader does not check the form of session ids, with or without a cache entry."""
    known = ClientHeadReader(RULES)
    line = [] if session is None else [f"Mcp-Session-Id: {session}"]
    for _ in range(2):
        read(known, head("Mcp-Session-Id: a"))
        assert read(known, head(*line)).session == (None if session is None else session.strip())


def test_a_cached_head_is_within_the_size_limit_with_its_length() -> None:
    """So the parts that the cache key leaves out cannot hide a head above the limit."""
    assert RULES.head_cap > request_head.MAX_CACHED_HEAD_BYTES


def test_a_head_without_content_length_is_not_cached() -> None:
    known = ClientHeadReader(RULES)
    first, nothing, *_ = read(known, head(length=None, method="GET"))
    second = read(known, head(length=None, method="GET")).head
    chunked, unknown, *_ = read(known, head("Transfer-Encoding: chunked", length=None))
    assert (nothing, unknown, chunked.framing.length) == (0, None, None)
    assert first is not second
    assert read(known, head("Mcp-Session-Id: a", length=None, method="GET")).session == "a"


def test_the_cache_is_bounded() -> None:
    known = ClientHeadReader(RULES)
    for number in range(request_head.MAX_CACHED_HEADS + 10):
        read(known, head(f"X: {number}"))
        read(known, head(f"X: {number}"))
    for cache in (known._by_key, known._by_bytes):
        assert len(cache) <= request_head.MAX_CACHED_HEADS
    read(known, head("X: " + "y" * request_head.MAX_CACHED_HEAD_BYTES))
    assert max(map(len, [*known._by_key, *known._by_bytes])) <= request_head.MAX_CACHED_HEAD_BYTES


@pytest.mark.parametrize(
    ("line", "is_last"),
    [("Connection: close", True), ("Connection: Keep-Alive, CLOSE", True), ("Connection: keep-alive", False)],
)
def test_the_head_says_whether_the_connection_closes(line: str, is_last: bool) -> None:
    assert read(ClientHeadReader(RULES), head(line))[0].framing.is_last is is_last


def test_an_http_1_0_client_gets_no_chunks_and_its_connection_closes() -> None:
    found = read(ClientHeadReader(RULES), head("Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"))[
        0
    ].framing
    assert (found.is_last, found.allows_chunked, found.expects_continue) == (True, False, False)


def from_manager(number: int | str, *lines: str) -> bytes:
    """The head of a call of a manager on another host, with a trace context that was made for it, or another one."""
    trace = number if isinstance(number, str) else trace_context.make_traceparent(number).decode()
    sent = head(*lines, f"traceparent: {trace}").decode()
    return sent.encode().replace(b"127.0.0.1:4000", TUNNEL_HOST)


def test_trace_contexts_that_another_manager_made_leave_heads_equal() -> None:
    known = ClientHeadReader(AdmissionRules.for_managers(body_cap=1000))
    first, second = read(known, from_manager(7)), read(known, from_manager(8))
    assert second.head is first.head
    assert [trace_context.number_of(one.trace) for one in (first, second)] == [7, 8]
    assert "traceparent" not in str(first.head.parsed.headers)


@pytest.mark.parametrize(
    "raw",
    [
        from_manager("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        from_manager(trace_context.make_traceparent(7).decode() + "\r\nX-Last: 1"),
    ],
    ids=["of a client", "not the last field"],
)
def test_other_trace_contexts_stay_in_the_head(raw: bytes) -> None:
    found = read(ClientHeadReader(AdmissionRules.for_managers(body_cap=1000)), raw)
    assert found.trace == ""
    assert "traceparent" in str(found.head.parsed.headers)


def test_clients_of_the_port_keep_their_trace_contexts() -> None:
    found = read(ClientHeadReader(RULES), head(f"traceparent: {trace_context.make_traceparent(7).decode()}"))
    assert found.trace == ""
    assert "traceparent" in str(found.head.parsed.headers)
