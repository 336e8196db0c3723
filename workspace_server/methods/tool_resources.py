"""Offers the tools as resources: all names, one tool, its input schema; completes tool names.

The resources of the sources are in `resources.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server.calls import unknown_tool
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View

MIME: Final = "application/json"
MAX_COMPLETIONS: Final = 100
_AVOID: Final = ("do not use", "placeholder")

TEMPLATES: Final[tuple[dict[str, str], ...]] = (
    {
        "uriTemplate": names.TEMPLATE_SCHEMA,
        "name": "schema",
        "description": "The input schema of one tool.",
        "mimeType": MIME,
    },
    {
        "uriTemplate": names.TEMPLATE_TOOL,
        "name": "tool",
        "description": "Everything known about one tool.",
        "mimeType": MIME,
    },
)


def entries(view: View) -> list[dict[str, Any]]:
    """The objects of `resources/list`: the names, then one per callable tool, ordered by URI."""
    text = "The names of all tools that can be called."
    entries = [{"uri": names.URI_NAMES, "name": "names", "description": text, "mimeType": MIME}]
    for offered in view.tools:
        entry = {"uri": _uri(names.URI_TOOL, offered.name), "name": offered.name, "mimeType": MIME}
        if description := offered.named_tool().description:
            entry["description"] = description
        entries.append(entry)
    return entries


def read(request: McpRequest, view: View) -> Outcome:
    """The result of `resources/read` of one of these, or -32602 with the URI in its data."""
    uri = request.inbound.name or ""
    if uri == names.URI_NAMES:
        return _contents(uri, {"tools": [offered.name for offered in view.tools]})
    for prefix, describe in ((names.URI_TOOL, _tool), (names.URI_SCHEMA, _schema)):
        if uri.startswith(prefix):
            name = unquote(uri.removeprefix(prefix))
            offered = view.get(name)
            return (
                unknown_tool.unknown_tool(request, view, name, uri)
                if offered is None
                else _contents(uri, describe(offered))
            )
    return not_found(request, uri)


def not_found(request: McpRequest, uri: str) -> Rejection:
    """The error for an unknown URI."""
    data = {"uri": uri, "details": {"uri": uri}}
    return Rejection(200, jsonrpc.INVALID_PARAMS, f"Resource not found: {uri}", request.id, data)


def complete(argument: str, value: str, view: View) -> Mapping[str, Any] | None:
    """The result of completing an argument of our templates: tool names that begin with the value.

    None where the templates have no such argument.
    """
    if argument != "name":
        return None
    matches: Sequence[str] = [offered.name for offered in view.tools if offered.name.startswith(value)]
    return {
        "completion": {
            "values": matches[:MAX_COMPLETIONS],
            "total": len(matches),
            "hasMore": len(matches) > MAX_COMPLETIONS,
        }
    }


def _contents(uri: str, value: Any) -> dict[str, Any]:
    return {"contents": [{"uri": uri, "mimeType": MIME, "text": jsonrpc.dumps(value).decode()}]}


def _uri(prefix: str, name: str) -> str:
    return prefix + quote(name, safe="")


def _schema(offered: OfferedTool) -> dict[str, Any]:
    return {"name": offered.name, "inputSchema": offered.definition["inputSchema"]}


def _tool(offered: OfferedTool) -> dict[str, Any]:
    definition = offered.definition
    optional = {key: definition[key] for key in ("outputSchema", "annotations") if key in definition}
    return {
        "name": offered.name,
        "description": offered.named_tool().description,
        "tags": list(offered.tool.keywords),
        "inputSchema": definition["inputSchema"],
        **optional,
        "source": offered.source.id,
        "visibility": offered.tool.visibility,
        "toolUri": _uri(names.URI_TOOL, offered.name),
        "schemaUri": _uri(names.URI_SCHEMA, offered.name),
        "usageHint": _hint(offered),
    }


def _hint(offered: OfferedTool) -> dict[str, Any]:
    text = f"{offered.name}\n{offered.named_tool().description}".lower()
    avoid = any(phrase in text for phrase in _AVOID)
    reason = (
        "The tool's name or description says that it is not meant to be used."
        if avoid
        else "Call the tool by its name with an object that fits inputSchema."
    )
    required = bool(offered.definition["inputSchema"].get("required"))
    return {"mode": "do-not-use" if avoid else "direct", "reason": reason, "requiresObjectInput": required}
