"""Converts what a script left behind (exit code, result file, output) to the result of its call. Pure."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from protocol.errors import Reason, Refusal
from workspace_server.results import error_result
from workspace_server.tool import CallOutcome, Tool, ToolError, ToolResult

META_EXIT_CODE: Final = "lm-tools-bridge/exitCode"
META_TRUNCATED: Final = "lm-tools-bridge/truncated"
MAX_STDOUT: Final = 1024 * 1024
MAX_RESULT: Final = 32 * 1024 * 1024
_MAX_COMPLAINT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Ended:
    """A script that has ended.

    Attributes:
        code: its exit code, negative for a signal.
        stdout: what is kept of its output. dropped: how many bytes are not.
        stderr: its last lines, cleaned.
        result: content of its result file, at most one byte more than `MAX_RESULT`; None where there is none.
    """

    code: int
    stdout: bytes = b""
    dropped: int = 0
    stderr: tuple[str, ...] = ()
    result: bytes | None = None


def outcome(tool: Tool, ended: Ended) -> CallOutcome:
    """The result of the call: failure, else a returned value, else what was printed."""
    if ended.result is not None and len(ended.result) > MAX_RESULT:
        return Refusal(
            Reason.RESPONSE_TOO_LARGE,
            f"{tool.name} returned more than {MAX_RESULT >> 20} MiB",
            delivered="unknown",
        )
    returned = _returned(ended.result)
    if isinstance(returned.get("raised"), str):
        return _failed(tool, returned["raised"], ended.code)
    if ended.code != 0:
        return _failed(tool, _complaint(ended), ended.code)
    if "error" in returned:
        return error_result(tool, ToolError(_text(returned["error"])))
    if "object" in returned:
        return _valued(tool, returned["object"])
    if "text" in returned:
        return _told(tool, _text(returned["text"]), 0)
    if ended.result:
        return error_result(tool, ToolError(f"{tool.name} left a result that is not JSON as it should be"))
    return _printed(tool, ended)


def _returned(content: bytes | None) -> Mapping[str, Any]:
    """The value a script left in its result file, empty where there is none or it is no JSON."""
    try:
        value = json.loads((content or b"").decode("utf-8", "replace"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _no_number(word: str) -> Any:
    raise ValueError(word)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _failed(tool: Tool, text: str, code: int) -> ToolResult:
    exit_code: int | str = code if code >= 0 else _signal_name(-code)
    result = error_result(tool, ToolError(text, {"exitCode": exit_code}))
    return replace(result, meta={**result.meta, META_EXIT_CODE: exit_code})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _complaint(ended: Ended) -> str:
    ending = f"exit code {ended.code}" if ended.code > 0 else f"ended by {_signal_name(-ended.code)}"
    lines = "\n".join(ended.stderr)
    return f"{ending}\n{lines[-_MAX_COMPLAINT:]}" if lines else ending


def _printed(tool: Tool, ended: Ended) -> ToolResult:
    text = ended.stdout.decode("utf-8", "replace")
    if ended.dropped:
        line = f"[truncated: {ended.dropped} bytes dropped]"
        text = f"{text.rstrip(chr(0xFFFD))}\n{line}"  # the cut may have gone through a character
    else:
        text = text.removesuffix("\n").removesuffix("\r")
    return _told(tool, text, ended.dropped)


def _told(tool: Tool, text: str, dropped: int) -> ToolResult:
    """A text, which is JSON where the tool promised a shape."""
    meta = {META_TRUNCATED: True} if dropped else {}
    if "outputSchema" not in tool.definition:
        return ToolResult(text, meta=meta)
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        failed = error_result(
            tool, ToolError(f"the result of {tool.name} is not JSON, as its schema promises")
        )
        return replace(failed, meta={**failed.meta, **meta})
    return ToolResult(text, structured=value, meta=meta)


def _valued(tool: Tool, value: Any) -> ToolResult:
    return ToolResult(json.dumps(value, ensure_ascii=False), structured=value)
