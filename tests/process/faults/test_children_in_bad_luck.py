"""Tests stdio servers and scripts when the folder is deleted, the disk full, the clock changed, or after sleep."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from pathlib import Path

from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import (
    FAMILY_SIZE,
    TOOLS,
    children,
    configure,
    entry,
    legacy,
    marks,
    number,
    user_tool,
)
from support.processes.mounts import beside, needs_mounts, on_a_full_disk
from support.processes.timeouts import within
from support.projects.gateway import eventually
from support.servers.mcp_sources.stdio_servers import program

PROJECT_FILE = ".lm-tools-bridge/workspace.toml"


async def test_servers_of_a_folder_that_was_deleted_end_and_come_back_with_it(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Calls get error 47107 and no process is left; a new folder with the same path is served again."""
    configure(home, entry("one"))
    manager = await home.start()
    project = make_project(tmp_path / "proj")
    client = await legacy(http, manager.address, project)
    pid = await number(client, "one__pid")
    assert len(marks(home)) == FAMILY_SIZE
    shutil.rmtree(project)
    async with asyncio.timeout(within(4)):
        while not (gone := (await client.call("one__pid")).result).get("isError"):
            assert gone["content"][0]["text"] == str(pid)  # who is running goes on
            await asyncio.sleep(0.1)
    assert gone["structuredContent"]["error"]["reason"] == "workspace_gone"
    assert not marks(home)
    make_project(project)
    assert await number(client, "one__pid") != pid


@needs_mounts
async def test_a_full_disk_affects_only_writes_and_is_reported(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Lists are not cached, trust and secrets cannot be stored, and this is reported; tools work."""
    configure(home, entry("one"))
    user_tool(home, "brief", "echo 1\n")
    home.paths.state_dir.mkdir(mode=0o700)
    manager = await home.start(prefix=on_a_full_disk(home.paths.state_dir))
    project = make_project(tmp_path / "proj", **{PROJECT_FILE: entry("theirs", program(TOOLS))})
    client = await legacy(http, manager.address, project)
    pid = await number(client, "one__pid")
    assert await number(client, "brief") == 1
    for verb in (("trust", "--yes"), ("secrets", "set", "key", "--stdin")):
        said = await home.lmtb(*verb, prefix=beside(manager.pid, project), given="value\n")
        assert said.code == 1
        assert "No space left on device" in said.err
        assert "Next step: " in said.err
        assert "Traceback" not in said.err
    listed = (await client.ask(names.TOOLS_LIST)).result
    issues = {one["code"] for one in listed["_meta"][names.META_ISSUES]}
    assert "TRUST_PENDING" in issues
    assert await number(client, "one__pid") == pid


async def test_a_suspension_during_calls_loses_no_answer_or_process(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """A workspace server reads the output of servers and scripts when it continues."""
    configure(home, entry("one"), entry("quick", program(TOOLS)))
    user_tool(home, "nap", "sleep 0.3; echo $$\n")
    manager = await home.start()
    client = await legacy(http, manager.address, make_project(tmp_path / "proj"))
    pids = [await number(client, f"{name}__pid") for name in ("one", "quick")]
    (server,) = (await home.server_pids()).values()
    gate = tmp_path / "gate"
    held = asyncio.create_task(number(client, "one__hold", {"until": str(gate)}))
    napping = asyncio.create_task(number(client, "nap"))
    async with asyncio.timeout(within(5)):
        while len(children(home, server)) < len(pids) + 1:
            await asyncio.sleep(0.02)
    os.kill(server, signal.SIGSTOP)
    gate.touch()
    await asyncio.sleep(2)
    assert not held.done()
    os.kill(server, signal.SIGCONT)
    assert await asyncio.wait_for(held, within(2)) == pids[0]
    await asyncio.wait_for(napping, within(2))
    assert [await number(client, f"{name}__pid") for name in ("one", "quick")] == pids
    assert (await home.server_pids()).popitem()[1] == server
    assert children(home, server) == set(pids)


async def test_a_clock_that_jumps_restarts_nothing_and_hides_no_change(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Files with a time in the future or the distant past are read like others."""
    configure(home, entry("one", program(TOOLS)))
    manager = await home.start()
    client = await legacy(http, manager.address, make_project(tmp_path / "proj"))
    pid = await number(client, "one__pid")
    file = home.folder / "config" / "workspace.toml"
    for namespace, moment in (("later", time.time() + 10**9), ("earlier", 0)):
        os.utime(file, (moment, moment))
        assert await number(client, "one__pid") == pid
        with file.open("r+") as stream:  # the same file, which is never empty: the server looks at any moment
            stream.write("\n".join([entry("one", program(TOOLS)), entry(namespace, program(TOOLS))]))
        os.utime(file, (moment, moment))

        async def lists_new_server(tool: str = f"{namespace}__pid") -> bool:
            # a list waits 2 s for a new server, which a busy machine may need to start it
            return tool in {listed["name"] for listed in (await client.ask(names.TOOLS_LIST)).result["tools"]}

        await eventually(lists_new_server, 10)
    assert await number(client, "one__pid") == pid
