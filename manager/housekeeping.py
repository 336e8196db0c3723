"""Keeps house: expires sessions, stops idle servers, feeds the watchdog, looks after our files, rotates logs.

Leftovers are swept, removed files are made again, unsaved state is saved. Nothing else renames or empties a
log. Programs keep their logs open, also those that end while their successor writes already. So a long log
is copied and emptied, not renamed. Lines that are written between these two steps are lost. All writers
append, so they go on at the new end.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import UnsafePathError, make_private
from manager.assembly import Parts
from manager.configuration.budgets import MAX_LOG_BYTES
from manager.configuration.paths import Paths
from manager.disk.filesystem import FolderExaminer
from manager.listener.control_listener import ControlListener
from manager.log import logger
from manager.startup import systemd
from manager.startup.lock import Lock
from manager.state_file import Store
from manager.supervision.leftovers import remove_leftover_files, remove_unfinished_files
from manager.supervision.unused_workspaces import forget_gone_workspaces, stop_idle
from manager.supervision.workspaces import Workspaces

# Bytes that are copied at once: few calls to the system, and little memory.
_PIECE: Final = 256 * 1024
FLOOD_S: Final = 60.0
"""A log that reaches the limit twice within this time is flooded."""


class LogRotation:
    """The logs in one folder. Blocks: call it from a thread."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._rotated_at: dict[Path, float] = {}
        self._flooded: set[Path] = set()

    def run(self) -> None:
        """Set aside every log above the limit, as `….old.log`. A log that cannot be is left as it is."""
        for log in self._folder.glob("*.log"):
            with suppress(OSError):
                status = log.lstat()
                is_log = stat.S_ISREG(status.st_mode) and not log.name.endswith(".old.log")
                if is_log and status.st_size > MAX_LOG_BYTES:
                    self._rotate(log)

    def _rotate(self, log: Path) -> None:
        old = log.with_suffix(".old.log")
        old.unlink(missing_ok=True)  # never write through a link that somebody put there
        descriptor = os.open(old, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with log.open("rb") as source, os.fdopen(descriptor, "wb") as copy:
            while piece := source.read(_PIECE):
                copy.write(piece)
        os.truncate(log, 0)
        last, self._rotated_at[log] = self._rotated_at.get(log), self._now()
        if last is not None and self._now() - last < FLOOD_S and log not in self._flooded:
            self._flooded.add(log)
            why = f"more than {MAX_LOG_BYTES // 2**20} MiB a minute; only the newest lines are kept"
            logger().warning("log.flooded", file=str(log), why=why)


# `lmtb stop` waits 10 s for a control socket that is made again: several looks have to fit.
CHECK_S: Final = 2.0


class OwnFiles(msgspec.Struct, frozen=True):
    """The files of a running manager.

    Attributes:
        control: None where there is no control socket.
    """

    paths: Paths
    lock: Lock
    store: Store
    workspaces: Workspaces
    control: ControlListener | None

    async def look_after(self) -> None:
        """Sweep once, then check the files every `CHECK_S` seconds, until cancelled.

        A disk that hangs delays only this.
        """
        try:
            await self._sweep()
        except OSError as error:
            logger().error(
                "files.failed", why=f"what killed programs left cannot be removed: {worded(error)}"
            )
        rotation = LogRotation(self.paths.logs_dir)
        problem: str | None = None
        while True:
            await asyncio.sleep(CHECK_S)
            before, problem = problem, await self._check(rotation)
            if problem not in (None, before):
                logger().error("files.failed", why=problem)
            elif before is not None and problem is None:
                logger().info("files.recovered", was=before)
            await self.store.retry()

    async def _check(self, rotation: LogRotation) -> str | None:
        """Make again what was removed, and rotate logs; why that is impossible, else None."""
        try:
            await asyncio.to_thread(self._look, rotation)
            if self.control is not None:
                await self.control.reopen_if_removed()
        except (OSError, UnsafePathError) as error:
            return worded(error)
        return None

    async def _sweep(self) -> None:
        """Remove what killed programs left behind, and what belongs to projects that are long gone."""
        paths = self.paths
        left = await asyncio.to_thread(remove_leftover_files, paths.runtime_dir)
        left += await asyncio.to_thread(remove_unfinished_files, paths.state_dir, paths.runtime_dir)
        if left:
            logger().info("files.swept", count=left, why="programs that were killed left them behind")
        await forget_gone_workspaces(self.workspaces, FolderExaminer(), paths.state_dir)

    def _look(self, rotation: LogRotation) -> None:
        for folder in (self.paths.runtime_dir, self.paths.state_dir, self.paths.logs_dir):
            if not folder.exists():
                make_private(folder)
                logger().warning("folder.made_again", path=str(folder), why="somebody removed it")
        self.lock.renew()
        rotation.run()


# Sessions and idle servers end after minutes: a few seconds late is not noticed.
HOUSEKEEPING_S: Final = 5.0


async def housekeep(parts: Parts, idle_s: float) -> None:
    """Keep house until cancelled.

    Args:
        idle_s: after which servers stop that nobody uses.
    """
    session_manager, workspaces = parts.session_manager, parts.workspaces
    pause = min(HOUSEKEEPING_S, systemd.watchdog_interval() or HOUSEKEEPING_S)
    while True:
        systemd.notify(WATCHDOG=1)
        await session_manager.housekeep()
        await stop_idle(workspaces, session_manager.active_workspaces(idle_s), idle_s, time.monotonic())
        serving = {workspace.id for workspace in workspaces if workspace.supervisor.is_serving}
        session_manager.notifier.notify_recovered(serving)
        await asyncio.sleep(pause)
