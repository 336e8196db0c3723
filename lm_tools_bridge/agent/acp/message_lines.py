"""Reads lines of JSON-RPC, and answers those that are no message. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from lm_tools_bridge.protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Malformed, parse

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one message."""
TOO_LARGE: Final = Malformed(INVALID_REQUEST, f"a message may have {LARGEST} bytes")


def read_message(line: bytes) -> dict[str, Any] | Malformed:
    """The message of a line, with members of the types that its receivers rely on."""
    read = parse(line)
    if isinstance(read, Malformed):
        return read
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Malformed(PARSE_ERROR, "the line is not valid JSON, or too deep")
    if not isinstance(value.get("error"), dict | None):
        return Malformed(INVALID_REQUEST, "the error must be an object")
    return dict(value)


def answer_to(problem: Malformed) -> dict[str, Any]:
    """The error that answers a line; without an id if none could be read (JSON-RPC 2.0, section 5)."""
    identity = None if problem.id is None else json.loads(problem.id)
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": problem.code, "message": problem.message}}
