"""When a remote server is connected to again, and which failed calls count."""

from __future__ import annotations

import pytest

from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.remote.retry_policy import ASK_AGAIN_S, RemoteRetryPolicy


def test_missing_credentials_wait_for_a_caller_and_some_seconds() -> None:
    policy = RemoteRetryPolicy()
    retry = policy.failed(HttpFailure("unauthorized", "no"), 0.0, 0.0, 0.5)
    assert (retry.state, retry.pause_s) == ("auth_required", None)
    assert not policy.may_open(ASK_AGAIN_S - 0.1)
    assert policy.may_open(ASK_AGAIN_S)


def test_a_final_failure_is_never_retried() -> None:
    policy = RemoteRetryPolicy()
    retry = policy.failed(SessionFailed("forbidden address", final=True), 0.0, 0.0, 0.5)
    assert (retry.state, retry.pause_s) == ("failed", None)
    assert not policy.may_open(1e9)


def test_retry_after_refuses_calls_over_an_open_session() -> None:
    policy = RemoteRetryPolicy()
    policy.opened()
    failure = HttpFailure("throttled", "busy", retry_after_ms=7_000)
    assert policy.call_failed(failure, 10.0, 0.5, is_current=True) == "keep"
    refused = policy.refusal(12.0)
    assert isinstance(refused, HttpFailure)
    assert (refused.kind, refused.retry_after_ms) == ("throttled", 5_000)
    assert policy.refusal(17.0) is None


@pytest.mark.parametrize(
    ("failure", "verdict"),
    [
        (HttpFailure("session_lost", "x"), "replace"),
        (HttpFailure("unauthorized", "x"), "down"),
        (HttpFailure("unreachable", "x"), "down"),
        (HttpFailure("failing", "x"), "keep"),
        (HttpFailure("rejected", "x"), "keep"),
        (Unavailable("x"), "keep"),
    ],
)
def test_a_failed_call_concerns_the_current_session_only(failure: Unavailable, verdict: str) -> None:
    assert RemoteRetryPolicy().call_failed(failure, 0.0, 0.5, is_current=True) == verdict
    assert RemoteRetryPolicy().call_failed(failure, 0.0, 0.5, is_current=False) == "keep"


def test_the_fifth_failing_call_in_a_row_takes_the_server_down() -> None:
    policy = RemoteRetryPolicy()
    verdicts = [policy.call_failed(HttpFailure("failing", "x"), 0.0, 0.5, is_current=True) for _ in range(5)]
    assert verdicts == ["keep"] * 4 + ["down"]
    policy.call_succeeded()
    assert policy.call_failed(HttpFailure("failing", "x"), 0.0, 0.5, is_current=True) == "keep"
