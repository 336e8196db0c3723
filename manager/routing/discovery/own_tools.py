"""The manager's own tools and resources: handshake and callTool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.input_hint import describe

_HANDSHAKE_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "cwd": {
            "type": "string",
            "description": "Absolute path of the project folder, or of any folder inside it.",
        }
    },
    "required": ["cwd"],
}
_CALL_TOOL_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the workspace tool to call."},
        "arguments": {"type": "object", "description": "Its arguments; see lm-tools://schema/{name}."},
        "workspace": {
            "type": "string",
            "description": "Workspace handle from the handshake; not needed once a session is bound.",
        },
        "cwd": {"type": "string", "description": "Absolute project path, instead of a handle."},
    },
    "required": ["name"],
}

HANDSHAKE_TOOL: Final[Mapping[str, Any]] = {
    "name": names.HANDSHAKE,
    "title": "Bind to the workspace of a folder",
    "description": describe(
        "Finds the workspace that a folder belongs to, starts its tool server if needed, and tells which"
        " tools it offers. Call this first, with the absolute path of your project.",
        _HANDSHAKE_SCHEMA,
    ),
    "inputSchema": _HANDSHAKE_SCHEMA,
    "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
}
CALL_TOOL: Final[Mapping[str, Any]] = {
    "name": names.CALL_TOOL,
    "title": "Call a workspace tool",
    "description": describe(
        "Calls one tool of a workspace by its name. Names the workspace by the handle of the handshake, which"
        " stays valid while the folder exists, or by cwd; in a bound session neither is needed.",
        _CALL_TOOL_SCHEMA,
    ),
    "inputSchema": _CALL_TOOL_SCHEMA,
}
MANAGER_TOOLS: Final = (HANDSHAKE_TOOL, CALL_TOOL)

MANAGER_RESOURCES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "uri": names.URI_HANDSHAKE,
        "name": "MCP manager handshake",
        "description": "How to reach the tools of a project, and where this client stands now.",
        "mimeType": "text/plain",
    },
    {
        "uri": names.URI_CALL_TOOL,
        "name": "MCP manager direct tool call",
        "description": "How to call any workspace tool through lmToolsBridge.callTool.",
        "mimeType": "text/plain",
    },
)
MANAGER_TEMPLATES: Final[tuple[Mapping[str, Any], ...]] = tuple(
    {"uriTemplate": one["uri"], **{key: value for key, value in one.items() if key != "uri"}}
    for one in MANAGER_RESOURCES
)

CALL_TOOL_TEXT: Final = f"""\
Call any workspace tool with the tool {names.CALL_TOOL}.
Input: {{ name: string, arguments?: object, workspace?: string, cwd?: string }}
Example:
{{"name":"{names.CALL_TOOL}","arguments":{{"name":"lm_findFiles","arguments":{{"query":"*.md"}},\
"workspace":"<handle from the handshake>"}}}}
"""
