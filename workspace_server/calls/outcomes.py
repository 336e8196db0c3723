"""From what a tool gave to what its caller gets.

Results of our own are held to their output schema; a third party's are passed on whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from host import redaction
from protocol import jsonrpc
from protocol.errors import Refusal
from protocol.inbound import MISSING_CAPABILITY, Rejection
from protocol.issues import Issue
from workspace_server import log
from workspace_server.calls.call import Call
from workspace_server.calls.request import Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.results import encode_result, error_result, refusal_result
from workspace_server.tool import CallOutcome, RpcError, ToolError, ToolResult

Note = Callable[[Issue], None]


def answer(identity: bytes, offered: OfferedTool, outcome: CallOutcome, note: Note) -> Outcome:
    """What the caller gets.

    Args:
        identity: the id of its call as JSON text.
        offered: the tool.
        outcome: what it gave.
        note: hears of a third party that broke its promise.
    """
    match outcome:
        case ToolResult():
            if outcome.is_error or not _broken_promise(offered, outcome.structured, required=True):
                return encode_result(outcome)
            log.error("output_schema_mismatch", tool=offered.name, source=offered.source.id)
            failed = ToolError(f"the result of {offered.name} does not fit its output schema")
            return encode_result(error_result(offered.named_tool(), failed))
        case RpcError():
            return rejection(outcome, identity)
        case Refusal():
            return encode_result(refusal_result(offered.named_tool(), outcome))
        case _:
            _look_over(offered, outcome, note)
            return outcome


def rejection(error: RpcError, identity: bytes) -> Rejection:
    """A source's error, which its caller gets as it is; where a capability is missing, HTTP says so."""
    status = 400 if error.code == MISSING_CAPABILITY else 200
    return Rejection(status, error.code, error.message, identity, error.data)


def _look_over(offered: OfferedTool, result: msgspec.Raw, note: Note) -> None:
    """A third party's result that breaks its promise is passed on, and reported."""
    if "outputSchema" not in offered.definition:
        return
    members = jsonrpc.members_of(result)
    if jsonrpc.bytes_of(members.get("isError", msgspec.Raw(b"false"))) == b"true":
        return
    structured = members.get("structuredContent")
    value = None if structured is None else msgspec.json.decode(structured)
    if structured is not None and _broken_promise(offered, value, required=False):
        text = f"A result of {offered.name} did not fit its output schema"
        details = f"source {offered.source.id}"
        issue = Issue("warning", "schema", "OUTPUT_SCHEMA_MISMATCH", text, offered.name, details)
        note(issue)


def _broken_promise(offered: OfferedTool, structured: Any, *, required: bool) -> bool:
    """Whether structured content does not fit the output schema of its tool, where there is one."""
    try:
        promised = offered.results
    except ValueError:
        return required
    if promised is None:
        return False
    return required if structured is None else bool(promised.check(structured))


def trace(call: Call, offered: OfferedTool, outcome: CallOutcome, seconds: float) -> None:
    """One line per call where the user asked for it; arguments and output as far as they asked."""
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
