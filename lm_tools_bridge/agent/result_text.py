"""Turns the content of a tool's result into text for the model. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

NO_SOURCES: Final = "Error: No MCP client configured"
"""The result of a call where there is nothing that could run it."""


def result_text(content: Sequence[Mapping[str, Any]], structured: Any = None) -> str:
    """The text blocks, joined by newlines; other blocks are named.

    Args:
        content: blocks of MCP.
        structured: the structured result; it is the text where there are no blocks.
    """
    if not content and structured is not None:
        return msgspec.json.encode(structured).decode()
    return "\n".join(map(_block, content))


def cut_text(text: str, most: int) -> str:
    """The text with at most `most` bytes of UTF-8, and a note of how much was cut."""
    if len(text) <= most // 4:
        return text
    whole = text.encode("utf-8", "surrogatepass")
    if len(whole) <= most:
        return text
    start = whole[:most].decode("utf-8", "ignore")
    return f"{start}\n[truncated: {len(text) - len(start)} characters]"


def _block(block: Mapping[str, Any]) -> str:
    kind = str(block.get("type", "block"))
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource" and isinstance(resource := block.get("resource"), Mapping):
        if "text" in resource:
            return str(resource["text"])
        return _block_note(kind, resource, resource.get("blob"))
    if kind == "resource_link":
        return f"[resource_link {block.get('uri', '')}]"
    return _block_note(kind, block, block.get("data"))


def _block_note(kind: str, block: Mapping[str, Any], encoded: object) -> str:
    """A block that is not text, such as `[image image/png, 12 KB]`."""
    name = f"{kind} {block.get('mimeType', '')}".strip()
    if not isinstance(encoded, str):
        return f"[{name}]"
    size = len(encoded.rstrip("=")) * 3 // 4
    return f"[{name}, {_size(size)}]"


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} bytes"
    return f"{round(size / 1024)} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"
