"""The catalogue of refusals: a walk over all of it, and its two forms on the wire."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from protocol.errors import ALWAYS_ERRORS, Reason, Refusal

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
    "approval_required": 47120,
    "approval_denied": 47121,
    "question_unanswered": 47122,
    "tool_not_found": -32602,
    "invalid_arguments": -32602,
    "invalid_cwd": -32602,
    "invalid_upstream_answer": -32603,
    "missing_session": -32600,
    "unknown_session": -32600,
}
"""The words and codes that clients were promised (contract, table of refusals)."""
SPECIFIED = {-32700, -32600, -32601, -32602, -32603}
every_reason = pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.word)


def test_words_and_codes_are_those_of_the_contract() -> None:
    assert {reason.word: reason.code for reason in Reason} == CODES


@every_reason
def test_own_codes_lie_outside_the_reserved_range(reason: Reason) -> None:
    assert reason.code in SPECIFIED or not -32768 <= reason.code <= -32000


def test_words_and_own_codes_are_said_once() -> None:
    words = [reason.word for reason in Reason]
    own = [reason.code for reason in Reason if reason.code > 0]
    assert len(set(words)) == len(words)
    assert len(set(own)) == len(own)


@every_reason
def test_every_word_is_written_alike(reason: Reason) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+|overloaded", reason.word)


@every_reason
def test_the_text_is_the_message_and_the_next_step(reason: Reason) -> None:
    text = Refusal(reason, "that is wrong").text
    assert text == f"that is wrong. Next step: {reason.next_step}."
    assert ".." not in text
    assert text.isprintable()


def test_a_next_step_of_the_case_replaces_the_general_one() -> None:
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


def test_as_an_error_it_has_code_text_and_data_and_the_id() -> None:
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


def test_as_a_tool_result_it_can_be_read_by_a_model_and_a_program() -> None:
    assert FULL.as_tool_result() == {
        "content": [{"type": "text", "text": FULL.text}],
        "structuredContent": {
            "ok": False,
            "error": {"code": 47102, "message": "resolved MCP server is offline: starting", **DATA},
        },
        "isError": True,
    }


@every_reason
def test_absent_members_are_absent(reason: Reason) -> None:
    expected: dict[str, Any] = {"reason": reason.word, "nextStep": reason.next_step}
    assert Refusal(reason, "m").data() == expected


def test_only_what_could_be_no_result_is_always_an_error() -> None:
    """Unknown tools, unusable answers and the session limit; a model reads all the others."""
    assert {reason.word for reason in ALWAYS_ERRORS} == {
        "tool_not_found",
        "invalid_upstream_answer",
        "too_many_sessions",
    }
