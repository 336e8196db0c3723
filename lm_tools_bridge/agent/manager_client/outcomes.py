"""Converts responses, failures and progress of calls to what the agent shows, and lists to tools. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.manager_client.transport import AnswerLost, Refused, Undelivered
from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.tool_source import Outcome, text_outcome
from lm_tools_bridge.protocol.errors import Reason
from lm_tools_bridge.text.printable import printable

_LONGEST: Final = 200  # characters: progress is one or two lines of a terminal


def progress_text(params: bytes) -> str:
    """`message (3/10)` from the parameters of `notifications/progress`, as far as they are there."""
    try:
        members: Any = msgspec.json.decode(params or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    if not isinstance(members, dict):
        return ""
    progress, total = members.get("progress"), members.get("total")
    message = members.get("message")
    count = (
        ""
        if not _is_number(progress)
        else f"{progress:g}/{total:g}"
        if _is_number(total)
        else f"{progress:g}"
    )
    if not isinstance(message, str) or not message:
        return count
    text = printable(message, width=_LONGEST)
    return f"{text} ({count})" if count else text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def decoded(response: bytes) -> Mapping[str, Any]:
    """A response as a JSON object; an error object if it is none."""
    try:
        value = msgspec.json.decode(response)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        value = None
    return value if isinstance(value, dict) else {"error": {"message": "the response is not valid JSON"}}


def outcome_of(response: Mapping[str, Any]) -> Outcome:
    """The outcome that the response to `tools/call` is."""
    result = response.get("result")
    if not isinstance(result, Mapping):
        return error_outcome(response.get("error"))
    structured = result.get("structuredContent")
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if not blocks and structured is not None:
        blocks = [{"type": "text", "text": msgspec.json.encode(structured).decode()}]
    is_error = result.get("isError") is True
    error = structured.get("error") if is_error and isinstance(structured, Mapping) else None
    refusal = error if isinstance(error, Mapping) else {}
    code = refusal.get("code")
    return Outcome(
        blocks,
        is_error,
        code if isinstance(code, int) else None,
        structured,
        delivered=refusal.get("delivered") != "no",
    )


def error_outcome(error: Any) -> Outcome:
    """The outcome that a JSON-RPC error is: its message, and its next step where it names one."""
    members = error if isinstance(error, Mapping) else {}
    data = members.get("data")
    details = data if isinstance(data, Mapping) else {}
    text = str(members.get("message") or "the call failed")
    if isinstance(details.get("nextStep"), str):
        text = f"{text}. Next step: {details['nextStep']}"
    code = members.get("code")
    return text_outcome(
        text,
        is_error=True,
        code=code if isinstance(code, int) else None,
        delivered=details.get("delivered") != "no",
    )


def failed_outcome(failure: Undelivered | Refused | AnswerLost) -> Outcome:
    """The outcome of a call without a response."""
    if isinstance(failure, AnswerLost):
        step = Reason.ANSWER_LOST.next_step
        return _failed_outcome(str(failure), step, Reason.ANSWER_LOST.code)
    step = "run lmtb up, then call again" if isinstance(failure, Undelivered) else "run lmtb doctor"
    return _failed_outcome(str(failure), step, None, delivered=False)


def late_outcome(seconds: float) -> Outcome:
    """The outcome of a call that took too long and was cancelled."""
    step = "check whether the call took effect; ask for less in one call, or raise tool_s in [agent]"
    return _failed_outcome(f"no result within {seconds:g} s", step, Reason.CALL_TIMED_OUT.code)


def tools_of(result: Mapping[str, Any]) -> Iterator[Tool]:
    """The tools of one page; entries that are no tools are left out."""
    entries = result.get("tools")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            continue
        schema, annotations = entry.get("inputSchema"), entry.get("annotations")
        yield Tool(
            entry["name"],
            str(entry.get("description") or ""),
            schema if isinstance(schema, Mapping) else {"type": "object"},
            annotations if isinstance(annotations, Mapping) else {},
        )


def _failed_outcome(cause: str, step: str, code: int | None, *, delivered: bool = True) -> Outcome:
    text = f"Error: Tool call failed: {cause}. Next step: {step}"
    return text_outcome(text, is_error=True, code=code, delivered=delivered)
