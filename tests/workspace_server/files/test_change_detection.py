"""Tests that change detection never misses a change that reading the files would find."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from workspace_server.catalog.active_sources import ActiveSources
from workspace_server.catalog.registry import Registry
from workspace_server.command.trust_view import all_items
from workspace_server.files.change_detection import SETTLES_NS, SNAPSHOT_INTERVAL_S, ChangeDetector
from workspace_server.server_process import open_store
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.sources.dependencies import Dependencies
from workspace_server.sources.factory import SourceFactory
from workspace_server.trust.store import TrustStore

SERVER = {"command": "prog", "args": ["run.py"], "envFile": "${workspaceFolder}/env"}


class Place:
    """A workspace with everything a look may depend on, and the sources that look at it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.config, self.state = folder / "project", folder / "config", folder / "state"
        self.early, self.late = folder / "early", folder / "late"
        for one in (self.root, self.config, self.state, self.early, self.late):
            one.mkdir(mode=0o700)
        self.tool = self.root / ".lm-tools-bridge" / "tools" / "greet"
        self.tool.mkdir(parents=True)
        (self.tool / "tool.toml").write_text('description = "greets"\nscript = "x.py"\n')
        (self.tool / "x.py").write_text("print(1)\n")
        (self.root / "run.py").write_text("1\n")
        (self.root / "env").write_text("A=1\n")
        self.servers({"one": SERVER})
        self.program(self.late)
        self.environ = {"PATH": f"{self.early}:{self.late}", "HOME": str(folder), "SHELL": "/bin/sh"}
        dependencies = Dependencies(
            "ws", str(self.root), "1", self.environ, self.config, self.state, folder / "run"
        )
        steps = itertools.count()
        self.change_detector = ChangeDetector(clock=lambda: next(steps) * SNAPSHOT_INTERVAL_S)
        making = SourceFactory(dependencies, open_store(self.state, self.environ), KeptSearches())
        self.sources = ActiveSources(Registry(), dependencies, [], making, self.change_detector)

    def servers(self, entries: object) -> None:
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))

    def program(self, folder: Path) -> None:
        (folder / "prog").write_text("#!/bin/sh\n")
        (folder / "prog").chmod(0o755)

    def trust(self) -> None:
        items = all_items(self.root, self.config, self.environ)
        TrustStore(self.state / "trust").trust(self.root, items)

    async def until_no_read_is_needed(self) -> None:
        async with asyncio.timeout(10):
            await self.sources.configure()
            while not self.change_detector.is_unchanged():
                await asyncio.sleep(0.01)
                await self.sources.configure()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def written(name: str, text: str) -> Callable[[Place], None]:
    def write(place: Place) -> None:
        path = place.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def replaced(place: Place) -> None:
    place.root.rename(place.root.with_name("old"))
    shutil.copytree(place.root.with_name("old"), place.root)


def kept_in_size(place: Place) -> None:
    text = (place.root / ".mcp.json").read_text()
    (place.root / ".mcp.json").write_text(text.replace("run.py", "fun.py"))
    os.utime(place.root / ".mcp.json", ns=(0, 0))


CHANGES: dict[str, Callable[[Place], object]] = {
    "the user's file appears": lambda place: (place.config / "workspace.toml").write_text(""),
    "the user's tools appear": lambda place: (place.config / "tools").mkdir(),
    "a file appears in a folder that was not there": written(".vscode/mcp.json", "{}"),
    "a project file appears": written("a.code-workspace", "{}"),
    "a file changes, and its size and time do not": kept_in_size,
    "a file goes": lambda place: (place.root / ".mcp.json").unlink(),
    "a file is closed to us or opened": lambda place: (place.root / ".mcp.json").chmod(0o640),
    "a script tool appears": written(".lm-tools-bridge/tools/deep/er/tool.toml", 'script = "x"\n'),
    "a script changes": written(".lm-tools-bridge/tools/greet/x.py", "print(2)\n"),
    "a script gets another file": written(".lm-tools-bridge/tools/greet/more/y.py", "1\n"),
    "a program of the workspace changes": written("run.py", "2\n"),
    "variables of a program change": written("env", "A=2\n"),
    "another program is found first": lambda place: place.program(place.early),
    "the program goes": lambda place: (place.late / "prog").unlink(),
    "the user trusts it": lambda place: place.trust(),
    "the folder is another one": replaced,
}


@pytest.mark.parametrize("change", CHANGES)
async def test_every_change_that_reading_would_find_is_noticed(place: Place, change: str) -> None:
    await place.until_no_read_is_needed()
    before = await place.sources.configure()
    assert await place.sources.configure() is before
    await asyncio.to_thread(CHANGES[change], place)
    assert not place.change_detector.is_unchanged()


async def test_a_change_that_was_not_applied_is_reported_again(place: Place) -> None:
    await place.until_no_read_is_needed()
    before = await place.sources.configure()
    place.servers({})
    await asyncio.sleep(SETTLES_NS / 1e9 + 0.02)  # so that the recorded state could be valid
    for _ in range(3):
        assert place.sources.configure_nowait() is None
    assert (await place.sources.configure()).stdio != before.stdio


async def test_a_dangling_link_is_read_every_time(place: Place) -> None:
    (place.root / ".vscode").symlink_to(place.root.parent / "shared")
    for _ in range(3):
        await place.sources.configure()
        await asyncio.sleep(SETTLES_NS / 1e9)
    assert not place.change_detector.is_unchanged()


class Times:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.wall = 0
        self.now = 0.0
        self.change_detector = ChangeDetector(lambda: self.wall, lambda: self.now)

    def look(self, *paths: Path, is_incomplete: bool = False, invalidate: bool = False) -> bool:
        """One look; whether the next one would find the same."""
        begun = self.change_detector.begin()
        for path in paths:
            self.change_detector.add_path(str(path))
        if is_incomplete:
            self.change_detector.mark_incomplete()
        if invalidate:
            self.change_detector.invalidate()
        self.change_detector.end(begun)
        self.now += SNAPSHOT_INTERVAL_S
        return self.change_detector.is_unchanged()

    def settle(self, path: Path) -> None:
        self.wall = path.stat().st_ctime_ns + SETTLES_NS + 1


def test_two_reads_of_the_same_settled_paths_are_needed(tmp_path: Path) -> None:
    times = Times()
    assert not times.look(tmp_path)
    assert not times.look(tmp_path)  # too young
    times.settle(tmp_path)
    assert times.look(tmp_path)
    (tmp_path / "new").touch()
    assert not times.change_detector.is_unchanged()
    times.settle(tmp_path)
    assert not times.look(tmp_path, tmp_path / "new")  # depends on more
    assert times.look(tmp_path, tmp_path / "new")


def test_incomplete_or_invalidated_reads_are_not_relied_on(tmp_path: Path) -> None:
    times = Times()
    times.settle(tmp_path)
    times.look(tmp_path)
    assert not times.look(tmp_path, is_incomplete=True)
    assert not times.look(tmp_path)  # no snapshot is taken after an incomplete read
    assert not times.look(tmp_path, invalidate=True)
    assert times.look(tmp_path)


def test_snapshots_are_rate_limited(tmp_path: Path) -> None:
    times = Times()
    times.look(tmp_path)
    times.look(tmp_path)
    times.settle(tmp_path)
    times.now -= SNAPSHOT_INTERVAL_S / 2
    assert not times.look(tmp_path)
    assert times.look(tmp_path)
