"""Data of the conformance server: the tools, prompts and resources that the official suite asks for.

Names, texts and schemas are those of the suite; `npx @modelcontextprotocol/conformance list` prints its scenarios.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
ANY: Json = {"type": "object", "properties": {}}


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def tool(name: str, description: str, schema: Json = ANY) -> Json:
    return {"name": name, "description": description, "inputSchema": schema}


def _one_string(name: str, **members: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string", **members}}, "required": [name]}


SCHEMA_2020_12: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

TOOLS: list[Json] = [
    tool("test_simple_text", "Answers a text"),
    tool("test_image_content", "Answers an image"),
    tool("test_audio_content", "Answers a sound"),
    tool("test_embedded_resource", "Answers a resource"),
    tool("test_multiple_content_types", "Answers a text, an image and a resource"),
    tool("test_error_handling", "Always fails"),
    tool("test_tool_with_logging", "Logs three messages"),
    tool("test_tool_with_progress", "Reports progress three times"),
    tool("test_logging_tool", "Logs one message"),
    tool("test_reconnection", "Closes the stream of its call before it answers"),
    tool("test_x_mcp_header", "Wants its argument in a header as well", {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}),
    tool("json_schema_2020_12_tool", "Has a schema with many keywords", SCHEMA_2020_12),
    tool("test_trigger_tool_change", "Adds a tool, or takes it away again"),
    tool("test_trigger_prompt_change", "Adds a prompt, or takes it away again"),
    tool("test_sampling", "Asks for a completion", _one_string("prompt")),
    tool("test_elicitation", "Asks the user", _one_string("message")),
    tool("test_elicitation_sep1034_defaults", "Asks the user, with defaults"),
    tool("test_elicitation_sep1330_enums", "Asks the user to choose"),
    tool("test_streaming_elicitation", "Asks the user, after progress"),
    tool("test_missing_capability", "Asks for a completion"),
    tool("test_input_required_result_elicitation", "Asks the user for a name"),
    tool("test_input_required_result_sampling", "Asks for a completion"),
    tool("test_input_required_result_list_roots", "Asks for the roots"),
    tool("test_input_required_result_request_state", "Asks, and wants its state back"),
    tool("test_input_required_result_tampered_state", "Asks, and wants its state back unchanged"),
    tool("test_input_required_result_multiple_inputs", "Asks three questions at once"),
    tool("test_input_required_result_multi_round", "Asks one question after the other"),
    tool("test_input_required_result_capabilities", "Asks what the client can answer"),
]  # fmt: skip
APPEARED_TOOL = tool("test_appeared", "Is there after test_trigger_tool_change")

IMAGE: Json = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def embedded(uri: str, mime_type: str, text: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


PLAIN: dict[str, Json] = {
    "test_simple_text": {"content": [text_block("This is a simple text response for testing.")]},
    "test_image_content": {"content": [IMAGE]},
    "test_audio_content": {"content": [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}]},
    "test_embedded_resource": {"content": [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]},
    "test_multiple_content_types": {"content": [text_block("Multiple content types test:"), IMAGE, embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')]},
    "test_error_handling": {"content": [text_block("This tool intentionally returns an error for testing")], "isError": True},
    "test_x_mcp_header": {"content": [text_block("The header says the same.")]},
    "json_schema_2020_12_tool": {"content": [text_block("The arguments are as they should be.")]},
    "test_appeared": {"content": [text_block("Here.")]},
}  # fmt: skip
"""What tools answer that do nothing else."""

RESOURCES: list[Json] = [
    {"uri": "test://static-text", "name": "static-text", "description": "A text", "mimeType": "text/plain"},
    {"uri": "test://static-binary", "name": "static-binary", "description": "An image", "mimeType": "image/png"},
    {"uri": "test://watched-resource", "name": "watched-resource", "description": "Can be subscribed to", "mimeType": "text/plain"},
]  # fmt: skip
TEMPLATES: list[Json] = [
    {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
]
CONTENTS: dict[str, Json] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}  # fmt: skip

PROMPTS: list[Json] = [
    {"name": "test_simple_prompt", "description": "A text"},
    {"name": "test_prompt_with_arguments", "description": "A text with two arguments", "arguments": [{"name": "arg1", "required": True}, {"name": "arg2", "required": True}]},
    {"name": "test_prompt_with_embedded_resource", "description": "A resource", "arguments": [{"name": "resourceUri", "required": True}]},
    {"name": "test_prompt_with_image", "description": "An image"},
    {"name": "test_input_required_result_prompt", "description": "Asks the user for a context"},
]  # fmt: skip
APPEARED_PROMPT: Json = {
    "name": "test_appeared_prompt",
    "description": "Is there after test_trigger_prompt_change",
}


def prompt_blocks(name: str, arguments: Json, answers: Json) -> list[Json]:
    """The contents of a prompt's messages; `answers` are what its questions were answered with."""
    match name:
        case "test_prompt_with_arguments":
            said = f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            return [text_block(said)]
        case "test_prompt_with_embedded_resource":
            uri = str(arguments.get("resourceUri"))
            resource = embedded(uri, "text/plain", "Embedded resource content for testing.")
            return [resource, text_block("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            return [IMAGE, text_block("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            return [text_block(f"The context is {answers['user_context']}")]
        case _:
            return [text_block("This is a simple prompt for testing.")]
