"""Writes the results of our own tools: turns a `ToolResult` into the members of a `CallToolResult`.

Results of other servers are passed on as bytes and never go through this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Refusal
from workspace_server.tool import Tool, ToolError, ToolResult

_ERROR_PREFIX = "Error: "
# Each level costs a frame here and in the readers of clients, whose limits are some hundreds.
_MAX_DEPTH = 100
# Every encoder writes integers of 64 bits, so smaller ones need no closer look.
_SAFE = 1 << 62
_MAX_BITS = 10_000  # no encoder writes integers of any length

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    # OSC, DCS, SOS, PM, APC; none begins inside another, which also keeps the search linear
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
_INVISIBLE = re.compile(  # every escape sequence begins with one of these
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi marks, embeddings, overrides, isolates
    "\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff"  # zero width
    "\U000e0000-\U000e007f]"  # tag characters: a text only a model sees
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """`text` with lone surrogates, which cannot be encoded, replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def clean_text(text: str) -> str:
    """`text` without characters that could mislead a terminal or a model.

    Removes ANSI sequences, control characters except line feed and tab, and bidi and zero-width characters.
    Lone surrogates become U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    if _INVISIBLE.search(text) is not None:
        text = _INVISIBLE.sub("", _ANSI.sub("", text))
    return well_formed(text)


def _json_value(value: object, depth: int = 0) -> Any:
    """`value` as JSON; what JSON cannot express becomes null or a string."""
    if value.__class__ is int and -_SAFE < value < _SAFE:
        return value
    if value.__class__ is float and math.isfinite(value):
        return value
    if isinstance(value, str):
        return well_formed(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == _MAX_DEPTH:
        return None
    if isinstance(value, (dict, Mapping)):
        wire = {}
        for key, item in value.items():
            name = str(key)
            wire[name if name.isascii() else well_formed(name)] = _json_value(item, depth + 1)
        return wire
    if isinstance(value, (list, tuple)):
        return [_json_value(item, depth + 1) for item in value]
    return well_formed(str(value))


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = _json_value(block)
    if wire.get("type") == "text" and isinstance(wire.get("text"), str):
        wire["text"] = clean_text(wire["text"])
    return wire


def encode_result(result: ToolResult) -> dict[str, Any]:
    """The members of a `CallToolResult`, ready for any JSON encoder.

    `content` and `isError` are always present, `structuredContent` and `_meta` only if the result has them.
    An empty text gives no block if there are other blocks. Texts are cleaned unless they are `verbatim`;
    structured values are not, because programs need the exact characters.
    """
    blocks = [_block(block) for block in result.blocks] if result.blocks else []
    if result.text or not blocks:
        text = well_formed(result.text) if result.verbatim else clean_text(result.text)
        blocks = [{"type": "text", "text": text}, *blocks]
    wire: dict[str, Any] = {"content": blocks, "isError": result.is_error}
    if result.structured is not None:
        wire["structuredContent"] = _json_value(result.structured)
    if result.meta:
        wire["_meta"] = _json_value(result.meta)
    return wire


def failure(tool: Tool, text: str, body: Mapping[str, Any]) -> ToolResult:
    """A failed result with a machine-readable `body`.

    The body goes into `structuredContent`, or into `_meta` if the tool has an `outputSchema`, because clients
    validate the structured content of errors too.
    """
    if "outputSchema" in tool.definition:
        return ToolResult(text, is_error=True, meta={names.META_ERROR: body})
    return ToolResult(text, structured=body, is_error=True)


def error_result(tool: Tool, error: ToolError) -> ToolResult:
    """The result of a call whose tool failed.

    The text starts with `Error: ` exactly once. The body is
    `{ok: false, error: {reason, message, details?}}`, with the message without that prefix and `details` from
    `ToolError.structured`.
    """
    message = error.message.removeprefix(_ERROR_PREFIX)
    described: dict[str, Any] = {"reason": "execution_failed", "message": clean_text(message)}
    if error.structured is not None:
        described["details"] = error.structured
    return failure(tool, _ERROR_PREFIX + message, {"ok": False, "error": described})


def refusal_result(tool: Tool, refusal: Refusal) -> ToolResult:
    """A refusal as the result of a call: `{ok: false, error: {code, reason, message, nextStep, …}}`."""
    described = {"code": refusal.reason.code, "message": refusal.message, **refusal.data()}
    return failure(tool, refusal.text, {"ok": False, "error": described})
