"""Turns the outcome of a tool into the answer for its caller.

A result that this server wrote must fit the tool's output schema. A result of another server is passed on
unchanged; a mismatch is only reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.inbound import MISSING_CAPABILITY, Rejection
from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.text import redaction
from workspace_server import log
from workspace_server.calls.call import Call
from workspace_server.calls.request import Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.results import encode_result, error_result, refusal_result
from workspace_server.tool import CallOutcome, RpcError, ToolError, ToolResult

ReportIssue = Callable[[Issue], None]


def answer(identity: bytes, offered: OfferedTool, outcome: CallOutcome, report: ReportIssue) -> Outcome:
    """The answer to a call.

    Args:
        identity: the call's id as JSON text.
        offered: the tool.
        outcome: the tool's outcome.
        report: takes an issue about another server's result that does not fit its schema.
    """
    match outcome:
        case ToolResult():
            if outcome.is_error or not _violates_schema(offered, outcome.structured, required=True):
                return encode_result(outcome)
            log.error("output_schema_mismatch", tool=offered.name, source=offered.source.id)
            failed = ToolError(f"the result of {offered.name} does not fit its output schema")
            return encode_result(error_result(offered.named_tool(), failed))
        case RpcError():
            return rejection(outcome, identity)
        case Refusal():
            return encode_result(refusal_result(offered.named_tool(), outcome))
        case _:
            _report_mismatch(offered, outcome, report)
            return outcome


def with_note(answer: Outcome, note: str) -> Outcome:
    """The answer with one more text for the model; what has no list of content stays as it is."""
    if not note or isinstance(answer, Rejection):
        return answer
    block = {"type": "text", "text": note}
    if not isinstance(
        answer, msgspec.Raw
    ):  # stays one: the members that every result of ours has are added later
        ours = answer.get("content")
        return {**answer, "content": [*ours, block]} if isinstance(ours, list) else answer
    members = jsonrpc.members_of(answer)
    content = members.get("content")
    if content is None or jsonrpc.bytes_of(content)[:1] != b"[":
        return answer
    blocks = msgspec.json.decode(content, type=list[msgspec.Raw])
    return jsonrpc.raw({**members, "content": [*blocks, block]})


def rejection(error: RpcError, identity: bytes) -> Rejection:
    """A source's error, unchanged. A missing capability is HTTP status 400 (MCP 2026-07-28)."""
    status = 400 if error.code == MISSING_CAPABILITY else 200
    return Rejection(status, error.code, error.message, identity, error.data)


def _report_mismatch(offered: OfferedTool, result: msgspec.Raw, report: ReportIssue) -> None:
    if "outputSchema" not in offered.definition:
        return
    members = jsonrpc.members_of(result)
    if jsonrpc.bytes_of(members.get("isError", msgspec.Raw(b"false"))) == b"true":
        return
    structured = members.get("structuredContent")
    value = None if structured is None else msgspec.json.decode(structured)
    if structured is not None and _violates_schema(offered, value, required=False):
        text = f"A result of {offered.name} did not fit its output schema"
        details = f"source {offered.source.id}"
        issue = Issue("warning", "schema", "OUTPUT_SCHEMA_MISMATCH", text, offered.name, details)
        report(issue)


def _violates_schema(offered: OfferedTool, structured: Any, *, required: bool) -> bool:
    """Whether structured content does not fit the tool's output schema.

    Args:
        required: the answer if there is no structured content, or the schema itself cannot be used.
    """
    try:
        schema = offered.results
    except ValueError:
        return required
    if schema is None:
        return False
    return required if structured is None else bool(schema.check(structured))


def trace(call: Call, offered: OfferedTool, outcome: CallOutcome, seconds: float) -> None:
    """Log a call if the `debug` setting is on; its level decides whether the output is logged too."""
    level = call.view.configuration.debug
    if level == "off":
        return
    fields: dict[str, Any] = {"tool": offered.name, "ms": round(seconds * 1000, 1)}
    fields["input"] = redaction.redacted(msgspec.json.decode(call.arguments))
    if level == "detail":
        fields["output"] = redaction.redacted(_shown(outcome))
    log.info("tool_call", **fields)


def _shown(outcome: CallOutcome) -> Any:
    match outcome:
        case msgspec.Raw():
            return msgspec.json.decode(outcome)
        case ToolResult():
            return encode_result(outcome)
        case RpcError():
            return {"code": outcome.code, "message": outcome.message}
        case _:
            return outcome.data()
