"""The answer to a name that cannot be called: waiting for trust, or as good as not there."""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import Reason, Refusal
from protocol.inbound import Rejection
from workspace_server.calls.call import Call
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import Kind, View
from workspace_server.results import clean_text, encode_result, refusal_result
from workspace_server.source import Source
from workspace_server.tool import Tool
from workspace_server.trust.item import trust_command

RETRY_MS: Final = 1000


def answer(call: Call) -> Outcome:
    """The answer to a call of such a name."""
    refusal = _not_now(call.view, call.name, "tools")
    if refusal is None:
        return unknown_tool(call.asked, call.view, call.name)
    return encode_result(refusal_result(_nothing(call.name), refusal))


def unknown_prompt(asked: McpRequest, view: View, name: str) -> Rejection:
    """The answer to a name that no prompt has, or none yet."""
    refusal = _not_now(view, name, "prompts")
    return asked.invalid(f"Unknown prompt: {name}") if refusal is None else asked.refuse(refusal)


def _not_now(view: View, name: str, kind: Kind) -> Refusal | None:
    """Why there may be such a name another time; None where nothing says so."""
    if (path := view.waits_for(name)) is not None:
        text = f"{name} comes from files of this workspace that the user has not trusted as they are now"
        step = f"ask the user to look at it and to run: {trust_command(path)}"
        return Refusal(Reason.WORKSPACE_PENDING_TRUST, text, step, delivered="no")
    source = view.unlisted_source(name, kind)
    return None if source is None else _not_yet(source, kind)


def _nothing(name: str) -> Tool:
    """A tool of which nothing but the name is known."""
    return Tool(name, {"inputSchema": {}})


def _not_yet(source: Source, kind: Kind) -> Refusal:
    """A source that nobody has a list of yet may have what is asked for."""
    error = clean_text(source.error or f"it is {source.state}")
    text = f'Source "{source.id}" has not said yet which {kind} it has: {error}'
    details = {"source": source.id, "state": source.state, "error": error}
    step = "retry after the given time; lmtb servers says more"
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, step, "no", RETRY_MS, details)


def unknown_tool(asked: McpRequest, view: View, name: str, uri: str | None = None) -> Rejection:
    """The answer to a name that no callable tool has; `uri` where it was named in one."""
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
