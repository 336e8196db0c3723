"""Words the part of the system prompt that tells a model its tools, and how to call them in text. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.agent.messages import Call, Tool
from lm_tools_bridge.agent.providers.dialects.dialect import schema_of
from lm_tools_bridge.agent.providers.dialects.schema_changes import referred

_SAMPLE_TOOL: Final = "calculator"
_SAMPLE: Final[Mapping[str, Any]] = {"expression": "2 + 2"}
_PLACEHOLDERS: Final[Mapping[str, Any]] = {
    "string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None,
}  # fmt: skip


def tools_block(tools: Sequence[Tool]) -> str:
    """The tools with their schemas, and a sample of a call; empty if there are no tools."""
    if not tools:
        return ""
    described = "\n\n".join(_described(tool) for tool in tools)
    sample = next((tool for tool in tools if tool.name == _SAMPLE_TOOL), tools[0])
    arguments = _SAMPLE if sample.name == _SAMPLE_TOOL else _placeholders(schema_of(sample))
    block = tag(sample.name, arguments)
    return f"Available tools:\n\n{described}\n\nTo use a tool, respond with:\n{block}"


def tag(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a model writes it."""
    return f"<tool>\n{_json({'name': name, 'arguments': arguments})}\n</tool>"


def with_calls(text: str, calls: Sequence[Call]) -> str:
    """A reply as the model wrote it: its text, then its calls."""
    return "\n\n".join([*([text] if text else []), *(tag(call.name, call.arguments or {}) for call in calls)])


def _described(tool: Tool) -> str:
    head = f"{tool.name}: {tool.description}" if tool.description else f"{tool.name}:"
    return f"{head}\nInput schema: {_json(schema_of(tool))}"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _placeholders(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each required argument, or for each if none is required."""
    properties = schema.get("properties")
    members = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    names = [name for name in required if name in members] if isinstance(required, list) else []
    return {name: _placeholder(members[name], schema) for name in names or members}


def _placeholder(part: object, root: Mapping[str, Any]) -> Any:
    if isinstance(part, Mapping) and "$ref" in part:
        part = referred(root, part["$ref"])
    if not isinstance(part, Mapping):
        return _PLACEHOLDERS["string"]
    if "const" in part:
        return part["const"]
    values = part.get("enum")
    if isinstance(values, list) and values:
        return values[0]
    kind = part.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return _PLACEHOLDERS.get(kind, _PLACEHOLDERS["string"]) if isinstance(kind, str) else "text"
