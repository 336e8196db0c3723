"""Converts what a script left behind (exit code, result file, output) to the result of its call. Pure."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.results import error_result
from workspace_server.tool import CallOutcome, Tool, ToolError, ToolResult

META_EXIT_CODE: Final = "lm-tools-bridge/exitCode"
META_TRUNCATED: Final = "lm-tools-bridge/truncated"
# Output is for a model, which cannot use more; a result has the bound of an MCP server's message.
MAX_STDOUT: Final = 1024 * 1024
MAX_RESULT: Final = 32 * 1024 * 1024
_MAX_FAILURE_TEXT: Final = 2_000
_OWN_PYTHON: Final = (
    "script tools run with the Python of LM Tools Bridge; to use packages of yours, begin the script with the"
    " path of the Python that has them, such as #!/home/me/project/.venv/bin/python"
)
"""What helps with the commonest mistake: a package of the project that our Python does not have."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a script left when it ended.

    Attributes:
        code: exit code; the negative signal number if a signal ended the script.
        stdout: the first `MAX_STDOUT` bytes of standard output.
        dropped: bytes of standard output after those.
        stderr: the last lines of standard error, cleaned.
        result: content of the result file, at most `MAX_RESULT` + 1 bytes; None if there is no file.
    """

    code: int
    stdout: bytes = b""
    dropped: int = 0
    stderr: tuple[str, ...] = ()
    result: bytes | None = None


def outcome(tool: Tool, ended: Ended) -> CallOutcome:
    """The result of the call: a failure, else the returned value, else the standard output."""
    if ended.result is not None and len(ended.result) > MAX_RESULT:
        return Refusal(
            Reason.RESPONSE_TOO_LARGE,
            f"{tool.name} returned more than {MAX_RESULT >> 20} MiB",
            delivered="unknown",
        )
    returned = _parse_result_file(ended.result)
    if isinstance(returned.get("raised"), str):
        return _failed(tool, returned["raised"], ended.code)
    if ended.code != 0:
        return _failed(tool, _failure_text(ended), ended.code)
    if "error" in returned:
        return error_result(tool, ToolError(_text(returned["error"])))
    if "object" in returned:
        return _object_result(tool, returned["object"])
    if "text" in returned:
        return _text_result(tool, _text(returned["text"]), 0)
    if ended.result:
        return error_result(tool, ToolError(f"{tool.name} wrote a result file that is not valid"))
    return _stdout_result(tool, ended)


def _parse_result_file(content: bytes | None) -> Mapping[str, Any]:
    """The JSON object in the result file; empty if there is no file or it contains no JSON object."""
    try:
        value = json.loads((content or b"").decode("utf-8", "replace"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _refuse_constant(word: str) -> Any:
    """Reject `NaN` and `Infinity`, which Python reads but JSON does not have (RFC 8259 §6)."""
    raise ValueError(word)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _failed(tool: Tool, text: str, code: int) -> ToolResult:
    if "ModuleNotFoundError: " in text:
        text = f"{text}\n{_OWN_PYTHON}"
    exit_code: int | str = code if code >= 0 else _signal_name(-code)
    result = error_result(tool, ToolError(text, {"exitCode": exit_code}))
    return replace(result, meta={**result.meta, META_EXIT_CODE: exit_code})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _failure_text(ended: Ended) -> str:
    ending = f"exit code {ended.code}" if ended.code > 0 else f"ended by {_signal_name(-ended.code)}"
    lines = "\n".join(ended.stderr)
    return f"{ending}\n{lines[-_MAX_FAILURE_TEXT:]}" if lines else ending


def _stdout_result(tool: Tool, ended: Ended) -> ToolResult:
    text = ended.stdout.decode("utf-8", "replace")
    if ended.dropped:
        line = f"[truncated: {ended.dropped} bytes dropped]"
        text = f"{text.rstrip(chr(0xFFFD))}\n{line}"  # the cut may have gone through a character
    else:
        text = text.removesuffix("\n").removesuffix("\r")
    return _text_result(tool, text, ended.dropped)


def _text_result(tool: Tool, text: str, dropped: int) -> ToolResult:
    """A result with this text; with an output schema the text must be JSON and is the structured content."""
    meta = {META_TRUNCATED: True} if dropped else {}
    if "outputSchema" not in tool.definition:
        return ToolResult(text, meta=meta)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        failed = error_result(
            tool, ToolError(f"the result of {tool.name} is not JSON, as its schema promises")
        )
        return replace(failed, meta={**failed.meta, **meta})
    return ToolResult(text, structured=value, meta=meta)


def _object_result(tool: Tool, value: Any) -> ToolResult:
    return ToolResult(json.dumps(value, ensure_ascii=False), structured=value)
