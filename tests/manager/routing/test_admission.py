"""Tests of the admission rules for request heads, as tables and without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.http_server import request_head
from lm_tools_bridge.http_server.request_head import ReadHead, RefusedHead
from lm_tools_bridge.protocol import trace_context
from manager.routing.admission import (
    HEADER_MISMATCH,
    MAX_DEPTH,
    MAX_NODES,
    TUNNEL_HOST,
    AdmissionRefusal,
    AdmissionRules,
    ClientHead,
    ClientHeadReader,
    RequestHead,
    check_json,
    is_mcp_target,
    refusal_body,
    refuse_request,
    render_refusal,
)

RULES = AdmissionRules.for_ports([47200, 47201], body_cap=1000)
HOST = ("Host", "127.0.0.1:47200")
JSON = ("Content-Type", "application/json")


def status(method: str, target: str, *headers: tuple[str, str], rules: AdmissionRules = RULES) -> int:
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    refusal = refuse_request(RequestHead(method, target, pairs), rules)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:47200", 200),
        ("127.0.0.1:47201", 200),
        ("localhost:47200", 200),
        ("LOCALHOST:47200", 200),
        ("[::1]:47200", 200),
        ("127.0.0.1", 421),
        ("127.0.0.1:", 421),
        ("127.0.0.1:47202", 421),
        ("127.0.0.1:047200", 421),
        ("127.1:47200", 421),
        ("2130706433:47200", 421),
        ("localhost.:47200", 421),
        ("localhost:47200.evil.example", 421),
        ("localhost:x@evil", 421),
        ("user@localhost:47200", 421),
        ("::1:47200", 421),
        ("[::ffff:127.0.0.1]:47200", 421),
        ("evil.example:47200", 421),
        ("", 421),
    ],
)
def test_only_our_own_addresses_are_answered(host: str, expected: int) -> None:
    assert status("GET", "/", ("Host", host)) == expected


def test_host_without_port_means_port_80() -> None:
    rules = AdmissionRules.for_ports([80])
    assert status("GET", "/", ("Host", "localhost"), rules=rules) == 200
    assert status("GET", "/", ("Host", "localhost:80"), rules=rules) == 200
    assert status("GET", "/", ("Host", "localhost:47200"), rules=rules) == 421


@pytest.mark.parametrize("headers", [(), (HOST, HOST), (HOST, ("host", "evil.example"))])
def test_host_is_sent_exactly_once(headers: tuple[tuple[str, str], ...]) -> None:
    assert status("GET", "/", *headers) == 400


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "http://127.0.0.1:47200/mcp"),
        ("GET", "http://evil.example/mcp"),
        ("GET", "mcp"),
        ("OPTIONS", "*"),
        ("CONNECT", "127.0.0.1:47200"),
        ("CONNECT", "/mcp"),
    ],
)
def test_only_an_origin_form_target_is_admitted(method: str, target: str) -> None:
    assert status(method, target, HOST) == 400


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:47200", 200),
        ("http://localhost:47200", 200),
        ("http://[::1]:47201", 200),
        ("https://localhost:47200", 403),
        ("http://localhost:9999", 403),
        ("http://localhost", 403),
        ("http://localhost:47200/", 403),
        ("http://localhost:47200 http://evil.example", 403),
        ("null", 403),
        ("file://", 403),
        ("", 403),
    ],
)
def test_only_our_own_pages_may_send_an_origin(method: str, origin: str, expected: int) -> None:
    assert status(method, "/mcp", HOST, JSON, ("Origin", origin)) == expected


def test_a_second_origin_is_refused_in_either_order() -> None:
    own, other_site = ("Origin", "http://localhost:47200"), ("Origin", "http://evil.example")
    assert status("GET", "/", HOST, own, other_site) == 403
    assert status("GET", "/", HOST, other_site, own) == 403


@pytest.mark.parametrize(
    ("referer", "expected"),
    [
        ("http://localhost:47200", 200),
        ("http://localhost:47200/", 200),
        ("http://localhost:47200/mcp/status?format=html", 200),
        ("http://localhost:47200?x", 200),
        ("http://localhost:47200.evil.example/", 403),
        ("http://localhost:47200@evil.example/", 403),
        ("https://localhost:47200/", 403),
        ("https://evil.example/http://localhost:47200/", 403),
        ("about:blank", 403),
        ("", 403),
    ],
)
def test_only_our_own_pages_are_accepted_as_referer(referer: str, expected: int) -> None:
    assert status("GET", "/", HOST, ("Referer", referer)) == expected


@pytest.mark.parametrize(
    ("site", "expected"),
    [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403), ("new-word", 403)],
)
def test_fetch_of_another_site_is_refused(site: str, expected: int) -> None:
    assert status("GET", "/", HOST, ("Sec-Fetch-Site", site)) == expected


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Mcp-Session-Id", -32600),
        ("MCP-Protocol-Version", HEADER_MISMATCH),
        ("Mcp-Method", HEADER_MISMATCH),
        ("Mcp-Name", HEADER_MISMATCH),
        ("Content-Type", -32600),
        ("Content-Length", -32600),
        ("X-Workspace-Cwd", -32600),
        ("Authorization", -32600),
    ],
)
def test_security_relevant_header_is_sent_once(name: str, code: int) -> None:
    pairs = [(b"Host", b"localhost:47200"), (name.encode(), b"1"), (name.lower().encode(), b"1")]
    refusal = refuse_request(RequestHead("GET", "/mcp", pairs), RULES)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (400, code)


def test_list_header_may_be_repeated() -> None:
    assert status("GET", "/", HOST, ("Accept", "a/b"), ("Accept", "c/d")) == 200


def test_head_is_bounded_in_bytes_and_fields() -> None:
    filling = [(f"X-{number}", "y") for number in range(99)]
    assert status("GET", "/", HOST, *filling) == 200
    assert status("GET", "/", HOST, *filling, ("X-Last", "y")) == 431
    assert status("GET", "/", HOST, ("X", "y" * 16_000)) == 200
    assert status("GET", "/", HOST, ("X", "y" * 16_384)) == 431
    assert status("GET", "/" + "y" * 16_384, HOST) == 431


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json", 200),
        ("Application/JSON", 200),
        ("application/json; charset=utf-8", 200),
        ('application/json;charset="UTF-8"', 200),
        ("application/json; charset=latin-1", 415),
        ("application/json; boundary=x", 415),
        ("application/jsonp", 415),
        ("application/json, text/plain", 415),
        ("text/plain", 415),
        ("", 415),
    ],
)
def test_post_carries_json(value: str, expected: int) -> None:
    assert status("POST", "/mcp", HOST, ("Content-Type", value)) == expected


def test_content_type_is_checked_on_post_only() -> None:
    assert status("POST", "/mcp", HOST) == 415
    assert status("DELETE", "/mcp", HOST) == 200


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Content-Encoding", "identity", 200),
        ("Content-Encoding", "gzip", 415),
        ("Content-Encoding", "identity, gzip", 415),
        ("Content-Length", "1000", 200),
        ("Content-Length", "0001000", 200),
        ("Content-Length", "1001", 413),
        ("Content-Length", "9" * 5_000, 413),
        ("Content-Length", "+1", 400),
        ("Content-Length", "-1", 400),
        ("Content-Length", "1_0", 400),
        ("Content-Length", "0x1", 400),
        ("Content-Length", "", 400),
        ("Transfer-Encoding", "chunked", 200),
        ("Transfer-Encoding", "Chunked", 200),
        ("Transfer-Encoding", "gzip, chunked", 400),
        ("Transfer-Encoding", "identity", 400),
        ("Expect", "100-continue", 200),
        ("Expect", "200-ok", 417),
    ],
)
def test_encoded_or_too_large_body_is_refused(name: str, value: str, expected: int) -> None:
    assert status("POST", "/mcp", HOST, JSON, (name, value)) == expected


def test_length_and_chunks_together_are_refused() -> None:
    both = (("Content-Length", "1"), ("Transfer-Encoding", "chunked"))
    assert status("POST", "/mcp", HOST, JSON, *both) == 400


def test_the_origin_of_a_request_is_checked_before_its_body_headers() -> None:
    evil = (("Host", "evil.example"), ("Origin", "null"), ("Content-Type", "text/plain"))
    assert status("POST", "/mcp", *evil) == 421
    assert status("POST", "/mcp", HOST, *evil[1:]) == 403


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/mcp", True),
        ("/mcp/", True),
        ("/mcp?cwd=/a", True),
        ("/w/x-1/mcp", True),
        ("/w/x-1/mcp/?q", True),
        ("/mcp/status", False),
        ("/allocate", False),
        ("/x?/mcp", False),
    ],
)
def test_mcp_routes_get_json_rpc_errors_and_others_plain_ones(target: str, expected: bool) -> None:
    assert is_mcp_target(target) is expected
    refusal = refuse_request(RequestHead("POST", target, []), RULES)
    assert refusal is not None
    error = json.loads(refusal_body(refusal, "POST", target))
    if expected:
        assert error == {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": refusal.reason}}
    else:
        assert error == {"error": refusal.reason}
    assert json.loads(refusal_body(refusal, "GET", target)) == {"error": refusal.reason}


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ("{}".encode("utf-16"), "byte order mark"),
        (b'"\xff"', "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (b'"\xc0\x80"', "UTF-8"),
        (b'"\\ud800"', "surrogate"),
        (b'"\\uDC00\\uD800"', "surrogate"),
        (b'"\\ud800\\ud800\\udc00"', "surrogate"),
        (b'"\\\\\\ud800"', "surrogate"),
        (nested(MAX_DEPTH + 1), "levels"),
        (b"[" * 1_000_000, "values"),
        (b'{"a":' * 100_000, "levels"),
        (b"[" + b"1," * MAX_NODES + b"1]", "values"),
        (b"[" + b'"",' * MAX_NODES + b'""]', "values"),
        (b"[" + b'"' * 5_000_000 + b"," * MAX_NODES, "values"),
    ],
)
def test_harmful_text_is_refused(body: bytes, word: str) -> None:
    problem = check_json(body)
    assert problem is not None
    assert word in problem
    assert "; send " in problem, "says what to do next"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        '"jörg \U0001f600"'.encode(),
        b'"\\ud83d\\ude00"',
        b'"\\\\ud800"',
        nested(MAX_DEPTH),
        json.dumps("[{" * 1_000).encode(),
        json.dumps('"[{\\' * 1_000).encode(),
        json.dumps({"code": ",[{}]" * 100_000}).encode(),
        b"[" + b"1," * (MAX_NODES - 10) + b"1]",
        b"9" * 5_000,
    ],
)
def test_harmless_text_passes(body: bytes) -> None:
    assert check_json(body) is None


def depth_of(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(depth_of, children), default=0)


@given(
    st.text(alphabet='"\\[]{},é', max_size=200),
    st.lists(st.sampled_from("[{"), min_size=MAX_DEPTH - 3, max_size=MAX_DEPTH + 3),
)
def test_depth_is_exact_with_any_content_of_strings(leaf: str, wrapping: list[str]) -> None:
    value: Any = leaf
    for kind in wrapping:
        value = [leaf, value] if kind == "[" else {leaf: value}
    refused = check_json(json.dumps(value, ensure_ascii=False).encode()) is not None
    assert refused == (depth_of(value) > MAX_DEPTH)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=20))
def test_lone_surrogates_are_found_exactly(text: str) -> None:
    escaped = json.dumps(text)
    is_whole = all(not 0xD800 <= ord(character) <= 0xDFFF for character in json.loads(escaped))
    assert (check_json(escaped.encode()) is None) == is_whole


READER_RULES = AdmissionRules.for_ports([4000], body_cap=5_000_000)


def head(*lines: str, length: str | None = "12", target: str = "/mcp", method: str = "POST") -> bytes:
    own = [] if length is None else [f"Content-Length: {length}"]
    fixed = ["Host: 127.0.0.1:4000", "Content-Type: application/json"]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *fixed, *own, *lines, "", ""]).encode()


def read(known: ClientHeadReader, raw: bytes) -> ReadHead[ClientHead]:
    found = known.read(raw)
    assert not isinstance(found, RefusedHead), found
    return found


def test_a_head_that_differs_in_its_length_is_a_cache_hit() -> None:
    known = ClientHeadReader(READER_RULES)
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
    known = ClientHeadReader(READER_RULES)
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
    known = ClientHeadReader(READER_RULES)
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
    known = ClientHeadReader(READER_RULES)
    line = [] if session is None else [f"Mcp-Session-Id: {session}"]
    for _ in range(2):
        read(known, head("Mcp-Session-Id: a"))
        assert read(known, head(*line)).session == (None if session is None else session.strip())


def test_a_cached_head_is_within_the_size_limit_with_its_length() -> None:
    """So the parts that the cache key leaves out cannot hide a head above the limit."""
    assert READER_RULES.head_cap > request_head.MAX_CACHED_HEAD_BYTES


def test_a_head_without_content_length_is_not_cached() -> None:
    known = ClientHeadReader(READER_RULES)
    first, nothing, *_ = read(known, head(length=None, method="GET"))
    second = read(known, head(length=None, method="GET")).head
    chunked, unknown, *_ = read(known, head("Transfer-Encoding: chunked", length=None))
    assert (nothing, unknown, chunked.framing.length) == (0, None, None)
    assert first is not second
    assert read(known, head("Mcp-Session-Id: a", length=None, method="GET")).session == "a"


def test_the_cache_is_bounded() -> None:
    known = ClientHeadReader(READER_RULES)
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
    assert read(ClientHeadReader(READER_RULES), head(line))[0].framing.is_last is is_last


def test_an_http_1_0_client_gets_no_chunks_and_its_connection_closes() -> None:
    found = read(
        ClientHeadReader(READER_RULES), head("Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
    )[0].framing
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
    found = read(
        ClientHeadReader(READER_RULES), head(f"traceparent: {trace_context.make_traceparent(7).decode()}")
    )
    assert found.trace == ""
    assert "traceparent" in str(found.head.parsed.headers)


def test_a_refusal_announces_that_the_connection_closes() -> None:
    refusal = AdmissionRefusal(503, "full", (("Retry-After", "1"),))
    head, _, body = render_refusal(refusal, None).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"Connection: close", b"Retry-After: 1", b"Content-Length: 17"} <= set(lines)
    assert body == b'{"error": "full"}'
    assert render_refusal(refusal, RequestHead("HEAD", "/", [])).endswith(b"\r\n\r\n")
