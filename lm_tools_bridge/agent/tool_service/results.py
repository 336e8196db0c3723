"""Brings what tools return into the shape of MCP's `CallToolResult`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

CallToolResult = dict[str, Any]
"""`{"content": […], "isError"?: true, "_meta"?: …}` and further members of MCP; `content` is always there."""


def result_of(returned: Any) -> CallToolResult:
    """The result for what a handler returned: a result, content blocks, a text, or any JSON value."""
    if isinstance(returned, Mapping) and isinstance(returned.get("content"), list | tuple):
        return _completed(returned)
    if isinstance(returned, str):
        return {"content": [text_block(returned)]}
    if isinstance(returned, Sequence) and returned and all(_is_block(block) for block in returned):
        return {"content": [dict(block) for block in returned]}
    if returned is None:
        return {"content": []}
    return {"content": [text_block(msgspec.json.encode(returned).decode())]}


def error_result(message: str) -> CallToolResult:
    """The result of a tool that failed, in words by which a model can correct itself."""
    return {"content": [text_block(f"Error: {message}")], "isError": True}


def text_block(text: str) -> dict[str, Any]:
    """A content block with text."""
    return {"type": "text", "text": text}


def _completed(result: Mapping[str, Any]) -> CallToolResult:
    """A result whose `isError` is there only where it is true."""
    whole = {**result, "content": [dict(block) for block in result["content"] if isinstance(block, Mapping)]}
    if whole.get("isError") is not True:
        whole.pop("isError", None)
    return whole


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)
