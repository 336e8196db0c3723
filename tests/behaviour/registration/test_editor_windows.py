"""The tools of a VS Code window that has the project open: in lists, calls, discovery, and when it closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import names
from support.clients.stateless_requests import events
from support.processes.timeouts import within
from support.projects.gateway import (
    Gateway,
    Project,
    codes,
    eventually,
    listed,
    listening,
    running_gateway,
    text_of,
)
from support.servers.scripted.editor_window import Json, a_tool, free_range, opened

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
TEXT: Json = {"type": "string"}
SEARCH = "copilot_searchCodebase"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path_factory.mktemp("editors")) as running:
        yield running


@pytest.fixture(scope="module")
def port(gateway: Gateway) -> int:
    """Where windows begin to look for a free port."""
    first = free_range()
    gateway.configure(f"[editors]\nport = {first}\n")
    return first


@pytest.fixture
def project(gateway: Gateway, port: int, request: pytest.FixtureRequest) -> Project:
    return gateway.project(request.node.name)


async def is_listed(project: Project, name: str) -> bool:
    return name in await listed(project.modern)


async def until_gone(project: Project, name: str) -> None:
    async def gone() -> bool:
        return not await is_listed(project, name)

    await eventually(gone, 10)


async def test_its_tools_have_their_own_names_and_real_schemas(project: Project, port: int) -> None:
    async with opened(port, project.root, tools=[a_tool(SEARCH, query=TEXT), a_tool("lm_runTask")]):
        await project.until_listed(SEARCH, "lm_runTask")
        tools = await listed(project.modern)
        schema = tools[SEARCH]["inputSchema"]
        assert schema["properties"] == {"query": TEXT} and schema["required"] == ["query"]
        assert await codes(project.modern) == []


async def test_schemas_of_later_versions_are_elsewhere(project: Project, port: int) -> None:
    async with opened(port, project.root, place="tool"):
        await project.until_listed(SEARCH)
        assert (await listed(project.modern))[SEARCH]["inputSchema"]["required"] == ["query"]


async def test_a_schema_that_cannot_be_read_is_named(project: Project, port: int) -> None:
    async with opened(port, project.root, place="nowhere"):
        await project.until_listed(SEARCH, "lm_getDiagnostics")
        assert await codes(project.modern) == ["SCHEMA_READ_FAILED"]


async def test_a_call_reaches_the_window_with_checked_arguments(project: Project, port: int) -> None:
    async with opened(port, project.root):
        assert await text_of(project.modern, SEARCH, query="x") == '{"query": "x"}'
        client = await project.legacy()
        assert await text_of(client, SEARCH, query="y") == '{"query": "y"}'
        refused = (await client.call(SEARCH, {})).result
        assert refused["isError"] and "query" in refused["content"][0]["text"]


async def test_results_pass_unchanged(project: Project, port: int) -> None:
    blocks = [{"type": "text", "text": "\u200ba"}, {"type": "image", "data": "", "mimeType": "image/png"}]
    result = {"content": blocks, "isError": True, "unknown": {"x": 1}}

    async def call(_: Json) -> Json:
        return result

    async with opened(port, project.root, tools=[a_tool("lm_x", call)]):
        answer = (await project.modern.call("lm_x", {})).result
        assert {key: answer[key] for key in result} == result


async def test_the_handshake_says_hints_and_call_tool_calls(project: Project, port: int) -> None:
    async with opened(port, project.root):
        client = await project.legacy()
        shaken = await client.call(names.HANDSHAKE, {"cwd": str(project.root)})
        bridged = {one["name"]: one["description"] for one in shaken.payload["discovery"]["bridgedTools"]}
        assert "Input: { query: string }" in bridged[SEARCH]
        called = await client.call(names.CALL_TOOL, {"name": SEARCH, "arguments": {"query": "z"}})
        assert called.result["content"][0]["text"] == '{"query": "z"}'


async def test_the_resources_about_its_tools_are_ours(project: Project, port: int) -> None:
    async with opened(port, project.root):
        uri = f"lm-tools://schema/{SEARCH}"
        read = (await project.modern.ask("resources/read", {"uri": uri})).result
        assert '"required":["query"]' in read["contents"][0]["text"]


async def test_tools_that_we_have_too_are_not_listed_twice(project: Project, port: int) -> None:
    ours = [a_tool(name) for name in ("lm_findFiles", "lm_findTextInFiles", "lm_getDiagnostics")]
    async with opened(port, project.root, tools=[*ours, a_tool(SEARCH)]):
        await project.until_listed(SEARCH, "lm_getDiagnostics")
        tools = await listed(project.modern)
        assert not [name for name in tools if "__" in name]
        assert tools["lm_findFiles"]["inputSchema"]["properties"]
        assert await codes(project.modern) == []


async def test_tools_of_the_editors_own_agent_are_never_offered(project: Project, port: int) -> None:
    async with opened(port, project.root, tools=[a_tool("copilot_applyPatch"), a_tool(SEARCH)]):
        await project.until_listed(SEARCH)
        assert "copilot_applyPatch" not in await listed(project.modern)


async def test_reserved_names_stay_ours(project: Project, port: int) -> None:
    taken = [a_tool("lmToolsBridge.callTool"), a_tool("openllm_x"), a_tool("tool_search")]
    async with opened(port, project.root, tools=[*taken, a_tool(SEARCH)]):
        await project.until_listed(SEARCH)
        assert await codes(project.modern) == ["TOOL_NAME_RESERVED"] * 3


async def test_another_folders_window_is_not_this_projects(project: Project, port: int) -> None:
    async with opened(port, project.root.parent / "another"):
        assert SEARCH not in await listed(project.modern)


async def test_a_window_that_closes_takes_its_tools_along(project: Project, port: int) -> None:
    async with opened(port, project.root) as window:
        client = await project.legacy()
        await project.until_listed(SEARCH)
        await window.close()
        refused = (await client.call(SEARCH, {"query": "x"})).result
        error = refused["structuredContent"]["error"]
        assert (error["code"], error["delivered"]) == (47109, "no")
        assert str(project.root) in error["message"] and f"port {window.port}" in error["message"]
        assert SEARCH not in await listed(client)
        later = (await client.call(SEARCH, {"query": "x"})).result["structuredContent"]["error"]
        assert later["code"] == 47109 and str(project.root) in later["message"]


async def test_a_window_that_closes_during_a_call_is_named(project: Project, port: int) -> None:
    called = asyncio.Event()

    async def hang(_: Json) -> Json:
        called.set()
        await asyncio.Event().wait()
        return {}

    async with opened(port, project.root, tools=[a_tool("lm_x", hang)]) as window:
        await project.until_listed("lm_x")
        call = asyncio.create_task(project.modern.call("lm_x", {}))
        await called.wait()
        await window.close()
        error = (await call).result["structuredContent"]["error"]
        assert (error["code"], error["delivered"]) == (47109, "unknown")
        assert str(project.root) in error["message"]


async def test_it_is_back_on_another_port_without_a_handshake(project: Project, port: int) -> None:
    async with opened(port, project.root):
        client = await project.legacy()
        assert await text_of(client, SEARCH, query="1") == '{"query": "1"}'
    async with opened(port + 3, project.root):
        await project.until_listed(SEARCH)
        assert await text_of(client, SEARCH, query="2") == '{"query": "2"}'


async def test_of_two_windows_the_other_takes_over(project: Project, port: int) -> None:
    async with opened(port, project.root) as first, opened(port, project.root) as second:
        await project.until_listed(SEARCH)
        assert await text_of(project.modern, SEARCH, query="1") == '{"query": "1"}'
        status = next(one for one in (await project.inspect())["sources"] if one["kind"] == "editor")
        assert str(second.port) in status["otherWindows"][0]
        await first.close()
        assert await text_of(project.modern, SEARCH, query="2") == '{"query": "2"}'
        methods = [one["method"] for one in second.requests]
        assert "tools/call" in methods


async def test_clients_are_told_when_a_window_opens_and_closes(project: Project, port: int) -> None:
    await project.until_listed("lm_readFile")
    async with listening(project.modern) as stream:

        async def told_until(there: bool) -> None:
            async with asyncio.timeout(within(15)):
                told = False
                while not told:
                    (event,) = await events(stream, 1)
                    assert event["method"] == names.TOOLS_CHANGED
                    told = await is_listed(project, SEARCH) is there

        async with opened(port, project.root):
            await told_until(True)
        await told_until(False)


async def test_a_tool_that_its_user_switches_off_is_gone(project: Project, port: int) -> None:
    async with opened(port, project.root, tools=[a_tool(SEARCH), a_tool("lm_x")]) as window:
        await project.until_listed("lm_x")
        del window.tools[1]
        await until_gone(project, "lm_x")
        assert await is_listed(project, SEARCH)


async def test_a_setting_of_the_project_leaves_windows_out(project: Project, port: int) -> None:
    folder = project.root / ".lm-tools-bridge"
    folder.mkdir()
    (folder / "workspace.toml").write_text("[editors]\nenabled = false\n")
    async with opened(port, project.root) as window:
        assert SEARCH not in await listed(project.modern)
        assert not window.requests  # other projects' servers may ask for its health


async def test_without_a_window_the_source_is_not_shown(project: Project) -> None:
    await listed(project.modern)
    assert not [one for one in (await project.inspect())["sources"] if one["kind"] == "editor"]


async def test_nothing_is_sent_to_a_window_that_names_another_port(project: Project, port: int) -> None:
    async with opened(port, project.root, said_port=1) as window:

        async def asked() -> bool:
            assert SEARCH not in await listed(project.modern)
            return window.asked > 0

        await eventually(asked, 10)
        assert not window.requests


def shows(path: Path, *messages: str) -> Json:
    """What a window's `lm_getDiagnostics` gives for one file."""
    items = [
        {"severity": "error", "message": one, "source": "ts", "code": 1, "startLine": 1, "startCharacter": 5,
         "endLine": 1, "endCharacter": 6, "tags": []}
        for one in messages
    ]  # fmt: skip
    files = [{"absolutePath": str(path), "workspacePath": None, "diagnostics": items}] if items else []
    return {"content": [], "structuredContent": {"source": "vscode", "capped": False, "files": files}}


async def test_problems_that_the_editor_shows_are_diagnostics(project: Project, port: int) -> None:
    file = project.root / "a.ts"
    file.write_text("let a = b\n")
    asked: list[Json] = []

    async def call(arguments: Json) -> Json:
        asked.append(arguments)
        return shows(file, "no b here")

    tools = [a_tool("lm_getDiagnostics", call, filePaths={"type": "array"}), a_tool(SEARCH)]
    async with opened(port, project.root, tools=tools):
        await project.until_listed(SEARCH, "lm_getDiagnostics")
        text = await text_of(project.modern, "lm_getDiagnostics")
        assert "source: vscode.languages.getDiagnostics" in text
        assert f"file: {project.root.name}/a.ts" in text
        assert "[error] 1:5-1:6 source=ts code=1 no b here" in text
        assert "freshness: editor: unknown" in text
        text = await text_of(project.modern, "lm_getDiagnostics", filePath=str(file))
        assert asked[-1]["filePaths"] == [str(file)] and "no b here" in text


async def test_an_editor_that_shows_nothing_is_no_proof(project: Project, port: int) -> None:
    async def call(_: Json) -> Json:
        return shows(project.root / "a.ts")

    async with opened(port, project.root, tools=[a_tool("lm_getDiagnostics", call), a_tool(SEARCH)]):
        await project.until_listed(SEARCH, "lm_getDiagnostics")
        text = await text_of(project.modern, "lm_getDiagnostics")
        assert "note: VS Code shows no problems. It does not say" in text
