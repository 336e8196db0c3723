"""Data of the third-party test server: definitions, results, resources, prompts."""

from __future__ import annotations

import base64
from typing import Any

Json = dict[str, Any]

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n of a kind").decode()
SOUND = base64.b64encode(b"RIFF of a kind").decode()
BLOB = base64.b64encode(bytes(range(32))).decode()
ODD_TEXT = 'line\nbreak\ttab \u2028 " } \\ ☕ 😀 é\x7f'
ANY = {"type": "object"}


def tool(name: str, description: str = "", schema: Json | None = None, **members: Any) -> Json:
    return {
        "name": name,
        "description": description or f"Does {name}",
        "inputSchema": schema or ANY,
        **members,
    }


def properties(required: tuple[str, ...] = (), **types: str) -> Json:
    schema: Json = {"type": "object", "properties": {key: {"type": kind} for key, kind in types.items()}}
    return schema | ({"required": list(required)} if required else {})


TOOLS: list[Json] = [
    tool("text", "Answers one text", properties(text="string")),
    tool("two_texts", "Answers two texts"),
    tool("image", "Answers an image"),
    tool("audio", "Answers a sound"),
    tool("embedded_text", "Answers a text resource"),
    tool("embedded_blob", "Answers a binary resource"),
    tool("resource_link", "Answers a link"),
    tool("mixed", "Answers blocks of several kinds"),
    tool("nothing", "Answers no content"),
    tool("structured", "Answers an object beside its text"),
    tool(
        "structured_schema",
        "Answers an object that its output schema describes",
        outputSchema={
            "type": "object",
            "properties": {"temperature": {"type": "number"}, "unit": {"type": "string"}},
            "required": ["temperature"],
            "additionalProperties": {"type": "string"},
        },
    ),
    tool("structured_list", "Answers structured content that is a list"),
    tool("is_error", "Answers a result that is an error", properties(text="string")),
    tool("rpc_error", "Answers a JSON-RPC error", properties(code="integer", message="string")),
    tool("progress", "Reports progress and logs, then answers", properties(steps="integer")),
    tool("slow", "Waits", properties(seconds="number", label="string")),
    tool("echo", "Answers what it was called with: arguments, _meta, HTTP headers"),
    tool("ledger", "Answers how often each tool started, finished and was cancelled"),
    tool("big", "Answers that many characters", properties(size="integer")),
    tool("die", "Ends the server in the middle of the call"),
    tool("change_tools", "Adds a tool, or takes it away again, and says so"),
    tool("change_prompts", "Adds a prompt, or takes it away again, and says so"),
    tool("touch", "Says that a resource changed", properties(("uri",), uri="string")),
    tool("elicit", "Asks the user for a name", properties(message="string")),
    tool("sample", "Asks for a completion", properties(prompt="string")),
    tool("roots", "Asks for the roots"),
    tool(
        "routed",
        "Wants an argument in a header as well",
        {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    ),
    tool("unknown_members", "Answers members that no revision knows", {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": {"type": "string"}}),
    tool(
        "decorated",
        "Has every member a definition may have",
        properties(("text",), text="string"),
        title="Decorated tool",
        annotations={"title": "Decorated", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
        icons=[{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
        _meta={"example.com/kind": {"deep": [1, 2]}},
    ),
]  # fmt: skip
APPEARED = tool("appeared", "Is there after change_tools")
HIDDEN = tool("hidden", "Is listed only to those who ask for everything")
CHAINED = [
    tool("tool_search", "Finds tools", properties(("query",), query="string", max_results="integer")),
    tool("execute_tool", "Calls a tool by name", properties(("name",), name="string", arguments="object")),
]
FOREIGN_DEFINITIONS: dict[str, Json] = {
    "decorated": {"x-vendor": {"a": [1, None]}, "annotations": {"vendorHint": "kept", "readOnlyHint": True}},
}
"""Members that no model knows, laid over the definitions as they leave."""
FOREIGN_RESULTS: dict[str, Json] = {
    "unknown_members": {
        "content": [
            {"type": "text", "text": "known", "x-block": {"deep": True}},
            {"type": "hologram", "data": [1, 2.5, 12345678901234567890]},
        ],
        "_meta": {"example.com/trace": "kept"},
        "x-result": {"message": "a member, no error", "nothing": None},
        "message": "success",
    },
    "structured_list": {"structuredContent": [1, "two", None]},
}
RESOURCES: list[Json] = [
    {"uri": "demo://text", "name": "text", "mimeType": "text/plain", "title": "A text", "size": 5},
    {"uri": "demo://blob", "name": "blob", "mimeType": "application/octet-stream"},
]
CONTENTS: dict[str, Json] = {
    "demo://text": {"uri": "demo://text", "mimeType": "text/plain", "text": "hello"},
    "demo://blob": {"uri": "demo://blob", "mimeType": "application/octet-stream", "blob": BLOB},
}
TEMPLATES: list[Json] = [{"uriTemplate": "demo://item/{id}", "name": "item", "mimeType": "text/plain"}]
PROMPTS: list[Json] = [
    {"name": "greet", "description": "Greets", "arguments": [{"name": "who", "required": True}]},
    {"name": "picture", "title": "With a picture"},
    {"name": "ask", "description": "Asks the user for a name"},
]
MODERN = "2026-07-28"


def text_block(text: str, **members: Any) -> Json:
    return {"type": "text", "text": text, **members}


IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
LINK = {
    "type": "resource_link",
    "uri": "demo://text",
    "name": "text",
    "title": "A link",
    "mimeType": "text/plain",
}
PLAIN: dict[str, Json] = {
    "two_texts": {"content": [text_block("first"), text_block("second", annotations={"audience": ["user"], "priority": 0.5})]},
    "image": {"content": [IMAGE]},
    "audio": {"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]},
    "embedded_text": {"content": [{"type": "resource", "resource": CONTENTS["demo://text"]}]},
    "embedded_blob": {"content": [{"type": "resource", "resource": CONTENTS["demo://blob"]}]},
    "resource_link": {"content": [LINK]},
    "mixed": {"content": [text_block("see"), IMAGE, LINK, {"type": "resource", "resource": CONTENTS["demo://blob"]}]},
    "nothing": {"content": []},
    "structured": {"content": [text_block("in words")], "structuredContent": {"in": "numbers", "deep": {"list": [1, 2.5, None]}}},
    "structured_schema": {"content": [text_block("21.5")], "structuredContent": {"temperature": 21.5, "unit": "C"}},
    "structured_list": {"content": [text_block("a list")]},
    "unknown_members": {"content": []},
    "routed": {"content": [text_block("routed")]},
    "decorated": {"content": [text_block("decorated")]},
    "appeared": {"content": [text_block("appeared")]},
    "hidden": {"content": [text_block("hidden")]},
}  # fmt: skip
