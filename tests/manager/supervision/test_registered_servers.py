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
from manager.state_file import Store
from manager.supervision import registered_servers
from manager.supervision.dependencies import Dependencies
from manager.supervision.registered_servers import MAX_DEPARTURES, Departures, RealPaths, RegisteredServers

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


def test_a_root_without_its_server_is_remembered_until_it_has_one_again() -> None:
    departures = Departures()
    departures.update({"/a": True, "/b": False}, 5.0)
    assert (departures.since("/a"), departures.since("/b"), departures.since("/c")) == (None, 5.0, None)
    departures.update({"/b": True}, 6.0)
    assert departures.since("/b") is None


def test_a_handshake_ends_it() -> None:
    departures = Departures()
    departures.update({"/a": False}, 5.0)
    departures.forget("/a")
    departures.forget("/never")
    assert departures.since("/a") is None


def test_their_number_is_limited() -> None:
    departures = Departures()
    for number in range(MAX_DEPARTURES + 1):
        departures.update({f"/{number}": False}, 5.0)
    assert departures.since("/0") is None
    assert departures.since(f"/{MAX_DEPARTURES}") == 5.0


async def test_links_are_resolved_once(tmp_path: Path) -> None:
    real, other, link = (tmp_path.resolve() / name for name in ("real", "other", "link"))
    real.mkdir()
    other.mkdir()
    link.symlink_to(real)
    paths = RealPaths(FolderExaminer())
    assert await paths.of(str(link)) == str(real)
    link.unlink()
    link.symlink_to(other)
    assert await paths.of(str(link)) == str(real)


async def test_a_folder_that_cannot_be_read_is_kept_as_it_is(tmp_path: Path) -> None:
    assert await RealPaths(FolderExaminer()).of(str(tmp_path / "none")) == str(tmp_path / "none")


async def test_the_number_of_folders_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_servers, "MAX_REAL_PATHS", 2)
    link = tmp_path.resolve() / "link"
    link.symlink_to(tmp_path)
    paths = RealPaths(FolderExaminer())
    await paths.of(str(link))
    for name in ("one", "two"):
        (tmp_path.resolve() / name).mkdir()
        await paths.of(str(tmp_path.resolve() / name))
    link.unlink()
    link.symlink_to(tmp_path / "one")
    assert await paths.of(str(link)) == str(tmp_path.resolve() / "one")
