"""A successful handshake: ways to call it, its result, its effects."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import EVENTS, JSON
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer, held, result

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
TOOLS = [
    {"name": "beta", "description": "Second", "inputSchema": {"properties": {"q": {"type": "string"}}}},
    {"name": "Alpha", "description": "First.", "inputSchema": {"properties": {"n": {"type": "integer"}}}},
]


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path.resolve()) as running:
        running.upstream.tools = TOOLS
        yield running


@ERAS
async def test_the_manager_s_two_tools_come_first(setup: RegisteredSetup, era: str) -> None:
    """With these schemas, hints and nothing else that a client could misread."""
    client = await setup.legacy() if era == "legacy" else setup.modern(pure=False)
    listed = (await client.ask(names.TOOLS_LIST)).result["tools"]
    handshake, call_tool = listed[:2]
    assert [tool["name"] for tool in listed[2:]] == (["beta", "Alpha"] if era == "legacy" else [])
    assert handshake["name"] == "lmToolsBridge.requestWorkspaceMCPServer"
    described = handshake["inputSchema"]["properties"]["cwd"].pop("description")
    assert isinstance(described, str)
    assert handshake["inputSchema"] == {
        "type": "object",
        "properties": {"cwd": {"type": "string"}},
        "required": ["cwd"],
    }
    assert handshake["description"].endswith("Input: { cwd: string }.")
    assert call_tool["name"] == "lmToolsBridge.callTool"
    assert call_tool["description"].endswith(
        "Input: { name: string, arguments?: object, workspace?: string, cwd?: string }."
    )
    assert call_tool["inputSchema"]["required"] == ["name"]
    types = {key: sub["type"] for key, sub in call_tool["inputSchema"]["properties"].items()}
    assert types == {"name": "string", "arguments": "object", "workspace": "string", "cwd": "string"}
    assert "outputSchema" not in handshake
    assert "outputSchema" not in call_tool


@ERAS
@pytest.mark.parametrize(
    "name",
    ["lmToolsBridge.requestWorkspaceMCPServer", "requestWorkspaceMCPServer", "lmToolsBridge.bindWorkspace"],
)
async def test_the_tool_answers_to_both_names(setup: RegisteredSetup, era: str, name: str) -> None:
    """Unknown further arguments are ignored."""
    client = await setup.legacy(bound=False) if era == "legacy" else setup.modern(pure=False)
    answer = await client.call(name, {"cwd": str(setup.upstream.root), "later": {"unknown": 1}})
    assert answer.payload["ok"] is True
    assert ("mcpSessionId" in answer.payload) == (era == "legacy")
    assert answer.headers[headers.WORKSPACE_SOURCE] == "argument"
    assert answer.headers[headers.WORKSPACE_ID] == answer.payload["workspace"]


@pytest.mark.parametrize("method", ["lmToolsBridge.requestWorkspaceMCPServer", "requestWorkspaceMCPServer"])
async def test_the_bare_method_answers_the_payload_itself(setup: RegisteredSetup, method: str) -> None:
    """Legacy only; a refusal is a JSON-RPC error."""
    client = await setup.legacy(bound=False)
    bare = (await client.ask(method, {"cwd": str(setup.upstream.root)})).result
    wrapped = (await client.handshake(setup.upstream.root)).payload
    assert bare == wrapped
    refused = await client.ask(method, {"cwd": "relative"})
    assert (refused.status, refused.error["code"]) == (200, -32602)
    assert refused.error["data"]["reason"] == "invalid_cwd"
    assert (await client.ask(method)).error["data"]["reason"] == "invalid_arguments"
    modern = await setup.modern(pure=False).ask(method, {"cwd": str(setup.upstream.root)})
    assert (modern.status, modern.error["code"]) == (404, -32601)


async def test_the_payload_has_workspace_target_health_and_guidance(setup: RegisteredSetup) -> None:
    client = await setup.legacy(bound=False)
    deep = setup.upstream.root / "src" / "deep"
    deep.mkdir(parents=True)
    (setup.upstream.root / "link").symlink_to(deep)
    answer = await client.handshake(setup.upstream.root / "link")
    payload = answer.payload
    assert payload.keys() == {
        *("ok", "mcpSessionId", "workspace", "cwd", "target", "online", "health", "discovery", "guidance")
    }
    assert payload["ok"] is payload["online"] is True
    assert payload["mcpSessionId"] == client.session == answer.headers[headers.SESSION]
    assert payload["cwd"] == str(deep)
    assert payload["target"] == {
        "sessionId": setup.upstream.session_id,
        "host": "127.0.0.1",
        "port": setup.upstream.port,
        "workspaceFolders": [str(setup.upstream.root)],
        "workspaceFile": None,
    }
    assert payload["health"] == {
        "ok": True,
        "status": 200,
        "data": {"ok": True, "extra": {"kept": [1, None]}},
    }
    assert payload["discovery"]["bridgedTools"] == [
        {"name": "Alpha", "description": "First. Input: { n?: integer }."},
        {"name": "beta", "description": "Second. Input: { q?: string }."},
    ]
    assert payload["discovery"]["resourceTemplates"] == [
        {"name": "Tool URI template", "uriTemplate": "lm-tools://tool/{name}"},
        {"name": "Schema URI template", "uriTemplate": "lm-tools://schema/{name}"},
    ]
    listed = (await client.ask(names.TOOLS_LIST)).result["tools"][1]
    assert payload["discovery"]["callTool"] == {
        key: listed[key] for key in ("name", "description", "inputSchema")
    }
    steps = payload["guidance"]["nextSteps"]
    assert payload["workspace"] in steps[0]
    assert any("lm-tools://schema/{name}" in step for step in steps)
    assert not {setup.upstream.nonce, setup.upstream.secret} & set(answer.body.decode().split('"'))


@ERAS
async def test_the_text_repeats_the_payload_line_by_line(setup: RegisteredSetup, era: str) -> None:
    setup.upstream.tools = [*TOOLS, {"name": "lmToolsBridge.callTool"}, {"name": " "}]
    client = await setup.legacy(bound=False) if era == "legacy" else setup.modern(pure=False)
    answer = await client.handshake(setup.upstream.root)
    payload = answer.payload
    (content,) = answer.result["content"]
    assert content["type"] == "text"
    assert content["text"].split("\n") == [
        "Workspace handshake summary",
        "ok: true",
        f"workspace: {payload['workspace']}",
        f"cwd: {setup.upstream.root}",
        f"target: 127.0.0.1:{setup.upstream.port}",
        "workspaceFolders: 1",
        "online: true",
        "discovery.partial: false",
        "bridgedTools: 2",
        "tools:",
        "  - Alpha",
        "  - beta",
        "Issues:",
        "- [warning][tools/list][TOOL_ENTRY_INVALID] an entry of tools/list was dropped",
        "- [warning][tools/list][TOOL_NAME_RESERVED][lmToolsBridge.callTool] reserved tool name dropped",
        "Guidance:",
        "  nextSteps:",
        *(f"  - {step}" for step in payload["guidance"]["nextSteps"]),
    ]


async def test_the_text_of_a_workspace_without_tools(setup: RegisteredSetup) -> None:
    setup.upstream.tools = []
    client = await setup.legacy(bound=False)
    text = (await client.handshake(setup.upstream.root)).result["content"][0]["text"]
    assert "\nbridgedTools: 0\ntools:\n  (none)\nIssues: none\nGuidance:\n" in text


@pytest.mark.parametrize(("accept", "is_stream"), [(EVENTS, True), (JSON, False), (None, False)])
async def test_the_form_of_the_answer(setup: RegisteredSetup, accept: str | None, is_stream: bool) -> None:
    """One JSON object an event, the stream ends after the result, no `[DONE]`."""
    client = await setup.legacy(bound=False, accept=accept)
    answer = await client.handshake(setup.upstream.root)
    assert answer.is_stream == is_stream
    assert answer.payload["ok"] is True
    assert b"[DONE]" not in answer.body
    if is_stream:
        _priming, *frames = answer.body.removesuffix(b"\n\n").split(b"\n\n")
        form = rb'id: [\w.-]+\nevent: message\ndata: \{"jsonrpc":"2\.0",.*\}'
        assert all(re.fullmatch(form, frame) for frame in frames)
        assert len(frames) == len(answer.messages)


async def test_every_handshake_checks_the_servers_health(setup: RegisteredSetup) -> None:
    """A real request, not what was known before."""
    client = await setup.legacy(bound=False)
    for _ in range(3):
        before = setup.upstream.health_asked
        await client.handshake(setup.upstream.root)
        assert setup.upstream.health_asked > before


async def test_a_second_handshake_rebinds_and_keeps_pending_calls(
    setup: RegisteredSetup, tmp_path: Path
) -> None:
    """Idempotent for the same workspace; another one moves the binding, not what is under way."""
    other_root = tmp_path.resolve() / "other"
    other_root.mkdir()
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = held(gate, result({"content": [], "from": "first"}))
    async with ScriptedWorkspaceServer(other_root, setup.manager.paths.control_socket).serving() as other:
        other.answers["slow"] = result({"content": [], "from": "other"})
        client = await setup.legacy()
        first = (await client.handshake(setup.upstream.root)).payload
        assert (await client.handshake(setup.upstream.root)).payload == first
        under_way = asyncio.create_task(client.call("slow"))
        await setup.upstream.arrival("slow")
        assert (await client.handshake(other_root)).payload["workspace"] != first["workspace"]
        assert (await client.call("slow")).result["from"] == "other"
        gate.set()
        assert (await under_way).result["from"] == "first"
        assert (await client.call(names.CALL_TOOL, {"name": "slow"})).result["from"] == "other"


async def test_a_stateless_handshake_binds_nothing(setup: RegisteredSetup) -> None:
    """The guidance shows the handle, which the next call must carry."""
    client = setup.modern(pure=False)
    payload = (await client.handshake(setup.upstream.root)).payload
    assert f'"workspace": "{payload["workspace"]}"' in payload["guidance"]["nextSteps"][0]
    assert (await client.call(names.CALL_TOOL, {"name": "x"})).refusal["code"] == 47100
    assert (await client.call("x")).refusal["code"] == 47100
    handle = {"name": "x", "workspace": payload["workspace"]}
    assert (await client.call(names.CALL_TOOL, handle)).result["content"]
    listed = (await client.ask(names.TOOLS_LIST)).result["tools"]
    assert [tool["name"] for tool in listed] == [names.HANDSHAKE, names.CALL_TOOL]
