"""HTTP header names, and the base64 form of header values that are not plain ASCII (MCP 2026-07-28)."""

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
WORKSPACE_OVERRULED: Final = "X-Workspace-Overruled"
"""Names what pointed to another workspace and was weaker than what decided, in a response of the manager."""
SECRET: Final = "Lm-Tools-Bridge-Secret"  # noqa: S105  the header's name, not a secret
"""Holds the instance secret in requests from the manager to a workspace server."""
CALLER: Final = "Lm-Tools-Bridge-Caller"
"""Groups the calls of one session for a workspace server: a digest of the session id."""
UNMIRRORED: Final = "Lm-Tools-Bridge-Unmirrored"
"""Tells a workspace server that the request lacks `Mcp-Param-*` headers for a good reason: a legacy client
sent it, or it is a nested call."""
RESULT_TRIM: Final = "Lm-Tools-Bridge-Trim"
"""Tells the manager how to trim a tool's result for session clients (`internal/result_trim.py`)."""
TOOK: Final = "Lm-Tools-Bridge-Took"
"""Tells the manager which source a call used and how long it took (`internal/call_reports.py`)."""
PASS_THROUGH: Final = "Lm-Tools-Bridge-As-Is"  # noqa: S105  the header's name
"""Tells a workspace server that the client's URL names this workspace. If the workspace consists of a single
MCP server, requests pass through to it unchanged."""

SERVER: Final = "Lm-Tools-Bridge-Server"
"""Tells a workspace server which of its MCP servers the client's URL names, as `encode_value` writes it: the
client gets this one alone, under its own names."""

LIST_WAIT: Final = "Lm-Tools-Bridge-List-Wait"
"""Tells a workspace server how many milliseconds a request may wait for sources without a known list."""

MODEL_SEES: Final = "Lm-Tools-Bridge-Model-Sees"
"""Tells a workspace server what of a tool's result the client shows to its model: `text`, `structured` or
`both`, and `no-links` if it shows no resource links; separated by blanks. There is none for clients that
nobody measured: results for them are passed on unchanged."""
NO_LINKS: Final = "no-links"
"""The word of `MODEL_SEES` for a client whose model does not see resource links."""

TOOL_NAMES: Final = "Lm-Tools-Bridge-Tool-Names"
"""Tells a workspace server what the client needs of the names of tools (`internal/client_traits.py`)."""

OWN_FILES: Final = "Lm-Tools-Bridge-Own-Files"
"""Tells a workspace server which servers of the project's files the client starts itself, so that their tools
would be in its list twice (`internal/client_traits.py`)."""

WORKSPACE_CONTRADICTION: Final = "X-Workspace-Contradiction"
"""Names the two folders that a request could mean, in a response of the manager."""

NOTE: Final = "Lm-Tools-Bridge-Note"
"""A sentence for the model about a tool call, which the workspace server adds to its result: that another
project answers than the client's address names. Encoded with `encode_value`."""

FOLDER: Final = "Lm-Tools-Bridge-Folder"
"""Tells a workspace server in which folder of the workspace the client works: relative to the root, with `/`,
as `encode_value` writes it. Absent for the root itself."""

CLIENT_TRAITS: Final = "Lm-Tools-Bridge-Client-Traits"
"""Tells a workspace server what is special about the client (`internal/client_traits.py`)."""

TOOL_MODES: Final = {"X-MCP-Tool-Mode": "tool_mode", "X-MCP-Show-All": "show_all"}
"""Headers that choose the tool mode of a request, each with the query parameter it overrides."""

FORWARDED: Final = frozenset(
    {"mcp-protocol-version", "mcp-method", "mcp-name", "x-mcp-tool-mode", "x-mcp-show-all",
     "traceparent", "tracestate", "baggage"}
)  # fmt: skip
"""Client headers that the manager forwards to the workspace server, besides `Mcp-Param-*`. An allow-list:
credentials, cookies and hop-by-hop headers are never forwarded."""

BETWEEN_MANAGERS: Final = frozenset(name.lower() for name in (CALLER, UNMIRRORED, PASS_THROUGH, SERVER))
"""Internal headers that a manager forwards for a manager on another host. Lower case."""

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="


def is_forwarded(name: str) -> bool:
    """Whether a client header is forwarded to the workspace server. `name` is in lower case."""
    return name in FORWARDED or name.startswith(PARAM_PREFIX)


def _is_plain(value: str) -> bool:
    if value != value.strip() or (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return False
    return all(0x20 <= ord(character) <= 0x7E for character in value)


def encode_value(value: str) -> str:
    """Encode a header value: plain ASCII unchanged, else `=?base64?…?=` of the UTF-8 bytes."""
    if _is_plain(value):
        return value
    packed = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"{_PREFIX}{packed}{_SUFFIX}"


def decode_value(value: str) -> str | None:
    """Decode a header value; None if its base64 form is invalid or not canonical.

    A value that only resembles the base64 form (`=?BASE64?…`, a missing suffix) is taken literally.
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
