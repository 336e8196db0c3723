"""The official SDK's client at a project on another host: what calls are besides a request and an answer.

Tasks are asked for with a raw client: the SDK does not know those of the stateless revision.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mcp
import mcp_types
import pytest
import pytest_asyncio
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.remote_hosts.tunnel.far_end import SILENCE_S
from support.clients.raw_clients import SessionClient, StatelessClient
from support.processes.hosts.ssh_hosts import ADDRESS, SshHosts, ssh_hosts
from support.processes.managers.manager_home import ManagerProcess, until
from support.projects.gateway import eventually
from support.projects.script_tools import write_tool
from support.servers.network.cut_proxy import CutProxy
from support.servers.sdk_servers.third_party import stdio_command

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
EVERY_MODE = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
LIMIT_S = 4
SUM = {"expression": "6*7"}
LONG_CUT_S = 75.0
"""A line counts as cut at most 55 s after the last byte."""
KNOWS: dict[str, Any] = {names.META_CAPABILITIES: {"extensions": {tasks.EXTENSION: {}}}}
SLOW = """
import time
import lmtb_tool
time.sleep(lmtb_tool.get_float("seconds"))
lmtb_tool.return_string("computed")
"""


@dataclass
class Scene:
    hosts: SshHosts
    proxy: CutProxy
    manager: ManagerProcess
    http: ClientSession
    root: Path

    @property
    def url(self) -> str:
        """The near manager's address for the project."""
        return f"{self.manager.address}?cwd={quote(f'{ADDRESS}{self.root}')}"

    async def counts(self) -> dict[str, Any]:
        """What the project's server counted: calls that began, ended and were cancelled."""
        answer = await StatelessClient(self.http, self.url).call("strange__ledger")
        return dict(answer.payload)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """A far project with a third-party server and a slow script tool; ssh goes through a proxy."""
    folder = tmp_path_factory.mktemp("sdk")
    async with ssh_hosts(folder / "hosts") as hosts, ClientSession() as http:
        root = hosts.project()
        command, *arguments = stdio_command("--modern")
        entry = {"command": command, "args": arguments}
        (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"strange": entry}}))
        parameters = 'task = true\n[parameters.seconds]\ntype = "number"\n'
        write_tool(root / ".lm-tools-bridge" / "tools", "slow", SLOW, parameters)
        risky = "import pathlib; pathlib.Path('ran.txt').write_text('x'); print('done')\n"
        write_tool(root / ".lm-tools-bridge" / "tools", "risky", risky, "requires_approval = true\n")
        proxy = CutProxy(hosts.server.port)
        async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as listening:
            hosts.lead_through(listening.sockets[0].getsockname()[1])
            manager = await hosts.near.start(call_timeout_s=LIMIT_S, call_limit_s=LIMIT_S)
            await hosts.add_these_sources()
            trusted = await hosts.near.lmtb("trust", f"{ADDRESS}{root}", "--yes")
            assert trusted.code == 0, trusted.out + trusted.err
            made = Scene(hosts, proxy, manager, http, root)

            async def is_listed() -> bool:
                listed = (await StatelessClient(http, made.url).ask(names.TOOLS_LIST)).message
                tools = listed.get("result", {}).get("tools", ())
                return "strange__elicit" in {tool["name"] for tool in tools}

            await eventually(is_listed, 60)
            yield made
            await hosts.near.close()
            await proxy.close()


@EVERY_MODE
async def test_progress_arrives_during_the_call(scene: Scene, mode: str) -> None:
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with mcp.Client(scene.url, mode=mode) as client:
        await client.call_tool("strange__progress", {}, progress_callback=progressed)
    assert steps == [1.0, 2.0, 3.0]


def answering(action: str, content: dict[str, Any] | None, asked: list[str]) -> Any:
    """A person who answers each form like this."""

    async def elicit(context: Any, params: Any) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action=action, content=content)

    return elicit


@EVERY_MODE
@pytest.mark.parametrize(
    ("action", "content"), [("accept", {"name": "Ada"}), ("decline", None), ("cancel", None)]
)
async def test_a_form_of_a_server_there_is_answered_here(
    scene: Scene, mode: str, action: str, content: dict[str, Any] | None
) -> None:
    asked: list[str] = []
    async with mcp.Client(
        scene.url, mode=mode, elicitation_callback=answering(action, content, asked)
    ) as client:
        result = await client.call_tool("strange__elicit", {})
    assert asked == ["Your name?"]
    told = result.structured_content or {}
    assert (told["action"], told.get("content")) == (action, content)


@EVERY_MODE
@pytest.mark.parametrize(
    ("action", "content", "runs"),
    [
        ("accept", {"approve": True}, True),
        ("accept", {"approve": False}, False),
        ("decline", None, False),
        ("cancel", None, False),
    ],
)
async def test_a_form_that_asks_for_approval_there_is_answered_here(
    scene: Scene, mode: str, action: str, content: dict[str, Any] | None, runs: bool
) -> None:
    asked: list[str] = []
    ran = scene.root / "ran.txt"
    ran.unlink(missing_ok=True)
    async with mcp.Client(
        scene.url, mode=mode, elicitation_callback=answering(action, content, asked)
    ) as client:
        result = await client.call_tool("risky", {})
    assert asked == ["Run risky?"]
    assert ran.exists() is runs
    assert bool(result.is_error) is not runs
    if not runs:
        assert result.structured_content is not None
        assert result.structured_content["error"]["reason"] == "approval_denied"

    async def is_over() -> bool:
        homes = (scene.hosts.near, scene.hosts.far)
        return not any(
            [(await asyncio.to_thread(one.control.get, "/approvals"))["approvals"] for one in homes]
        )

    await eventually(is_over)


@EVERY_MODE
async def test_a_call_that_the_client_gives_up_ends_at_its_server(scene: Scene, mode: str) -> None:
    before = (await scene.counts())["cancelled"].get("slow", 0)
    async with mcp.Client(scene.url, mode=mode) as client:
        with pytest.raises(mcp.MCPError):
            await client.call_tool("strange__slow", {"seconds": 30}, read_timeout_seconds=1)

        async def is_cancelled() -> bool:
            return bool((await scene.counts())["cancelled"].get("slow", 0) > before)

        await eventually(is_cancelled, 15)


@EVERY_MODE
async def test_a_call_that_takes_too_long_is_ended_there(scene: Scene, mode: str) -> None:
    before = (await scene.counts())["cancelled"].get("slow", 0)
    async with mcp.Client(scene.url, mode=mode) as client:
        result = await client.call_tool("strange__slow", {"seconds": 30})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["error"]["reason"] == "call_timed_out"

    async def is_cancelled() -> bool:
        return bool((await scene.counts())["cancelled"].get("slow", 0) > before)

    await eventually(is_cancelled, 15)


async def test_a_task_is_polled_over_the_line_and_outlives_it(scene: Scene) -> None:
    client = StatelessClient(scene.http, scene.url)
    made = (await client.call("slow", {"seconds": 2.5}, meta=KNOWS)).result
    assert made["resultType"] == "task"
    for session in scene.hosts.server.sessions():
        session.kill()

    async def result() -> Any:
        about = {"taskId": made["taskId"], "_meta": KNOWS}
        answer = (await client.ask(tasks.GET, about)).message
        is_over = answer.get("result", {}).get("status") not in {None, "working"}
        return answer["result"] if is_over else None

    found = await eventually(result, 30)
    assert found["status"] == "completed"
    assert "computed" in str(found)


async def test_a_large_answer_crosses_whole(scene: Scene) -> None:
    async with mcp.Client(scene.url, mode="legacy") as client:
        result = await client.call_tool("strange__big", {"size": 3_000_000})
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    assert block.text == "x" * 3_000_000


async def test_a_call_waits_while_the_line_stands_still_for_a_moment(scene: Scene) -> None:
    async with mcp.Client(scene.url, mode="legacy") as client:
        await client.call_tool("calculator", SUM)
        scene.proxy.cut()
        call = asyncio.create_task(client.call_tool("calculator", SUM))
        done, _ = await asyncio.wait({call}, timeout=1.5)
        assert not done
        scene.proxy.mend()
        assert (await call).structured_content == {"value": 42}


async def test_a_line_that_stays_still_is_told_and_made_anew_when_it_can_be(scene: Scene) -> None:
    client = await SessionClient.connect(scene.http, scene.manager.address)
    assert (await client.handshake(f"{ADDRESS}{scene.root}")).payload["ok"]
    assert not (await client.call("calculator", SUM)).result.get("isError")
    scene.proxy.cut()
    refused = (await client.call("calculator", SUM)).refusal
    assert (refused["reason"], refused.get("delivered")) == ("call_timed_out", "unknown")

    async def is_noticed() -> bool:
        (line,) = (await scene.hosts.near.status())["lines"]
        return bool(line["state"] != "connected")

    await eventually(is_noticed, LONG_CUT_S)
    again = (await client.call("calculator", SUM)).refusal
    assert (again["reason"], again["delivered"]) == ("workspace_server_offline", "no")
    scene.proxy.mend()

    async def is_back() -> bool:
        await client.handshake(f"{ADDRESS}{scene.root}")
        return not (await client.call("calculator", SUM)).result.get("isError")

    await eventually(is_back, LONG_CUT_S)


@pytest.mark.parametrize(("change", "cause"), [("key", "host_key_changed"), ("login", "login_needs_person")])
async def test_what_only_a_person_can_solve_reaches_the_model_as_a_fixed_text(
    scene: Scene, change: str, cause: str
) -> None:
    server, cwd = scene.hosts.server, {"cwd": f"{ADDRESS}{scene.root}"}
    async with mcp.Client(scene.manager.address, mode="legacy") as client:
        await server.stop()
        await server.start(host_key="other_host" if change == "key" else "host", authorized=change != "login")

        async def is_told() -> mcp_types.CallToolResult | None:
            result = await client.call_tool(names.HANDSHAKE, cwd)
            error = (result.structured_content or {}).get("error", {})
            return result if error.get("details", {}).get("cause") == cause else None

        refused = await eventually(is_told, 60)
        said = refused.model_dump_json()
        assert not [
            word for word in ("Permission denied", "IDENTIFICATION", "SHA256", "127.0.0.1") if word in said
        ]
        people = await scene.hosts.status()
        assert people["cause"] == cause
        assert people["said"]
        await server.stop()
        await server.start()

        async def is_back() -> bool:
            return not (await client.call_tool(names.HANDSHAKE, cwd)).is_error

        await eventually(is_back, 60)


async def test_a_session_goes_on_after_this_machine_has_slept(scene: Scene) -> None:
    """Both programs here stand still until the other host has given the line up."""
    async with mcp.Client(scene.manager.address, mode="legacy") as client:
        result = await client.call_tool(names.HANDSHAKE, {"cwd": f"{ADDRESS}{scene.root}"})
        assert not result.is_error
        sleepers = {scene.manager.pid, *scene.hosts.near.processes("/usr/bin/ssh")}
        for pid in sleepers:
            os.kill(pid, signal.SIGSTOP)
        try:
            await until(lambda: not scene.hosts.far.processes("remote serve"), SILENCE_S + 60)
        finally:
            for pid in sleepers:
                os.kill(pid, signal.SIGCONT)

        async def is_back() -> bool:
            answer = await client.call_tool("calculator", SUM)
            return answer.structured_content == {"value": 42}

        await eventually(is_back, 60)
