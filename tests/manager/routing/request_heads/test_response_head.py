"""Tests of the response to a refused request."""

from __future__ import annotations

from lm_tools_bridge.http_server.request_head import RequestHead
from manager.routing.request_heads.admission import AdmissionRefusal
from manager.routing.request_heads.response_head import render_refusal


def test_a_refusal_announces_that_the_connection_closes() -> None:
    refusal = AdmissionRefusal(503, "full", (("Retry-After", "1"),))
    head, _, body = render_refusal(refusal, None).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"Connection: close", b"Retry-After: 1", b"Content-Length: 17"} <= set(lines)
    assert body == b'{"error": "full"}'
    assert render_refusal(refusal, RequestHead("HEAD", "/", [])).endswith(b"\r\n\r\n")
