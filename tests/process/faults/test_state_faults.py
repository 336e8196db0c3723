"""Tests that an unusable state file degrades the manager and never stops it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from manager import exit_codes
from manager.state_file import SessionRow, Store
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome, ManagerProcess, manager_home, until
from support.processes.managers.manager_in_process import make_project, manager_paths, running_manager
from support.processes.mounts import NAMESPACE, needs_mounts, on_a_full_disk

SUM = {"expression": "6*7"}


def garbage(file: Path) -> None:
    file.write_bytes(b"this is no database at all " * 1000)


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def newer_schema(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version=99")


def a_folder(file: Path) -> None:
    file.unlink()
    (file / "inside").mkdir(parents=True)


async def works(http: ClientSession, manager: ManagerProcess, project: Path) -> SessionClient:
    """A client that completed a handshake and a call."""
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(project)
    assert (await client.call("calculator", SUM)).payload == {"value": 42}
    return client


async def filled(file: Path) -> None:
    """Creates a state file that has a session."""
    file.parent.mkdir(parents=True, mode=0o700)
    store = Store(file, set_aside_name=str)
    await store.open()
    await store.save_sessions(
        [SessionRow("s" * 32, "2025-11-25", None, None, b"{}", None, None, time.time(), used=True)]
    )
    await store.close()
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode=DELETE")  # all of it in the one file that is harmed


@pytest.mark.parametrize(
    ("harm", "degraded", "set_aside"),
    [
        (garbage, "corrupt", 1),
        (truncated, "corrupt", 1),
        (empty, None, 0),
        (newer_schema, "newer version", 0),
        (a_folder, "cannot be opened", 0),
    ],
)
async def test_a_start_with_a_damaged_state_file_serves_and_reports_it(
    http: ClientSession,
    tmp_path: Path,
    harm: Callable[[Path], None],
    degraded: str | None,
    set_aside: int,
) -> None:
    """A corrupt file is moved aside, one of a newer version is left unchanged, an empty one is written."""
    file = manager_paths(tmp_path).state_file
    await filled(file)
    harm(file)
    before = file.read_bytes() if file.is_file() else b""
    async with running_manager(tmp_path) as manager:
        client = await SessionClient.connect(http, manager.address)
        assert (await client.ask(names.TOOLS_LIST)).result["tools"]
        async with http.get(manager.base + "/mcp/status") as response:
            status = await response.json()
    if degraded is None:
        assert (status["state"], status["degraded"]) == ("ready", [])
    else:
        assert status["state"] == "degraded"
        assert degraded in status["degraded"][0]
    kept = sorted(file.parent.glob("*.corrupt-*"))
    assert [one.read_bytes() for one in kept] == [before] * set_aside
    if harm is newer_schema:
        assert file.read_bytes() == before


@needs_mounts
async def test_a_read_only_state_folder_is_served_from_memory(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """The manager starts workspace servers, too, and reports that nothing is saved."""
    await filled(home.paths.state_file)
    state = home.paths.state_dir
    script = f'mount --bind {state} {state} && mount -o remount,ro,bind {state} && exec "$@"'
    manager = await home.start(prefix=[*NAMESPACE, script, "sh"])
    await works(http, manager, make_project(tmp_path / "proj"))
    status = await home.status()
    assert status["state"] == "degraded"
    assert str(home.paths.state_file) in status["degraded"][0]
    assert "Errno" not in manager.log.read_text()


async def test_an_unusable_runtime_folder_is_explained(home: ManagerHome) -> None:
    """Without a lock the manager does not serve; the error names the folder, and the setting for another one."""
    home.paths.runtime_dir.parent.mkdir(exist_ok=True)
    home.paths.runtime_dir.mkdir(mode=0o700)
    home.paths.lock_file.mkdir()
    refused = await home.launch()
    assert await refused.ended() == exit_codes.HOPELESS
    said = refused.log.read_text()
    assert "start.refused" in said
    assert str(home.paths.runtime_dir) in said
    assert "Traceback" not in said


@needs_mounts
async def test_a_full_disk_is_reported_and_served_from_memory(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """State that cannot be saved is kept until the manager ends."""
    state = home.paths.state_dir
    state.mkdir(mode=0o700)
    manager = await home.start(prefix=on_a_full_disk(state))
    client = await works(http, manager, make_project(tmp_path / "proj"))
    assert (await home.status())["state"] == "degraded"
    assert (await client.call("calculator", SUM)).payload == {"value": 42}


@needs_mounts
@pytest.mark.parametrize("place", ["state/logs", "run", "tmp"])
async def test_calls_work_while_a_disk_without_state_is_full(
    http: ClientSession, tmp_path: Path, place: str
) -> None:
    """Logs are lost then, and the internal channel; starts, calls and sessions are not."""
    folder = tmp_path / "user" / place
    environ = {"TMPDIR": str(tmp_path / "user" / "tmp")}
    async with manager_home(tmp_path / "user", environ=environ) as home:
        (tmp_path / "user" / "tmp").mkdir()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        manager = await home.launch(prefix=on_a_full_disk(folder))  # its control socket may be out of reach
        await until(lambda: '"ready"' in manager.log.read_text(), 20, manager.log.read_text)
        (manager.address,) = re.findall(r"http://[^\"]+", manager.log.read_text())
        client = await works(http, manager, make_project(tmp_path / "proj"))
        async with http.get(f"{manager.address}/status") as response:
            assert (await response.json())["state"] == "ready"
        assert (await client.call("calculator", SUM)).payload == {"value": 42}
        manager.send(signal.SIGTERM)
        assert await manager.ended() == exit_codes.OK
        assert "Traceback" not in manager.log.read_text()
