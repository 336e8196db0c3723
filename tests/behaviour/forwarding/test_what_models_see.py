"""Models get all of a result once, whichever part a server put it into, under names that their client takes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Client, SessionClient, StatelessClient
from support.projects.gateway import Project, listed, running_gateway
from support.servers.mcp_sources.stdio_servers import program

pytestmark = pytest.mark.processes

LONG = "create_pull_request_review_comment_reply"
SERVER = f"""
def call(m): answer(m["id"], m["params"]["arguments"])
tools[:] = [{{"name": name, "inputSchema": {{"type": "object"}}}} for name in ("echo", "promising", "{LONG}")]
tools[1]["outputSchema"] = {{"type": "object"}}
serve(call)
"""
FOUND = {"files": 3}
WORDS = {"type": "text", "text": "Three files, one of them empty."}


class NamedStateless(StatelessClient):
    """A stateless client that says who it is."""

    name = ""

    def body(self, method: str, params: dict[str, Any] | None, identity: Any) -> bytes:
        me = {names.META_CLIENT: {"name": self.name, "version": "1"}}
        return super().body(method, {**(params or {}), "_meta": me}, identity)


class NamedSession(SessionClient):
    """A client with a session that passes names of tools on to model APIs."""

    name = "continue-cli-client"


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with running_gateway(tmp_path, **getattr(request, "param", {})) as gateway:
        project = gateway.project("proj")
        command, *arguments = program(SERVER)
        project.servers(theirs={"command": command, "args": arguments})
        await project.trust()
        await project.until_listed("theirs__echo")
        yield project


async def client_of(project: Project, name: str, era: str) -> Client:
    if era == "session":
        return await project.session_of(name)
    client = NamedStateless(project.gateway.http, project.url)
    client.name = name
    return client


async def result_of(client: Client, tool: str = "theirs__echo", **result: Any) -> dict[str, Any]:
    """What the client gets of a server's result; the same the second and third time, by the route cache."""
    answers = [(await client.call(tool, result)).result for _ in range(3)]
    for answer in answers:
        answer.pop("resultType", None)
        answer.pop("_meta", None)
        assert answer == answers[0]
    return answers[0]


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_result_without_text_has_text_for_a_client_that_shows_only_text(
    project: Project, era: str
) -> None:
    client = await client_of(project, "gemini-cli-mcp-client", era)
    result = await result_of(client, content=[], structuredContent=FOUND)
    assert result == {"content": [{"type": "text", "text": json.dumps(FOUND)}], "structuredContent": FOUND}


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_text_reaches_a_client_that_shows_structured_content_instead(
    project: Project, era: str
) -> None:
    client = await client_of(project, "claude-code", era)
    result = await result_of(client, content=[WORDS], structuredContent=FOUND)
    assert result == {"content": [WORDS, {"type": "text", "text": json.dumps(FOUND)}]}


@pytest.mark.parametrize("era", ["session", "stateless"])
@pytest.mark.parametrize("tool", ["theirs__echo", "theirs__promising"])
async def test_structured_content_that_a_text_lacks_reaches_a_client_that_shows_only_text(
    project: Project, era: str, tool: str
) -> None:
    client = await client_of(project, "gemini-cli-mcp-client", era)
    result = await result_of(client, tool, content=[WORDS], structuredContent=FOUND)
    content = [WORDS, {"type": "text", "text": json.dumps(FOUND)}]
    assert result == {"content": content, "structuredContent": FOUND}


@pytest.mark.parametrize(("name", "era"), [("opencode", "session"), ("copilot-cli", "stateless")])
async def test_a_bare_link_is_named_for_a_client_that_drops_links(
    project: Project, name: str, era: str
) -> None:
    client = await client_of(project, name, era)
    link = {"type": "resource_link", "uri": "file:///r.md", "name": "report", "description": "All of it"}
    line = {"type": "text", "text": "Resource link: report at file:///r.md (All of it)"}
    assert await result_of(client, content=[link]) == {"content": [link, line]}
    alone = await client_of(project, "claude-code", era)
    assert await result_of(alone, content=[link]) == {"content": [link]}


async def test_results_that_are_complete_stay_as_they_are(project: Project) -> None:
    gemini, claude, unknown = [
        await client_of(project, name, "session")
        for name in ("gemini-cli-mcp-client", "claude-code", "somebody")
    ]
    said = {"type": "text", "text": "There are 3 files."}
    both = {"content": [said], "structuredContent": FOUND}
    assert await result_of(gemini, **both) == both
    silent = {"content": [], "structuredContent": FOUND}
    assert await result_of(unknown, **silent) == silent
    alone = {"content": [], "structuredContent": FOUND}
    assert await result_of(claude, **alone) == alone


@pytest.mark.parametrize("era", ["session", "stateless"])
@pytest.mark.parametrize("name", ["somebody", "Visual Studio Code", "cursor-vscode", "grok-shell-x", ""])
async def test_a_missing_part_stays_missing_for_a_client_that_was_not_measured(
    project: Project, name: str, era: str
) -> None:
    client = await client_of(project, name, era)
    silent = {"content": [], "structuredContent": FOUND}
    assert await result_of(client, **silent) == silent
    assert await result_of(client, structuredContent=FOUND) == silent
    assert await result_of(client, content=[WORDS]) == {"content": [WORDS]}
    link = {"type": "resource_link", "uri": "file:///r.md", "name": "report"}
    for content in ([link], [WORDS, link]):
        both = {"content": content, "structuredContent": FOUND}
        assert await result_of(client, **both) == both


@pytest.mark.parametrize("project", [{"model_sees": "gemini*=both, mine=structured"}], indirect=True)
async def test_a_user_can_say_what_a_client_shows(project: Project) -> None:
    gemini, mine = [await client_of(project, name, "session") for name in ("gemini-cli-mcp-client", "mine")]
    alone = {"content": [], "structuredContent": FOUND}
    assert await result_of(gemini, **alone) == alone
    assert "structuredContent" not in await result_of(mine, content=[WORDS], structuredContent=FOUND)


async def names_of(client: Client) -> set[str]:
    return set(await listed(client))


@pytest.mark.parametrize("project", [{"has_file_tools": "no"}], indirect=True)
@pytest.mark.parametrize("name", ["codex-mcp-client", "copilot-cli"])
async def test_a_file_reaches_a_model_that_may_see_both_parts_once(project: Project, name: str) -> None:
    client = await client_of(project, name, "session")
    (project.root / "a.txt").write_text("only once")
    assert "outputSchema" not in (await listed(client))["lm_readFile"]
    result = (await client.call("lm_readFile", {"filePath": "a.txt"})).result
    assert json.dumps(result).count("only once") == 1
    other = await client_of(project, "claude-code", "session")
    assert "structuredContent" in (await other.call("lm_readFile", {"filePath": "a.txt"})).result


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_client_that_refuses_double_underscores_has_all_tools(project: Project, era: str) -> None:
    client = await client_of(project, "grok-shell-lm-tools-bridge", era)
    shown = await names_of(client)
    assert "theirs_promising" in shown
    assert not [name for name in shown if "__" in name]
    said = {"content": [WORDS]}
    for name in ("theirs_promising", "theirs__promising"):
        assert await result_of(client, name, **said) == said


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_client_that_cuts_long_names_has_short_ones(project: Project, era: str) -> None:
    client = await client_of(project, "gemini-cli-mcp-client", era)
    (short,) = [name for name in await names_of(client) if name.startswith("theirs__create")]
    assert len(short) == 43
    said = {"content": [WORDS]}
    assert (
        await result_of(client, short, **said) == await result_of(client, f"theirs__{LONG}", **said) == said
    )


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_client_without_a_workspace_that_passes_names_on_has_names_without_dots(
    project: Project, era: str
) -> None:
    http, shared = project.gateway.http, project.gateway.manager.address
    if era == "session":
        client: Client = await NamedSession.connect(http, shared)
    else:
        client = NamedStateless(http, shared)
        client.name = NamedSession.name
    handshake, call = "lmToolsBridge_requestWorkspaceMCPServer", "lmToolsBridge_callTool"
    assert {handshake, call} <= await names_of(client)
    answer = (await client.call(handshake, {"cwd": str(project.root)})).result
    workspace = answer["structuredContent"]["workspace"]
    asked = {"name": "theirs__promising", "arguments": {"content": [WORDS]}, "workspace": workspace}
    assert (await client.call(call, asked)).result["content"] == [WORDS]
    assert not [name for name in await names_of(client) if "." in name]
