"""Catalogue of refusals: code, reason and next step of each, for the wire, status, doctor and docs.

A refusal is a value, not an exception. `jsonrpc.py` and `inbound.py` have the errors that JSON-RPC and MCP
define.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal

import msgspec

from lm_tools_bridge.protocol import jsonrpc

Delivered = Literal["no", "unknown"]
RETRY_STEP: Final = "wait as long as retryAfterMs says, then retry"
"""The next step of refusals with `retry_after_ms`; their text has the number of seconds instead."""


class Reason(Enum):
    """Reason of a refusal: its code, its word on the wire, and the default next step."""

    def __init__(self, code: int, word: str, next_step: str) -> None:
        self.code = code
        self.word = word
        self.next_step = next_step

    WORKSPACE_NOT_SET = (
        47100,
        "workspace_not_set",
        "call lmToolsBridge.requestWorkspaceMCPServer with cwd = the absolute path of your project"
        " (or lmToolsBridge.callTool with workspace or cwd), then retry",
    )
    WORKSPACE_NOT_MATCHED = (
        47101,
        "workspace_not_matched",
        "use a cwd inside the project folder; a folder is recognised by .git, .lm-tools-bridge, .vscode or a"
        " *.code-workspace file",
    )
    WORKSPACE_SERVER_OFFLINE = (
        47102,
        "workspace_server_offline",
        "wait, then repeat lmToolsBridge.requestWorkspaceMCPServer; if that fails again, run lmtb doctor",
    )
    WORKSPACE_SERVER_DIED = (
        47103,
        "workspace_server_died",
        "check whether the call took effect before you repeat it",
    )
    CALL_TIMED_OUT = (
        47104,
        "call_timed_out",
        "ask for less in one call, or raise call_timeout_s in the configuration",
    )
    OVERLOADED = (47105, "overloaded", RETRY_STEP)
    RESPONSE_TOO_LARGE = (
        47106,
        "response_too_large",
        "request less at once, for example a smaller range or fewer results",
    )
    WORKSPACE_GONE = (
        47107,
        "workspace_gone",
        "call lmToolsBridge.requestWorkspaceMCPServer with a cwd that exists",
    )
    WORKSPACE_PENDING_TRUST = (47108, "workspace_pending_trust", "ask the user to run lmtb trust")
    SOURCE_UNAVAILABLE = (
        47109,
        "source_unavailable",
        "run lmtb servers to see why the server of this tool is down, repair it, then retry",
    )
    CONFLICTING_WORKSPACE = (47110, "conflicting_workspace", "name only one workspace in the request")
    TOO_MANY_SESSIONS = (47111, "too_many_sessions", "close unused client sessions, then retry")
    ANSWER_LOST = (47112, "answer_lost", "check whether the request took effect before you repeat it")
    HOST_NOT_ADDED = (
        47113,
        "host_not_added",
        "ask the user whether to connect to that host; if so, the user runs lmtb remote add",
    )
    APPROVAL_REQUIRED = (47120, "approval_required", "ask the user to allow this call")
    APPROVAL_DENIED = (47121, "approval_denied", "ask the user what to do instead")
    QUESTION_UNANSWERED = (
        47122,
        "question_unanswered",
        "check whether the call took effect; repeat it when the user can answer its question",
    )
    CALL_STOPPED = (47123, "call_stopped", "ask the user what to do instead; the call may have taken effect")
    TOOL_NOT_FOUND = (
        jsonrpc.INVALID_PARAMS,
        "tool_not_found",
        "list the tools again and use a name from the list, or enable this tool",
    )
    INVALID_ARGUMENTS = (jsonrpc.INVALID_PARAMS, "invalid_arguments", "correct the arguments and call again")
    INVALID_CWD = (
        jsonrpc.INVALID_PARAMS,
        "invalid_cwd",
        "pass cwd as the absolute path of an existing folder inside your project",
    )
    INVALID_UPSTREAM_ANSWER = (
        jsonrpc.INTERNAL_ERROR,
        "invalid_upstream_answer",
        "check whether the call took effect; then look at the workspace server's log with lmtb doctor",
    )
    MISSING_SESSION = (
        jsonrpc.INVALID_REQUEST,
        "missing_session",
        "send initialize first and repeat its Mcp-Session-Id header on every request",
    )
    UNKNOWN_SESSION = (
        jsonrpc.INVALID_REQUEST,
        "unknown_session",
        "send initialize again to start a new session",
    )


ALWAYS_ERRORS: Final = frozenset(
    {Reason.TOOL_NOT_FOUND, Reason.INVALID_UPSTREAM_ANSWER, Reason.TOO_MANY_SESSIONS}
)
"""Reasons that are JSON-RPC errors even on `tools/call`: no tool ran that could have a result."""


class Refusal(msgspec.Struct, frozen=True):
    """One refusal.

    Attributes:
        message: what happened.
        next_step: what to do next, instead of the default of the reason.
        delivered: `no` if the call certainly did not run, `unknown` if it may have.
        retry_after_ms: time to wait before a retry, in milliseconds.
    """

    reason: Reason
    message: str
    next_step: str | None = None
    delivered: Delivered | None = None
    retry_after_ms: int | None = None
    details: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """The text for models: message and next step."""
        return f"{self.message}. Next step: {self._next()}."

    def _next(self) -> str:
        step = (self.next_step or self.reason.next_step).rstrip(".")
        if self.retry_after_ms is None:
            return step
        return step.replace(RETRY_STEP, f"wait {self.retry_after_ms / 1000:.3g} s, then retry")

    def data(self) -> dict[str, Any]:
        """The machine-readable part, without absent members."""
        members = {
            "reason": self.reason.word,
            "nextStep": self._next(),
            "delivered": self.delivered,
            "retryAfterMs": self.retry_after_ms,
            "details": self.details,
        }
        return {key: value for key, value in members.items() if value is not None}

    def as_error(self, identity: bytes | None) -> bytes:
        """The refusal as JSON-RPC error response."""
        return jsonrpc.error(identity, self.reason.code, self.text, self.data())

    def as_tool_result(self) -> dict[str, Any]:
        """The refusal as tool result, so that a model reads it."""
        content = {"code": self.reason.code, "message": self.message, **self.data()}
        return {
            "content": [{"type": "text", "text": self.text}],
            "structuredContent": {"ok": False, "error": content},
            "isError": True,
        }
