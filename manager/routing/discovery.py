"""The manager's own tools, and the discovery part of a handshake's result. Pure.

The payload is built from a workspace's tool list: names, descriptions, issues. `manager/answers/catalog.py`
fetches the list and the schemas; every entry that is left out is reported as an issue. For a workspace on
another host, the result says whose paths its answers contain, and who can read them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.input_hint import describe
from lm_tools_bridge.protocol.issues import Issue
from manager.routing.remote_address import RemoteRoot

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
        "name": {"type": "string"},
        "arguments": {"type": "object", "description": "See lm-tools://schema/{name}."},
        "workspace": {
            "type": "string",
            "description": "The handle from the handshake, if this session made none.",
        },
        "cwd": {"type": "string", "description": "Absolute path, instead of a handle."},
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
        "Calls a tool of a project by its name: in another folder or git worktree than the listed tools work"
        " in (`cwd`), or by the handle of a handshake, which stays valid while the folder exists. A listed"
        ' tool needs neither. Example: {"name": "lm_getDiagnostics", "cwd": "/home/me/shop"}.',
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

RESOURCE_TEMPLATES: Final = (
    {"name": "Tool URI template", "uriTemplate": names.TEMPLATE_TOOL},
    {"name": "Schema URI template", "uriTemplate": names.TEMPLATE_SCHEMA},
)
_MESSAGES: Final[Mapping[str, tuple[str, str, str]]] = {
    "WORKSPACE_NOT_FOUND": ("error", "workspace", "the request leads to no project"),
    "TOOLS_LIST_FETCH_FAILED": ("error", "tools/list", "tools/list could not be fetched"),
    "TOOLS_LIST_INVALID_RESULT": ("error", "tools/list", "tools/list gave no usable result"),
    "TOOL_ENTRY_INVALID": ("warning", "tools/list", "an entry of tools/list was dropped"),
    "TOOL_NAME_DUPLICATE": ("warning", "tools/list", "duplicate tool name dropped"),
    "TOOL_NAME_RESERVED": ("warning", "tools/list", "reserved tool name dropped"),
    "SCHEMA_READ_REQUEST_FAILED": ("warning", "schema", "schema could not be fetched"),
    "SCHEMA_READ_RPC_ERROR": ("warning", "schema", "schema read was refused"),
    "SCHEMA_CONTENT_MISSING": ("warning", "schema", "schema resource is empty"),
    "SCHEMA_CONTENT_INVALID": ("warning", "schema", "schema resource is malformed"),
    "SCHEMA_TEXT_MISSING": ("warning", "schema", "schema resource has no text"),
    "SCHEMA_JSON_PARSE_FAILED": ("warning", "schema", "schema text is not JSON"),
    "SCHEMA_JSON_INVALID": ("warning", "schema", "schema text is no object"),
    "SCHEMA_INPUT_MISSING": ("warning", "schema", "no usable inputSchema"),
    "SCHEMA_READ_UNEXPECTED_ERROR": ("warning", "schema", "schema read failed unexpectedly"),
}


def make_issue(code: str, tool_name: str | None = None, details: str | None = None) -> Issue:
    """Build the issue with this code."""
    level, category, message = _MESSAGES[code]
    return Issue("error" if level == "error" else "warning", category, code, message, tool_name, details)


class Entry(msgspec.Struct, frozen=True):
    """One usable tool of a list: its name and the JSON text of its definition."""

    name: str
    raw: msgspec.Raw


class _Definition(msgspec.Struct, rename="camel"):
    name: Any = None
    description: Any = None
    input_schema: Any = None


_definition = msgspec.json.Decoder(_Definition)


def usable_entries(entries: Iterable[msgspec.Raw]) -> tuple[list[Entry], list[Issue]]:
    """The usable tools in the order of the list (named, unique, not reserved), and issues for the others."""
    kept: list[Entry] = []
    issues: list[Issue] = []
    seen: set[str] = set()
    for raw in entries:
        try:
            name = _definition.decode(raw).name
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            name = None
        trimmed = name.strip() if isinstance(name, str) else ""
        if not trimmed:
            issues.append(make_issue("TOOL_ENTRY_INVALID"))
        elif trimmed in names.MANAGER_TOOL_NAMES:
            issues.append(make_issue("TOOL_NAME_RESERVED", trimmed))
        elif trimmed in seen:
            issues.append(make_issue("TOOL_NAME_DUPLICATE", trimmed))
        else:
            seen.add(trimmed)
            kept.append(Entry(trimmed, raw))
    return kept, issues


def schema_in_list(entry: Entry) -> Mapping[str, Any] | None:
    """The input schema in the list itself; None if it is no object."""
    schema = _definition.decode(entry.raw).input_schema
    return schema if isinstance(schema, dict) else None


def bridged_tool(entry: Entry, schema: Mapping[str, Any] | None) -> dict[str, str]:
    """Name and description of a tool, with the input hint."""
    description = _definition.decode(entry.raw).description
    text = description if isinstance(description, str) else None
    return {"name": entry.name, "description": describe(text, schema or {})}


def discovery_payload(tools: Sequence[Mapping[str, str]], issues: Iterable[Issue]) -> dict[str, Any]:
    """The discovery payload, sorted, so that equal input gives equal bytes."""
    ordered = sorted(issues, key=lambda one: one.order)
    return {
        "callTool": {key: CALL_TOOL[key] for key in ("name", "description", "inputSchema")},
        "bridgedTools": sorted(tools, key=lambda tool: (tool["name"].lower(), tool["name"])),
        "resourceTemplates": list(RESOURCE_TEMPLATES),
        "partial": any(one.level == "error" for one in ordered),
        "issues": [one.as_json() for one in ordered],
    }


def read_schema(content: object) -> tuple[Mapping[str, Any] | None, str | None]:
    """The schema in the `contents` of a `resources/read` result, or the code of an issue."""
    if not isinstance(content, list) or not content:
        return None, "SCHEMA_CONTENT_MISSING"
    if not isinstance(content[0], Mapping):
        return None, "SCHEMA_CONTENT_INVALID"
    text = content[0].get("text")
    if not isinstance(text, str):
        return None, "SCHEMA_TEXT_MISSING"
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None, "SCHEMA_JSON_PARSE_FAILED"
    if not isinstance(value, dict):
        return None, "SCHEMA_JSON_INVALID"
    schema = value.get("inputSchema")
    return (schema, None) if isinstance(schema, dict) else (None, "SCHEMA_INPUT_MISSING")


def host_mark(place: RemoteRoot) -> str:
    """One sentence for models, and one about trust."""
    root = f"{place.host}{place.path}"
    return (
        f"This workspace is on another host, {place.host}: all paths in its answers are paths there. Your own"
        " file and shell tools cannot reach them, so use this workspace's tools (lm_readFile, lm_findFiles"
        f" …). What waits for trust there is allowed by the user with: lmtb trust {shlex.quote(root)}"
    )


def remote_step(place: RemoteRoot) -> str:
    """The mark as a step of a handshake's guidance."""
    return (
        f"{host_mark(place)}. To name another folder there, call {names.HANDSHAKE} with cwd = {place.host}/…"
    )


CODE_STEP: Final = (
    "For code use lm_findSymbol, lm_references and lm_fileOutline rather than searching its text, and call"
    " lm_getDiagnostics after edits."
)
_CODE_TOOL: Final = "lm_references"
"""A tool that is there if a language server is."""


def handshake_payload(
    *,
    session_id: str | None,
    workspace: str,
    cwd: str,
    target: Mapping[str, Any],
    health: Mapping[str, Any],
    discovery: Mapping[str, Any],
    place: RemoteRoot | None = None,
) -> dict[str, Any]:
    """The structured content.

    Args:
        session_id: the session that was bound; None for stateless clients.
        target: `{sessionId, host, port, workspaceFolders, workspaceFile}` of the running server.
        health: its health answer, without the nonce.
        discovery: what the workspace offers.
        place: where it is, if it is on another host.
    """
    steps = [] if place is None else [remote_step(place)]
    bound = session_id is not None
    return {
        "ok": True,
        **({"mcpSessionId": session_id} if bound else {}),
        "workspace": workspace,
        "cwd": cwd,
        **({} if place is None else {"host": place.host}),
        "target": target,
        "online": True,
        "health": {"ok": True, "status": 200, "data": health},
        "discovery": discovery,
        "guidance": {"nextSteps": [*steps, *next_steps(workspace, discovery, bound=bound)]},
    }


def next_steps(workspace: str, discovery: Mapping[str, Any], *, bound: bool) -> list[str]:
    """The next steps for the client, most useful first."""
    call = f'{names.CALL_TOOL} {{"name": <tool>, "arguments": {{…}}, "workspace": "{workspace}"}}'
    steps = [
        f"Call a tool by its name, or through {call}."
        if bound
        else f"Call a tool through {call}; repeat the handle in every call.",
        f"Read {names.TEMPLATE_SCHEMA} for the full schema of a tool's arguments.",
    ]
    if _CODE_TOOL in {tool["name"] for tool in discovery["bridgedTools"]}:
        steps.append(CODE_STEP)
    if discovery["partial"] or discovery["issues"]:
        steps.append("Some things are missing or old (see issues); list the tools again later.")
    waiting = [one for one in discovery["issues"] if one["category"] == "trust"]
    if waiting:
        commands = (one.get("details") for one in waiting if one["code"] == "TRUST_PENDING")
        command = next(filter(None, commands), "lmtb trust")
        steps.append(
            "What waits for trust (see issues) cannot be used yet. If it is needed, ask the user to review it"
            f" and to run: {command}"
        )
    return steps


def handshake_summary(answer: Mapping[str, Any]) -> str:
    """The result as text."""
    target, discovery = answer["target"], answer["discovery"]
    tools, issues = discovery["bridgedTools"], discovery["issues"]
    lines = [
        "Workspace handshake summary",
        "ok: true",
        f"workspace: {answer['workspace']}",
        f"cwd: {answer['cwd']}",
        *([f"host: {answer['host']} (all paths are paths there)"] if "host" in answer else []),
        f"target: {target['host']}:{target['port']}",
        f"workspaceFolders: {len(target['workspaceFolders'])}",
        "online: true",
        f"discovery.partial: {str(discovery['partial']).lower()}",
        f"bridgedTools: {len(tools)}",
        "tools:",
        *([f"  - {tool['name']}" for tool in tools] or ["  (none)"]),
        *(["Issues:", *_issue_lines(issues)] if issues else ["Issues: none"]),
        "Guidance:",
        "  nextSteps:",
        *(f"  - {step}" for step in answer["guidance"]["nextSteps"]),
    ]
    return "\n".join(lines)


def _issue_lines(issues: list[Mapping[str, str]]) -> list[str]:
    lines = []
    for one in issues:
        tags = [one["level"], one["category"], one["code"], *([one["toolName"]] if "toolName" in one else [])]
        lines.append(f"- {''.join(f'[{tag}]' for tag in tags)} {one['message']}")
        if "details" in one:
            lines.append(f"  details: {one['details']}")
    return lines
