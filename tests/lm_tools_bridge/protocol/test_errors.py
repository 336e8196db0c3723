"""Tests of the catalogue of refusals, and of its two forms on the wire."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lm_tools_bridge.protocol.errors import ALWAYS_ERRORS, Reason, Refusal

CODES = {
    "workspace_not_set": 47100,
    "workspace_not_matched": 47101,
    "workspace_server_offline": 47102,
    "workspace_server_died": 47103,
    "call_timed_out": 47104,
    "overloaded": 47105,
    "response_too_large": 47106,
    "workspace_gone": 47107,
    "workspace_pending_trust": 47108,
    "source_unavailable": 47109,
    "conflicting_workspace": 47110,
    "too_many_sessions": 47111,
    "answer_lost": 47112,
    "host_not_added": 47113,
    "approval_required": 47120,
    "approval_denied": 47121,
    "question_unanswered": 47122,
    "call_stopped": 47123,
    "tool_not_found": -32602,
    "invalid_arguments": -32602,
    "invalid_cwd": -32602,
    "invalid_upstream_answer": -32603,
    "missing_session": -32600,
    "unknown_session": -32600,
}
"""The reasons and codes that clients rely on."""
SPECIFIED = {-32700, -32600, -32601, -32602, -32603}
every_reason = pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.word)


def test_reasons_and_codes_are_stable() -> None:
    assert {reason.word: reason.code for reason in Reason} == CODES


@every_reason
def test_own_codes_lie_outside_the_reserved_range(reason: Reason) -> None:
    assert reason.code in SPECIFIED or not -32768 <= reason.code <= -32000


def test_reasons_and_own_codes_are_unique() -> None:
    words = [reason.word for reason in Reason]
    own = [reason.code for reason in Reason if reason.code > 0]
    assert len(set(words)) == len(words)
    assert len(set(own)) == len(own)


@every_reason
def test_every_reason_is_lower_snake_case(reason: Reason) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+|overloaded", reason.word)


@every_reason
def test_the_text_is_the_message_and_the_next_step(reason: Reason) -> None:
    text = Refusal(reason, "that is wrong").text
    assert text == f"that is wrong. Next step: {reason.next_step}."
    assert ".." not in text
    assert text.isprintable()


def test_a_specific_next_step_replaces_the_default() -> None:
    assert Refusal(Reason.INVALID_CWD, "m", "do this.").text == "m. Next step: do this."


FULL = Refusal(
    Reason.WORKSPACE_SERVER_OFFLINE,
    "resolved MCP server is offline: starting",
    "wait",
    delivered="no",
    retry_after_ms=0,
    details={"cause": "starting"},
)
DATA = {
    "reason": "workspace_server_offline",
    "nextStep": "wait",
    "delivered": "no",
    "retryAfterMs": 0,
    "details": {"cause": "starting"},
}


def test_an_error_response_has_code_text_data_and_id() -> None:
    assert json.loads(FULL.as_error(b'"k"')) == {
        "jsonrpc": "2.0",
        "id": "k",
        "error": {
            "code": 47102,
            "message": "resolved MCP server is offline: starting. Next step: wait.",
            "data": DATA,
        },
    }
    assert json.loads(FULL.as_error(None))["id"] is None


def test_a_tool_result_has_text_for_models_and_data_for_programs() -> None:
    assert FULL.as_tool_result() == {
        "content": [{"type": "text", "text": FULL.text}],
        "structuredContent": {
            "ok": False,
            "error": {"code": 47102, "message": "resolved MCP server is offline: starting", **DATA},
        },
        "isError": True,
    }


@every_reason
def test_unset_members_are_omitted(reason: Reason) -> None:
    expected: dict[str, Any] = {"reason": reason.word, "nextStep": reason.next_step}
    assert Refusal(reason, "m").data() == expected


def test_only_three_reasons_are_always_json_rpc_errors() -> None:
    """Unknown tools, invalid answers and the session limit; all others are tool results that a model reads."""
    assert {reason.word for reason in ALWAYS_ERRORS} == {
        "tool_not_found",
        "invalid_upstream_answer",
        "too_many_sessions",
    }


def test_the_text_names_the_seconds_after_which_a_retry_makes_sense() -> None:
    refusal = Refusal(Reason.OVERLOADED, "too much", retry_after_ms=1500)
    assert refusal.text == "too much. Next step: wait 1.5 s, then retry."
    assert refusal.data()["retryAfterMs"] == 1500
