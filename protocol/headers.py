"""HTTP header names, and how a value that is not plain ASCII travels in one (2026-07-28).

Both directions of the codec live here, so that what one end writes the other end reads.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

SESSION: Final = "Mcp-Session-Id"
VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
LAST_EVENT_ID: Final = "Last-Event-ID"
PARAM_PREFIX: Final = "mcp-param-"
WORKSPACE_CWD: Final = "X-Workspace-Cwd"
WORKSPACE_ID: Final = "X-Workspace-Id"
WORKSPACE_SOURCE: Final = "X-Workspace-Source"
SECRET: Final = "Lm-Tools-Bridge-Secret"  # noqa: S105  the header's name, not a secret
"""Carries the per-instance secret from the manager to a workspace server."""
CALLER: Final = "Lm-Tools-Bridge-Caller"
"""Tells a workspace server which calls belong together: a digest of the session id, made by the manager."""
UNMIRRORED: Final = "Lm-Tools-Bridge-Unmirrored"
"""Tells a workspace server that the client could not repeat arguments in headers: its era knows no such
headers, or its call was inside another one."""
RESULT_TRIM: Final = "Lm-Tools-Bridge-Trim"
"""Tells the manager what of a tool's result a session does not get (`internal/result_trim.py`)."""
PASS_THROUGH: Final = "Lm-Tools-Bridge-As-Is"  # noqa: S105  the header's name
"""Tells a workspace server that the client's URL means this workspace alone: where it is one server of
somebody else, the client is to meet that server as it is."""

TOOL_MODES: Final = {"X-MCP-Tool-Mode": "tool_mode", "X-MCP-Show-All": "show_all"}
"""What chooses the mode of a request: a header, and the query member it hides."""

FORWARDED: Final = frozenset(
    {"mcp-protocol-version", "mcp-method", "mcp-name", "x-mcp-tool-mode", "x-mcp-show-all",
     "traceparent", "tracestate", "baggage"}
)  # fmt: skip
"""Client headers that cross to the workspace server. An allow-list: credentials, cookies and hop-by-hop
headers never cross. `Mcp-Param-*` cross too."""

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="


def is_forwarded(name: str) -> bool:
    """Whether a client header of this (lower-case) name is passed on to the workspace server."""
    return name in FORWARDED or name.startswith(PARAM_PREFIX)


def _is_plain(value: str) -> bool:
    if value != value.strip() or (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return False
    return all(0x20 <= ord(character) <= 0x7E for character in value)


def encode_value(value: str) -> str:
    """The header form of a text: as it is when plain ASCII, else `=?base64?…?=` of its UTF-8 bytes."""
    if _is_plain(value):
        return value
    packed = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"{_PREFIX}{packed}{_SUFFIX}"


def decode_value(value: str) -> str | None:
    """The text a header value stands for, or None when its base64 form is broken or not canonical.

    A value that only resembles the sentinel (`=?BASE64?…`, a missing suffix) is meant literally.
    """
    value = value.strip(" \t")
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX) and len(value) >= len(_PREFIX) + 2):
        return value
    packed = value[len(_PREFIX) : -len(_SUFFIX)]
    try:
        raw = base64.b64decode(packed, validate=True)
        text = raw.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return text if base64.b64encode(raw).decode("ascii") == packed else None
