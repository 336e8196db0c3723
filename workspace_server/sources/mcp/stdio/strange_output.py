"""Says what is wrong with the output of a program that did not answer the handshake. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from workspace_server.results import clean_text
from workspace_server.sources.mcp.rpc import messages
from workspace_server.sources.mcp.rpc.messages import InvalidResponse, Response

MAX_QUOTED: Final = 120
"""Characters of a line that are quoted: enough to recognise it, little for a model to obey."""
_HEADER: Final = re.compile(rb"content-length\s*:\s*\d", re.IGNORECASE)
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_MEMBERS: Final = frozenset({"id", "result", "error", "method"})
_NOTHING: Final = (
    "it wrote nothing that answers; a program for another transport, or one that waits for Content-Length"
    " headers, does so"
)
_OTHER_ID: Final = "it answers with an id that was not asked"
_DECODER: Final = json.JSONDecoder()


def explain(lines: Sequence[bytes], unfinished: bytes = b"") -> str:
    """What is wrong, with the first line that came.

    Args:
        lines: the first lines of the output, at least their beginnings.
        unfinished: what came after the last line end.
    """
    strange = [line for line in lines if not _is_message(line)]
    if unfinished.strip():
        strange.append(unfinished)
    if not strange:
        answer = next((line for line in lines if isinstance(messages.read(line), Response)), None)
        return f"{_OTHER_ID}; the first such line: {quoted(answer)}" if answer else _NOTHING
    reasons = (_reason(line, is_last=line is strange[-1]) for line in strange)
    reason = next((text for text in reasons if text), None) or _of_all(strange, unfinished)
    return f"{reason}; the first such line: {quoted(strange[0])}"


def quoted(line: bytes) -> str:
    """A line in quotes on one line, escaped and cut."""
    coding = "utf-16" if line.startswith(_UTF16) else "utf-16-le" if line[1:2] == b"\0" else "utf-8"
    text = line.decode(coding, "replace").strip()
    cut = text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 1] + "…"
    return json.dumps(clean_text(cut), ensure_ascii=False)


def _is_message(line: bytes) -> bool:
    return not line.strip() or not isinstance(messages.read(line), InvalidResponse | None)


def _reason(line: bytes, *, is_last: bool) -> str | None:
    """What is wrong with one line; None if it may be any text."""
    plain = line.strip()
    if _HEADER.match(plain):
        return "it writes Content-Length headers; a stdio MCP server writes one JSON message a line"
    if line.startswith(_UTF16) or b"\0" in line:
        return "its output is UTF-16; it must be UTF-8"
    if plain.startswith((b"{'", b"[{'")):
        return "it writes single quotes, which JSON has not"
    value, end = _leading_value(plain)
    if isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        return "it answers with a batch, which is no longer part of the protocol"
    if isinstance(value, dict) and end < len(plain):
        return "more text follows its message on the same line"
    if isinstance(value, dict) and value.keys() & _MEMBERS and value.get("jsonrpc") != "2.0":
        return 'its messages lack "jsonrpc": "2.0"'
    if b'"jsonrpc"' in plain and not plain.startswith((b"{", b"[")):
        return "other text stands before its message on the same line"
    if plain == b"{" or (plain.startswith(b"{") and value is None and not is_last):
        return "it writes a message over several lines; it must be one line"
    return None


def _of_all(strange: Sequence[bytes], unfinished: bytes) -> str:
    value, _ = _leading_value(unfinished.strip())
    if isinstance(value, dict):
        return "it does not end its message with a line feed"
    if len(strange) == 1 and unfinished.strip():
        return "it wrote text without a line end on standard output, before any message"
    return "it writes lines that are no messages on standard output; logs belong on standard error"


def _leading_value(text: bytes) -> tuple[Any, int]:
    """The JSON value at the beginning of a text, and where it ends in bytes; None if there is none."""
    if text[:1] not in (b"{", b"["):
        return None, 0
    decoded = text.decode("utf-8", "replace")
    try:
        value, end = _DECODER.raw_decode(decoded)
    except (ValueError, RecursionError):
        return None, 0
    return value, len(decoded[:end].encode())
