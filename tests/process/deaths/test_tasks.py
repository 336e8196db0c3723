"""Tests that an MCP task outlives the manager through which it was started (SEP-2663)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol import tasks_extension as tasks
from support.clients.raw_clients import StatelessClient
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project
from support.projects.gateway import eventually
from support.projects.script_tools import write_tool

KNOWS: dict[str, Any] = {names.META_CAPABILITIES: {"extensions": {tasks.EXTENSION: {}}}}
WAIT = "import os, time\nwhile not os.path.exists({go!r}): time.sleep(0.02)\nprint('done')\n"


async def test_task_goes_on_while_managers_come_and_go(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """SEP-2663: a task is created through one manager, completes while none runs, and is polled through the next."""
    go = tmp_path / "go"
    write_tool(home.paths.config_dir / "tools", "slow", WAIT.format(go=str(go)), "task = true\n")
    root = make_project(tmp_path / "project")
    manager = await home.start(grace_s=60)
    client = StatelessClient(http, f"{manager.address}?cwd={root}")
    made = (await client.call("slow", {}, meta=KNOWS)).result
    assert made["resultType"] == "task"
    servers = await home.server_pids()
    await manager.killed()
    go.touch()
    manager = await home.start()
    assert await home.server_pids() == servers

    async def over() -> dict[str, Any] | None:
        params = {"taskId": made["taskId"], "_meta": KNOWS}
        result = (await StatelessClient(http, manager.address).ask(tasks.GET, params)).result
        return None if result["status"] == "working" else result

    async with asyncio.timeout(20):
        done = await eventually(over)
    assert done["result"]["content"] == [{"type": "text", "text": "done"}]
