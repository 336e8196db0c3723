"""How HTTP statuses map to failures."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol import names
from workspace_server.sources.mcp.remote.failures import HttpFailure, SentRequest, failure_of

ERROR = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error"}}'
NO_ID = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}'
NOT_INITIALIZED = (
    b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}'
)
OTHER_ID = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request"}}'
UNKNOWN_METHOD = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}'
NAMED = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Unknown mcp-session-id"}}'


def failed(
    status: int, body: bytes, method: str = names.TOOLS_CALL, *, names_session: bool = True
) -> HttpFailure | None:
    return failure_of(status, body, SentRequest(b"7", method, names_session), None)


@pytest.mark.parametrize(
    ("status", "body", "method", "kind", "delivered"),
    [
        (401, b"", names.INITIALIZE, "unauthorized", "no"),
        (401, ERROR, names.TOOLS_CALL, "unauthorized", "no"),
        (429, ERROR, names.TOOLS_CALL, "throttled", "no"),
        (400, NO_ID, names.INITIALIZE, None, None),
        (404, b"<html>", names.INITIALIZE, "rejected", "no"),
        (404, UNKNOWN_METHOD, names.DISCOVER, None, None),
        (400, ERROR, names.TOOLS_CALL, None, None),
        (403, b"", names.TOOLS_CALL, "rejected", "no"),
        (413, b"", names.TOOLS_CALL, "rejected", "no"),
        (500, b"", names.INITIALIZE, "failing", "unknown"),
        (500, ERROR, names.TOOLS_CALL, None, None),
        (503, b"{", names.TOOLS_CALL, "failing", "unknown"),
        (418, b"[" * 100_000, names.INITIALIZE, "rejected", "no"),
    ],
)
def test_a_status_says_whether_the_call_was_executed(
    status: int, body: bytes, method: str, kind: str | None, delivered: str | None
) -> None:
    found = failed(status, body, method)
    assert (found and found.kind) == kind
    assert (found and found.delivered) == delivered
    if found is not None:
        assert found.status == status
        assert str(status) in found.text


@pytest.mark.parametrize("names_session", [True, False])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, NO_ID),
        (400, NOT_INITIALIZED),
        (400, OTHER_ID),
        (400, b"No active session"),
        (400, b""),
        (404, b""),
        (404, b"<html>" * 1_000),
        (405, b""),
        (409, b"conflict"),
        (410, b"gone"),
        (415, b""),
        (422, b'{"detail":[{"loc":["header","mcp-session-id"],"msg":"unknown"}]}'),
        (400, ERROR.replace(b"-32603", b"-32022")),
    ],
)
def test_a_request_that_is_refused_after_the_handshake_did_not_run(
    status: int, body: bytes, names_session: bool
) -> None:
    """Whatever the words: the server was restarted, or replaced by one of another revision."""
    found = failed(status, body, names_session=names_session)
    assert found is not None
    assert (found.kind, found.delivered, found.status) == ("session_lost", "no", status)


@pytest.mark.parametrize(
    ("status", "body", "is_lost"),
    [
        (404, NAMED, True),
        (400, NAMED, True),
        (500, NAMED, True),
        (500, NO_ID, True),
        (500, b"Error: session s1 was not found", True),
        (401, b"Unauthorized: Session not found", True),
        (404, UNKNOWN_METHOD, False),
        (400, ERROR, False),
        (500, ERROR.replace(b"Internal error", b"session not found"), False),
        (500, NO_ID.replace(b"No valid session ID provided", b"cannot read"), False),
        (500, b"<p>the session was not found</p>" + b" " * 1_000, False),
        (408, b"session not found", False),
        (403, b"session not found", False),
    ],
)
def test_a_status_that_may_come_from_a_tool_needs_words_about_the_session(
    status: int, body: bytes, is_lost: bool
) -> None:
    """A call that may have run is never sent again."""
    found = failed(status, body)
    assert (found is not None and found.kind == "session_lost") is is_lost
    without = failed(status, body, names_session=False)
    assert without is None or without.kind != "session_lost"


@pytest.mark.parametrize("method", [names.PROMPTS_LIST, names.TEMPLATES_LIST, names.PING, names.SUBSCRIBE])
def test_a_server_that_lacks_a_method_keeps_its_session(method: str) -> None:
    found = failed(405, b"Method Not Allowed", method)
    assert found is not None and found.kind == "rejected"
    lost = failed(400, b"invalid session", method)
    assert lost is not None and lost.kind == "session_lost"


def test_the_servers_words_are_kept_for_whoever_is_refused_again() -> None:
    unclear = failed(400, OTHER_ID)
    assert unclear is not None and unclear.answer is not None
    assert (unclear.answer.code, unclear.text) == (-32600, "answered HTTP 400 Bad Request: Bad Request")
    lost = failed(400, NO_ID)
    assert lost is not None and lost.answer is None
