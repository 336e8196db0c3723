"""The agent's session survives restarts of the manager, and its calls run at most once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from lm_tools_bridge.agent.manager_client.elicitation import Elicitation
from lm_tools_bridge.agent.manager_client.session import Started, start_manager
from lm_tools_bridge.agent.manager_client.source import ManagerSource
from support.clients.scripted_person import ScriptedPerson
from support.processes.managers import manager_process
from support.processes.managers.manager_in_process import make_project
from support.projects.gateway import eventually
from support.projects.script_tools import write_tool

pytestmark = pytest.mark.processes


class Nobody:
    async def approve(self, *_: object) -> bool:
        return False


def source_at(address: str, root: Path, http: aiohttp.ClientSession, **options: object) -> ManagerSource:
    elicitation = Elicitation(ScriptedPerson(), Nobody())
    members = {"start": None, **options}
    return ManagerSource(address, str(root), elicitation, http, **members)


async def names_of(source: ManagerSource) -> list[str]:
    return [tool.name for tool in await source.list_tools()]


async def test_calls_go_on_after_a_restart_at_the_same_address(tmp_path: Path) -> None:
    root = make_project(tmp_path / "proj")
    write_tool(tmp_path / "config/tools", "greet", "print('Hello')")
    async with aiohttp.ClientSession() as http:
        with manager_process.running_manager(tmp_path) as first:
            source = source_at(first.address, root, http)
            assert "greet" in await names_of(source)
            port = first.address.rpartition(":")[2].removesuffix("/mcp")
            first.stop()
        assert await names_of(source) == []
        assert "lmtb up" in source.state().detail
        absent = await source_at(first.address, root, http, absent_s=0.5).call("greet", {}, print)
        assert (absent.is_error, absent.delivered) == (True, False)
        assert absent.content[0]["text"].startswith("Error: Tool call failed: the manager at http://")
        assert absent.content[0]["text"].endswith("Next step: run lmtb up, then call again")
        with manager_process.running_manager(tmp_path, env={"LMTB_HTTP_PORT": port}):

            async def works() -> bool:
                return "greet" in await names_of(source)

            await eventually(works, 20)
            outcome = await source.call("greet", {}, print)
            assert outcome.content == [{"type": "text", "text": "Hello"}]
            await source.close()


async def test_a_forgotten_session_is_opened_again_and_the_call_runs_once(tmp_path: Path) -> None:
    root, runs = make_project(tmp_path / "proj"), tmp_path / "proj" / "runs"
    script = "import pathlib\nwith pathlib.Path('runs').open('a') as file:\n    file.write('x')\nprint('ran')"
    write_tool(tmp_path / "config/tools", "count", script)
    async with aiohttp.ClientSession() as http:
        with manager_process.running_manager(tmp_path) as running:
            source = source_at(running.address, root, http)
            await names_of(source)
            session = source.session_id
            assert session is not None
            async with http.delete(running.address, headers={"Mcp-Session-Id": session}) as ended:
                assert ended.status < 300
            outcome = await source.call("count", {}, print)
            assert outcome.content == [{"type": "text", "text": "ran"}]
            assert runs.read_text() == "x"
            assert source.session_id != session
            await source.close()


async def test_a_manager_that_is_not_there_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_project(tmp_path / "proj")
    for name, value in manager_process.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    write_tool(tmp_path / "config/tools", "greet", "print('Hello')")
    async with aiohttp.ClientSession() as http:
        source = source_at("http://127.0.0.1:9/mcp", root, http, start=start_manager, may_move=True)
        try:

            async def works() -> bool:
                return "greet" in await names_of(source)

            await eventually(works, 30)
        finally:
            await source.close()
            manager_process.lmtb(manager_process.environment(tmp_path), "stop")
    assert not manager_process.left_after_stop(manager_process.environment(tmp_path))


async def test_a_manager_that_is_killed_in_a_session_is_started_again_once(tmp_path: Path) -> None:
    root = make_project(tmp_path / "proj")
    starts: list[str] = []
    async with AsyncExitStack() as managers, aiohttp.ClientSession() as http:
        running: list[manager_process.ManagerProcess] = []

        async def start() -> Started:
            starts.append("start")
            running.append(managers.enter_context(manager_process.running_manager(tmp_path)))
            return Started(running[-1].address)

        source = source_at("http://127.0.0.1:9/mcp", root, http, start=start, may_move=True, absent_s=0.3)
        assert await names_of(source)
        running[0].process.kill()
        await asyncio.to_thread(running[0].process.wait)
        outcome = await source.call("calculator", {"expression": "6 * 7"}, print)
        assert outcome.content == [{"type": "text", "text": "42"}]
        running[1].process.kill()
        await asyncio.to_thread(running[1].process.wait)
        outcome = await source.call("calculator", {"expression": "6 * 7"}, print)
        assert outcome.is_error
        assert len(starts) == 2
        await source.close()


async def test_a_start_that_fails_is_told_and_not_repeated(tmp_path: Path) -> None:
    starts = 0

    async def refuse() -> Started:
        nonlocal starts
        starts += 1
        await asyncio.sleep(0)
        return Started(None, "the port is taken")

    async with aiohttp.ClientSession() as http:
        source = source_at("http://127.0.0.1:9/mcp", tmp_path, http, start=refuse)
        for _ in range(2):
            assert await names_of(source) == []
        assert (source.state().state, starts) == ("unavailable", 1)
        assert source.state().detail == "the port is taken; run lmtb up"
        await source.close()
