"""The answer to a name that cannot be called: waiting for trust, or as good as not there (T-62, T-175)."""

from __future__ import annotations

from typing import Any

from protocol.errors import Reason, Refusal
from protocol.inbound import Rejection
from workspace_server.calls.asked import Asked, Outcome
from workspace_server.calls.call import Call
from workspace_server.catalog.view import View
from workspace_server.results import encode_result, refusal_result
from workspace_server.source import Tool


def answer(call: Call) -> Outcome:
    """The answer to a call of such a name."""
    path = call.view.waits_for(call.name)
    if path is None:
        return unknown_tool(call.asked, call.view, call.name)
    text = f"{call.name} comes from files of this workspace that the user has not trusted as they are now"
    step = f"ask the user to look at it and to run: lmtb trust {path}"
    refusal = Refusal(Reason.WORKSPACE_PENDING_TRUST, text, step, delivered="no")
    return encode_result(refusal_result(Tool(call.name, {"inputSchema": {}}), refusal))


def unknown_tool(asked: Asked, view: View, name: str, uri: str | None = None) -> Rejection:
    """The answer to a name that no callable tool has (T-175); `uri` where it was named in one (T-154)."""
    nearest = view.nearest(name)
    step = Reason.TOOL_NOT_FOUND.next_step
    if nearest:
        step = f"use {' or '.join(nearest)} if that was meant, or {step}"
    details: dict[str, Any] = {"nearest": nearest}
    extra = {}
    if uri is not None:
        details["uri"] = extra["uri"] = uri
    message = f"Tool not found or disabled: {name}"
    return asked.refuse(Refusal(Reason.TOOL_NOT_FOUND, message, step, details=details), **extra)
