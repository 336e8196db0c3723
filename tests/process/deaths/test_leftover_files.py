"""Nothing of killed programs is left but what the documentation says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import tempfile
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from pathlib import Path

import psutil
import pytest
from aiohttp import ClientSession

from manager.supervision.fork_server import IS_SUPPORTED
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome, manager_home, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import user_tool

WAIT_S = 20.0
PLACES = ("state", "run", "tmp", "home")
OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
ENDLESS = 'echo begun > "$PWD/begun"; sleep 1000\n'


def documented() -> dict[str, str]:
    """Patterns of all documented files, and how each ends."""
    section = OPERATIONS.read_text().partition("### All files")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {pattern: ends.strip() for files, _, ends in rows for pattern in re.findall(r"`([^`]+)`", files)}


def existing(home: ManagerHome) -> set[str]:
    """All files and sockets of this user, as the documentation writes them."""
    walks = (walk for place in PLACES for walk in os.walk(home.folder / place))
    return {str(Path(below, name).relative_to(home.folder)) for below, _, names in walks for name in names}


def matching(names: set[str], patterns: set[str]) -> set[str]:
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def kill_everything(home: ManagerHome) -> None:
    for process in map(psutil.Process, home.processes()):
        process.send_signal(signal.SIGSTOP)  # nobody notices that another one ended
    for pid in home.processes():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def home() -> AsyncIterator[ManagerHome]:
    """A user whose runtime folder has a short path, and who has a folder for temporary files."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tmp").mkdir()
        environ = {"TMPDIR": f"{folder}/tmp"}
        async with manager_home(Path(folder), forks=True, environ=environ) as made:
            yield made


@pytest.fixture
async def distant_home(tmp_path: Path) -> AsyncIterator[ManagerHome]:
    """A user whose runtime folder has a path that is too long for sockets."""
    async with manager_home(tmp_path / ("long" * 20)) as made:
        yield made


@pytest.mark.skipif(not IS_SUPPORTED, reason="needs a fork server")
async def test_what_killed_programs_left_is_gone_after_a_start_and_a_stop(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    user_tool(home, "endless", ENDLESS)
    manager = await home.start()
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "proj"))
    call = asyncio.create_task(client.call("endless"))
    await until(lambda: len(matching(existing(home), {"run/internal/*", "*/arguments.json"})) == 3, WAIT_S)
    kill_everything(home)
    await manager.ended()
    await asyncio.gather(call, return_exceptions=True)
    assert matching(existing(home), {"run/internal/*", "*/arguments.json"})
    assert matching(existing(home), set(documented())) == existing(home)

    cut_off = await home.launch()
    await until(lambda: matching(existing(home), {"tmp/lmtb-run-*"}), WAIT_S)
    kill_everything(home)
    await cut_off.ended()
    assert matching(existing(home), {"tmp/lmtb-run-*"})

    await home.start()
    assert (await home.lmtb("stop")).code == 0
    left = existing(home)
    assert matching(left, {name for name, ends in documented().items() if ends.startswith("stays")}) == left
    assert not [*(home.folder / "tmp").iterdir(), *(home.folder / "run" / "run").iterdir()]


async def test_what_a_killed_server_left_is_gone_while_the_manager_goes_on(
    distant_home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    manager = await distant_home.start(health_interval_s=3600)
    user_tool(distant_home, "endless", ENDLESS)
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "proj"))
    call = asyncio.create_task(client.call("endless"))
    channels = distant_home.folder / "run" / "internal"
    await until(lambda: list(channels.glob("*.json")), WAIT_S)
    await until(lambda: matching(set(distant_home.processes().values()), {"*sleep*"}), WAIT_S)
    (file,) = channels.glob("*.json")
    folder = Path(json.loads(file.read_text())["socket"]).parent
    assert folder != channels
    assert folder.exists()
    (server,) = distant_home.servers()
    os.kill(server, signal.SIGKILL)
    await call
    await until(lambda: not folder.exists(), WAIT_S, manager.log.read_text)
    assert not file.exists()
