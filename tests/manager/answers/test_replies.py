"""Results and refusals in the format of the request's protocol revision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import ALWAYS_ERRORS, Reason, Refusal
from manager import __version__
from manager.answers import replies
from manager.answers.exchange import Exchange
from support.clients.exchanges import call, legacy, stateless

SERVER = {"name": "lm-tools-bridge-manager", "title": "LM Tools Bridge", "version": __version__}
REFUSALS = [Refusal(reason, "m") for reason in Reason]


def result(exchange: Exchange, value: dict[str, Any]) -> dict[str, Any]:
    message = json.loads(replies.result(exchange, value))
    assert set(message) == {"jsonrpc", "id", "result"}
    found: dict[str, Any] = message["result"]
    return found


def listing(method: str = "tools/list") -> Exchange:
    return legacy({"jsonrpc": "2.0", "id": 1, "method": method})


def test_a_session_result_is_the_value_alone() -> None:
    assert result(listing(), {"tools": []}) == {"tools": []}


@pytest.mark.parametrize("method", sorted(replies.CACHEABLE))
def test_a_stateless_list_has_its_type_and_cache_hints(method: str) -> None:
    params = {"uri": "x"} if method == names.RESOURCES_READ else {}
    assert result(stateless(method, params), {"x": []}) == {
        "resultType": "complete",
        "x": [],
        "_meta": {names.META_SERVER: SERVER},
        "ttlMs": 0,
        "cacheScope": "private",
    }


def test_a_stateless_call_result_has_no_cache_hints() -> None:
    found = result(stateless("tools/call", {"name": "x"}), {"content": []})
    assert set(found) == {"resultType", "content", "_meta"}
    validate_server_result("tools/call", "2026-07-28", found)


def test_the_meta_of_a_value_is_kept_in_both_formats() -> None:
    exchange = stateless("tools/list")
    for meta in ({"a/b": 1}, json.loads('{"a/b":1}')):
        assert result(exchange, {"tools": [], "_meta": meta})["_meta"] == {
            names.META_SERVER: SERVER,
            "a/b": 1,
        }


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda one: one.reason.word)
@pytest.mark.parametrize("modern", [False, True])
def test_a_refused_tool_call_is_a_tool_result(refused: Refusal, modern: bool) -> None:
    """With `ok: false` and the error in `structuredContent`."""
    exchange = stateless("tools/call", {"name": "x"}) if modern else legacy(call("x", {}))
    message = json.loads(replies.refusal(exchange, refused))
    assert message["id"] == 1
    if refused.reason in ALWAYS_ERRORS:
        assert message["error"]["code"] == refused.reason.code
        return
    assert message["result"]["isError"] is True
    assert message["result"]["structuredContent"]["error"]["reason"] == refused.reason.word
    validate_server_result("tools/call", "2026-07-28" if modern else "2025-11-25", message["result"])


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda one: one.reason.word)
def test_other_refused_methods_are_errors(refused: Refusal) -> None:
    message = json.loads(replies.refusal(listing(), refused))
    assert message["error"] == {"code": refused.reason.code, "message": refused.text, "data": refused.data()}


@pytest.mark.parametrize(
    "exchange", [legacy(call("x", {})), stateless("tools/list")], ids=["legacy", "modern"]
)
def test_refusals_have_http_status_200(exchange: Exchange) -> None:
    assert {replies.refuse(exchange, one).status for one in REFUSALS} == {200, 503}


@pytest.mark.parametrize(("wait_ms", "seconds"), [(60_000, "60"), (1, "1"), (None, None)])
def test_too_many_sessions_is_503_with_retry_after(wait_ms: int | None, seconds: str | None) -> None:
    exchange = legacy(call("x", {}))
    reply = replies.refuse(
        exchange, Refusal(Reason.TOO_MANY_SESSIONS, "too many sessions", retry_after_ms=wait_ms)
    )
    assert (reply.status, exchange.headers.get("Retry-After")) == (503, seconds)
    assert json.loads(reply.body)["error"]["code"] == 47111


def test_an_unknown_method_is_404_for_stateless_requests_only() -> None:
    for exchange, status in ((stateless("ping"), 404), (listing("no/such"), 200)):
        reply = replies.method_not_found(exchange)
        message = json.loads(reply.body)
        assert (reply.status, message["id"], message["error"]["code"]) == (status, 1, -32601)


def test_instructions_name_the_handshake() -> None:
    assert names.HANDSHAKE in replies.INSTRUCTIONS
    assert "cwd" in replies.INSTRUCTIONS
