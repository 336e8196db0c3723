"""Tests of registered servers: tasks and descriptors are released, and disks do not block."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lm_tools_bridge.protocol.internal.registration import Heartbeat
from manager.configuration.settings import Settings
from manager.disk.filesystem import FolderExaminer
from manager.state_file.store import Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.registration.registered_servers import RegisteredServers

linux = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")


def heartbeat(folder: Path, nonce: str = "n") -> Heartbeat:
    return Heartbeat("s-1", os.getpid(), (str(folder),), None, "127.0.0.1", 9, nonce, "workspace-server")


def process_descriptors() -> int:
    """The number of open pid file descriptors of this process."""
    found = 0
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found += "pidfd" in str(one.readlink())
    return found


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[RegisteredServers]:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    dependencies = Dependencies(Settings(), store, tmp_path, os.environ)
    made = RegisteredServers(dependencies, FolderExaminer(deadline_s=0.05))
    yield made
    await made.close()
    await store.close()


@linux
async def test_repeated_registrations_share_one_watch_task(
    servers: RegisteredServers, tmp_path: Path
) -> None:
    before = process_descriptors()
    for number in range(20):
        await servers.heartbeat(heartbeat(tmp_path, str(number)))
        await asyncio.sleep(0)
    watching = [one for one in asyncio.all_tasks() if one.get_name().startswith("watch registered server")]
    assert len(watching) == 1
    assert process_descriptors() <= before + 2  # the watch, and the last instance's own


@linux
async def test_a_server_that_leaves_before_its_health_check_leaves_nothing(
    servers: RegisteredServers, tmp_path: Path
) -> None:
    await servers.heartbeat(heartbeat(tmp_path))
    servers.bye("s-1")
    before = process_descriptors()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking = [one for one in asyncio.all_tasks() if one.get_name().startswith("check registered server")]
    assert asking == []
    assert process_descriptors() <= before + 1  # the watch alone
    assert servers.registrations.records() == ()


async def test_a_hanging_disk_does_not_block_the_event_loop(
    servers: RegisteredServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is used as it was sent, until the disk answers."""
    release = threading.Event()
    real = os.path.realpath

    def realpath(path: str, **options: bool) -> str:
        assert release.wait(5)
        return str(real(path, **options))

    monkeypatch.setattr(os.path, "realpath", realpath)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    outcome = await servers.heartbeat(heartbeat(tmp_path))
    release.set()
    ticking.cancel()
    assert outcome.record.root == str(tmp_path)
    assert ticks > 10
