"""Runs a whole manager inside the test process: real daemon, real port, real workspace servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manager.configuration.paths import Paths
from manager.configuration.settings import Settings
from manager.daemon import Daemon

QUICK: dict[str, Any] = {
    "http_port": 0,
    "match_wait_s": 0.0,
    "announce_hold_s": 0.05,
    "grace_s": 5.0,
    "fork_servers": False,
    "approval_wait_s": 0.0,
    "desktop_notifications": False,
}
"""Settings that keep tests short; a template takes half a second, and nobody approves. Each can be overridden."""


@dataclass
class RunningManager:
    """What a test needs of a manager. `address` is the URL of the fixed endpoint."""

    address: str
    daemon: Daemon
    paths: Paths

    @property
    def base(self) -> str:
        """The URL without the path of the endpoint."""
        return self.address.removesuffix("/mcp")

    @property
    def port(self) -> int:
        """The port of the fixed endpoint."""
        return int(self.base.rpartition(":")[2])


def manager_paths(folder: Path) -> Paths:
    """Folders of a manager below a temporary one."""
    return Paths.of_user(
        {
            "HOME": str(folder / "home"),
            "LMTB_CONFIG_DIR": str(folder / "config"),
            "LMTB_STATE_DIR": str(folder / "state"),
            "LMTB_RUNTIME_DIR": str(folder / "run"),
        }
    )


@contextlib.asynccontextmanager
async def running_manager(folder: Path, **settings: Any) -> AsyncIterator[RunningManager]:
    """Run a manager for as long as the block lasts, then stop it and everything it started."""
    paths = manager_paths(folder)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    daemon = Daemon(Settings(**{**QUICK, **settings}), paths, ready.set_result)
    task = asyncio.create_task(daemon.serve())
    try:
        await asyncio.wait({task, ready}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert ready.done(), f"the manager did not start: {task}"
        yield RunningManager(ready.result(), daemon, paths)
    finally:
        daemon.ask_to_stop("test is over")
        async with asyncio.timeout(45):
            await task


def make_project(folder: Path, **files: str) -> Path:
    """A folder that is recognised as a workspace, with some files in it."""
    (folder / ".git").mkdir(parents=True)
    for name, text in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder
