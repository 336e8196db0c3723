"""The first list of a client: what is known at once for those that go on, all of it for those that wait."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import SessionClient
from support.projects.gateway import Project, listed, running_gateway
from support.servers.mcp_sources.stdio_servers import program

pytestmark = pytest.mark.processes

META_TOOLS = {"tool_search", "execute_tool"}
PROMPTS = """
initialize_result["capabilities"]["prompts"] = {}
def other(m):
    if m.get("method") == "prompts/list": answer(m["id"], {"prompts": [{"name": "ask"}]})
"""


@dataclass
class SlowProject:
    """A trusted project with a server that starts only when the test opens its gate."""

    project: Project
    gate: Path

    async def client(self, name: str) -> SessionClient:
        """A session of a client that calls itself so."""
        client = SessionClient(self.project.gateway.http, self.project.url)
        me = {"name": name, "version": "1"}
        params = {"protocolVersion": client.revision, "capabilities": {}, "clientInfo": me}
        answer = await client.ask(names.INITIALIZE, params)
        client.session = answer.headers[headers.SESSION]
        return client

    def open(self) -> None:
        self.gate.touch()

    async def kill_server(self) -> None:
        """End the project's own server at once, and wait until the manager knows."""
        pid = await self._server_pid()
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            while await self._server_pid() == pid:
                await asyncio.sleep(0.05)

    async def _server_pid(self) -> int:
        gateway = self.project.gateway
        async with gateway.http.get(gateway.manager.base + "/mcp/status") as response:
            instances = (await response.json())["instanceDetails"]
        return int(instances[0]["pid"] or 0) if instances else 0


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[SlowProject]:
    gate = tmp_path / "gate"
    body = f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n{PROMPTS}serve(echo)"
    command, *arguments = program(body)
    assert command == sys.executable
    async with running_gateway(tmp_path, has_file_tools="no") as gateway:
        project = gateway.project("slow")
        project.servers(slow={"command": command, "args": arguments})
        await project.trust()
        yield SlowProject(project, gate)


async def test_a_client_that_goes_on_gets_what_is_known_and_a_way_to_the_rest(slow: SlowProject) -> None:
    """Codex never lists again."""
    client = await slow.client("codex-mcp-client")
    async with asyncio.timeout(5):
        shown = await listed(client)
    assert "lm_readFile" in shown
    assert shown.keys() >= {"search_project_tools", "execute_tool"}
    assert not {"tool_search", "slow__echo"} & shown.keys(), "Codex has a tool_search of its own"
    asked = asyncio.create_task(client.call("execute_tool", {"name": "slow__echo", "arguments": {"n": 1}}))
    searched = [
        asyncio.create_task(client.call(name, {"query": "echo"}))
        for name in ("tool_search", "search_project_tools")
    ]
    slow.open()
    async with asyncio.timeout(20):
        assert '"n": 1' in (await asked).result["content"][0]["text"]
        for search in searched:
            assert "slow__echo" in (await search).result["content"][0]["text"]
    unknown = await client.call("execute_tool", {"name": "nobody"})
    assert "Use search_project_tools to discover" in unknown.result["content"][0]["text"]


@pytest.mark.parametrize("name", ["claude-code", "somebody"])
async def test_what_a_client_was_shown_does_not_vanish_when_all_servers_are_there(
    slow: SlowProject, name: str
) -> None:
    """A model goes on to use it, and its client refuses tools that are not in the list."""
    client = await slow.client(name)
    assert (await listed(client)).keys() >= META_TOOLS
    slow.open()
    await slow.project.until_listed("slow__echo")
    assert (await listed(client)).keys() >= META_TOOLS | {"slow__echo"}
    await slow.kill_server()
    assert (await listed(client)).keys() >= META_TOOLS | {"slow__echo"}, "nor with the next process"
    later = await slow.client("opencode")
    assert not META_TOOLS & (await listed(later)).keys(), "who was never shown them needs none"


async def test_a_client_that_never_lists_again_reaches_tools_that_come_later(slow: SlowProject) -> None:
    slow.open()
    await slow.project.until_listed("slow__echo")
    client = await slow.client("codex-mcp-client")
    shown = await listed(client)
    assert META_TOOLS & shown.keys() == {"execute_tool"}
    slow.project.gateway.user_tool("late", "print('here')")
    hits = await client.call("execute_tool", {"name": "tool_search", "arguments": {"query": "late"}})
    assert json.loads(hits.result["content"][0]["text"])[0]["name"] == "late"
    answer = await client.call("execute_tool", {"name": "late"})
    assert answer.result["content"][0]["text"] == "here"


@pytest.mark.always
async def test_a_client_that_waits_gets_everything_in_its_first_list(slow: SlowProject) -> None:
    client = await slow.client("gemini-cli-mcp-client")
    asking = asyncio.create_task(listed(client))
    asyncio.get_running_loop().call_later(2.5, slow.open)  # longer than any other list waits
    async with asyncio.timeout(20):
        shown = await asking
    assert {"lm_readFile", "slow__echo"} <= shown.keys()
    assert META_TOOLS & shown.keys() == {"execute_tool"}, "for what comes after it has lost its stream"


async def test_its_other_lists_are_complete_as_well(slow: SlowProject) -> None:
    client = await slow.client("gemini-cli-mcp-client")
    asking = asyncio.create_task(client.ask(names.PROMPTS_LIST, {}))
    asyncio.get_running_loop().call_later(2.5, slow.open)  # longer than any other list waits
    async with asyncio.timeout(20):
        shown = await asking
    assert [one["name"] for one in shown.result["prompts"]] == ["slow__ask"]


async def test_a_call_by_name_waits_for_the_start_of_its_server_with_progress(slow: SlowProject) -> None:
    client = await slow.client("other")
    body = client.body(
        names.TOOLS_CALL, {"name": "slow__echo", "arguments": {}, "_meta": {"progressToken": "p"}}, 7
    )
    async with asyncio.timeout(20), client.open(body) as response:
        async for line in response.content:
            if names.PROGRESS.encode() in line:
                break
        assert b'"progressToken":"p"' in line
        slow.open()
        rest = await response.read()
    assert b'"result"' in rest


async def test_a_late_list_is_announced_to_a_client_that_listens(slow: SlowProject) -> None:
    client = await slow.client("other")
    assert "slow__echo" not in await listed(client)
    async with client.stream() as stream:
        slow.open()
        async with asyncio.timeout(20):
            async for line in stream.content:
                if names.TOOLS_CHANGED.encode() in line:
                    break
    assert "slow__echo" in await listed(client)


async def test_a_tools_own_time_limit_is_longer_than_that_of_registered_servers(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, call_timeout_s=0.2) as gateway:
        project = gateway.project("patient")
        project.tool("slow", "import time; time.sleep(0.6); print('done')\n", toml="timeout_s = 20\n")
        await project.trust()
        answer = await project.modern.call("slow")
    assert "done" in answer.result["content"][0]["text"]


SILENT = program("serve(lambda m: time.sleep(20))")
"""A server that answers no call."""


def slow_script(project: Project) -> tuple[str, str]:
    folder = project.tool("late", "import time; time.sleep(20)\n", toml="timeout_s = 1\n")
    return "late", f"timeout_s in {folder / 'tool.toml'}"


def slow_server(project: Project) -> tuple[str, str]:
    project.servers(late={"command": SILENT[0], "args": SILENT[1:], "timeout": 1000})
    return "late__echo", f"timeout (in milliseconds) of late in {project.root / '.mcp.json'}"


def slow_server_of_the_user(project: Project) -> tuple[str, str]:
    entry = f"[[mcp.stdio_servers]]\nnamespace = 'late'\ntimeout_s = 1\ncommand = {json.dumps(SILENT)}\n"
    project.gateway.configure(entry)
    return "late__echo", f"timeout_s of late in {project.gateway.config / 'workspace.toml'}"


@pytest.mark.parametrize("kind", [slow_script, slow_server, slow_server_of_the_user])
async def test_a_call_that_takes_too_long_names_the_setting_and_its_file(
    tmp_path: Path, kind: Callable[[Project], tuple[str, str]]
) -> None:
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("impatient")
        tool, setting = kind(project)
        await project.trust()
        answer = await project.modern.call(tool)
    text = answer.result["content"][0]["text"]
    assert f"ask for less in one call, or raise {setting}" in text
