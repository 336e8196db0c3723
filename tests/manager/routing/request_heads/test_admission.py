"""Tests of the admission rules for request heads, as tables and without a socket."""

from __future__ import annotations

import json

import pytest

from manager.routing.request_heads.admission import (
    HEADER_MISMATCH,
    AdmissionRules,
    RequestHead,
    is_mcp_target,
    refusal_body,
    refuse,
)

RULES = AdmissionRules.for_ports([47200, 47201], body_cap=1000)
HOST = ("Host", "127.0.0.1:47200")
JSON = ("Content-Type", "application/json")


def status(method: str, target: str, *headers: tuple[str, str], rules: AdmissionRules = RULES) -> int:
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    refusal = refuse(RequestHead(method, target, pairs), rules)
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
    refusal = refuse(RequestHead("GET", "/mcp", pairs), RULES)
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
    refusal = refuse(RequestHead("POST", target, []), RULES)
    assert refusal is not None
    error = json.loads(refusal_body(refusal, "POST", target))
    if expected:
        assert error == {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": refusal.reason}}
    else:
        assert error == {"error": refusal.reason}
    assert json.loads(refusal_body(refusal, "GET", target)) == {"error": refusal.reason}
