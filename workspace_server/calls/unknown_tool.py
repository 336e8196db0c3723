"""Answers calls of unknown names: the tool may wait for trust, its source may not have answered yet."""

from __future__ import annotations

from typing import Any, Final

from lm_tools_bridge.protocol.errors import RETRY_STEP, Reason, Refusal
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server.calls.call import Call
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import Kind, View
from workspace_server.results import clean_text, encode_result, refusal_result
from workspace_server.source import Source
from workspace_server.source_refusal import NOT_RUNNING, not_running
from workspace_server.tool import Tool
from workspace_server.trust.item import trust_command

RETRY_MS: Final = 1000


def answer(call: Call) -> Outcome:
    """The answer to a call of an unknown tool."""
    refusal = _not_available(call.view, call.name, "tools")
    if refusal is None:
        return unknown_tool(call.request, call.view, call.name)
    return encode_result(refusal_result(Tool(call.name, {"inputSchema": {}}), refusal))


def may_exist(view: View, name: str) -> bool:
    """Whether something suggests that a tool of this name exists, though it cannot be called now."""
    return _not_available(view, name, "tools") is not None


def unknown_prompt(request: McpRequest, view: View, name: str) -> Rejection:
    """The answer to `prompts/get` of an unknown prompt."""
    refusal = _not_available(view, name, "prompts")
    return request.invalid(f"Unknown prompt: {name}") if refusal is None else request.refuse(refusal)


def unknown_tool(request: McpRequest, view: View, name: str, uri: str | None = None) -> Rejection:
    """The error for a tool that does not exist for this client, with similar names.

    Args:
        uri: the URI that contained the name, if there was one.
    """
    nearest = view.nearest(name)
    if (client_names := view.names_for(request.name_rules)) is not None:
        nearest = [client_names.shown(near) for near in nearest]
    step = Reason.TOOL_NOT_FOUND.next_step
    if nearest:
        step = f"use {' or '.join(nearest)} if that was meant, or {step}"
    details: dict[str, Any] = {"nearest": nearest}
    extra = {}
    if uri is not None:
        details["uri"] = extra["uri"] = uri
    message = f"Tool not found or disabled: {name}"
    return request.refuse(Refusal(Reason.TOOL_NOT_FOUND, message, step, details=details), **extra)


def _not_available(view: View, name: str, kind: Kind) -> Refusal | None:
    """Why the name may exist later; None if nothing suggests that."""
    if (path := view.trust_path_for(name)) is not None:
        text = f"{name} comes from files of this workspace that the user has not trusted as they are now"
        step = f"ask the user to look at it and to run: {trust_command(path)}"
        if hint := view.trust_hint_for(name):
            text += f": {hint}"
        return Refusal(Reason.WORKSPACE_PENDING_TRUST, text, step, delivered="no")
    if (source := view.source_down(name)) is not None:
        return not_running(source.id, source.state, source.error, source.retry_after_ms)
    if (refusal := _withdrawn(view, name)) is not None:
        return refusal
    source = view.source_without_list(name, kind)
    return None if source is None else _not_listed(source, kind)


def _withdrawn(view: View, name: str) -> Refusal | None:
    """The refusal for a tool that its source offered until a moment ago."""
    for source in view.snapshot.sources:
        if (reason := source.withdrawn(name)) is not None:
            details = {"source": source.id, "state": source.state, "error": reason}
            text = f'{name} is not there now: {reason} (source "{source.id}")'
            step = f"ask the user to open it again, then {RETRY_STEP}"
            return Refusal(Reason.SOURCE_UNAVAILABLE, text, step, "no", RETRY_MS, details)
    return None


def _not_listed(source: Source, kind: Kind) -> Refusal:
    """The refusal for a name that may belong to a source which has not listed anything yet."""
    if source.state in NOT_RUNNING:
        return not_running(source.id, source.state, source.error, source.retry_after_ms)
    error = clean_text(source.error or f"it is {source.state}")
    text = f'Source "{source.id}" has not listed its {kind} yet: {error}'
    details = {"source": source.id, "state": source.state, "error": error}
    step = f"{RETRY_STEP}; lmtb servers shows the state of the source"
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, step, "no", RETRY_MS, details)
