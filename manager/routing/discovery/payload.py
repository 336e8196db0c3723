"""Builds the discovery payload from a workspace's tool list: names, descriptions, issues.

`manager/answers/listing/catalog.py` fetches the list and the schemas. Every entry that is left out is
reported as an issue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.input_hint import describe
from lm_tools_bridge.protocol.issues import Issue
from manager.routing.discovery.own_tools import CALL_TOOL

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


def issue(code: str, tool_name: str | None = None, details: str | None = None) -> Issue:
    """Build the issue with this code."""
    level, category, message = _MESSAGES[code]
    return Issue("error" if level == "error" else "warning", category, code, message, tool_name, details)


@dataclass(frozen=True, slots=True)
class Entry:
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
            issues.append(issue("TOOL_ENTRY_INVALID"))
        elif trimmed in names.MANAGER_TOOL_NAMES:
            issues.append(issue("TOOL_NAME_RESERVED", trimmed))
        elif trimmed in seen:
            issues.append(issue("TOOL_NAME_DUPLICATE", trimmed))
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


def discovery(tools: Sequence[Mapping[str, str]], issues: Iterable[Issue]) -> dict[str, Any]:
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
