"""Tests of the manager's own tools and resources, with the exact texts that clients rely on."""

from __future__ import annotations

import re

import pytest
from mcp_types.methods import validate_server_result

from manager.routing.discovery.own_tools import (
    CALL_TOOL,
    CALL_TOOL_TEXT,
    HANDSHAKE_TOOL,
    MANAGER_RESOURCES,
    MANAGER_TEMPLATES,
    MANAGER_TOOLS,
)


def test_the_handshake_comes_first() -> None:
    assert [tool["name"] for tool in MANAGER_TOOLS] == [
        "lmToolsBridge.requestWorkspaceMCPServer",
        "lmToolsBridge.callTool",
    ]


def test_handshake_takes_one_cwd() -> None:
    schema = HANDSHAKE_TOOL["inputSchema"]
    assert (schema["type"], schema["required"]) == ("object", ["cwd"])
    assert list(schema["properties"]) == ["cwd"]
    assert schema["properties"]["cwd"]["type"] == "string"
    assert schema["properties"]["cwd"]["description"]
    assert HANDSHAKE_TOOL["description"].endswith(". Input: { cwd: string }.")


def test_call_tool_takes_a_call_and_optionally_a_workspace() -> None:
    schema = CALL_TOOL["inputSchema"]
    assert {name: member["type"] for name, member in schema["properties"].items()} == {
        "name": "string",
        "arguments": "object",
        "workspace": "string",
        "cwd": "string",
    }
    assert schema["required"] == ["name"]
    assert CALL_TOOL["description"].endswith(
        " Input: { name: string, arguments?: object, workspace?: string, cwd?: string }."
    )
    assert re.search(r"handle .*stays valid while the folder exists", CALL_TOOL["description"])


@pytest.mark.parametrize("tool", MANAGER_TOOLS, ids=lambda tool: tool["name"])
def test_no_manager_tool_has_an_output_schema(tool: dict[str, object]) -> None:
    assert "outputSchema" not in tool


def test_resources_and_templates_are_the_same_two() -> None:
    assert [(one["uri"], one["name"], one["mimeType"]) for one in MANAGER_RESOURCES] == [
        ("lm-tools-bridge://handshake", "MCP manager handshake", "text/plain"),
        ("lm-tools-bridge://callTool", "MCP manager direct tool call", "text/plain"),
    ]
    assert [one["uriTemplate"] for one in MANAGER_TEMPLATES] == [one["uri"] for one in MANAGER_RESOURCES]
    assert all("uri" not in one for one in MANAGER_TEMPLATES)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_all_definitions_fit_the_official_models(revision: str) -> None:
    validate_server_result("tools/list", revision, {"tools": list(MANAGER_TOOLS)})
    validate_server_result("resources/list", revision, {"resources": list(MANAGER_RESOURCES)})
    validate_server_result(
        "resources/templates/list", revision, {"resourceTemplates": list(MANAGER_TEMPLATES)}
    )


def test_the_call_tool_text_shows_name_input_and_example() -> None:
    lines = CALL_TOOL_TEXT.splitlines()
    assert "lmToolsBridge.callTool" in lines[0]
    assert lines[1] == "Input: { name: string, arguments?: object, workspace?: string, cwd?: string }"
    assert lines[3].startswith('{"name":"lmToolsBridge.callTool","arguments":{"name":')
