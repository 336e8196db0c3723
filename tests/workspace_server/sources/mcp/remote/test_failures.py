"""How HTTP statuses map to failures."""

from __future__ import annotations

import pytest

from workspace_server.sources.mcp.remote.failures import failure_of

ERROR = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error"}}'
NO_ID = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}'
UNKNOWN_METHOD = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}'


@pytest.mark.parametrize(
    ("status", "body", "had_session", "kind", "delivered"),
    [
        (401, b"", False, "unauthorized", "no"),
        (401, ERROR, True, "unauthorized", "no"),
        (429, ERROR, True, "throttled", "no"),
        (404, b"", True, "session_lost", "no"),
        (404, NO_ID, True, "session_lost", "no"),
        (400, NO_ID, True, "session_lost", "no"),
        (400, NO_ID, False, None, None),
        (404, b"<html>", False, "rejected", "no"),
        (404, UNKNOWN_METHOD, False, None, None),
        (400, ERROR, True, None, None),
        (403, b"", True, "rejected", "no"),
        (500, b"", False, "failing", "unknown"),
        (500, NO_ID, True, "failing", "unknown"),
        (500, ERROR, True, None, None),
        (503, b"{", False, "failing", "unknown"),
        (418, b"[" * 100_000, False, "rejected", "no"),
    ],
)
def test_a_status_says_whether_the_call_was_executed(
    status: int, body: bytes, had_session: bool, kind: str | None, delivered: str | None
) -> None:
    found = failure_of(status, body, request_id=b"7", had_session=had_session, retry_after_s=None)
    assert (found and found.kind) == kind
    assert (found and found.delivered) == delivered
    if found is not None:
        assert found.status == status
        assert str(status) in found.text


@pytest.mark.parametrize(
    ("status", "body", "is_lost"),
    [
        (400, NO_ID, True),
        (400, NO_ID.replace(b"No valid session ID provided", b"Unsupported protocol version"), True),
        (400, ERROR.replace(b"-32603", b"-32022"), True),
        (400, ERROR.replace(b"Internal error", b"no such browser session"), False),
        (404, UNKNOWN_METHOD, False),
        (200, NO_ID, False),
    ],
)
def test_a_stateless_request_that_was_refused_for_its_revision_was_not_executed(
    status: int, body: bytes, is_lost: bool
) -> None:
    """The server was replaced by an older one. Its tools' own errors name the request."""
    found = failure_of(
        status, body, request_id=b"7", had_session=False, retry_after_s=None, is_stateless=True
    )
    assert (found is not None and found.kind == "session_lost") is is_lost
