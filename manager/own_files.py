"""Looks after our files: sweeps leftovers, makes removed ones again, saves unsaved state, rotates logs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.machine.files.disk_errors import worded
from lm_tools_bridge.machine.files.private_files import UnsafePathError, make_private
from manager.configuration.paths import Paths
from manager.disk.filesystem import FolderExaminer
from manager.listener.control_listener import ControlListener
from manager.logs.log import logger
from manager.logs.log_rotation import LogRotation
from manager.startup.lock import Lock
from manager.state_file.store import Store
from manager.supervision.leftovers import remove_leftover_files, remove_unfinished_files
from manager.supervision.unused_workspaces import forget_gone_workspaces
from manager.supervision.workspaces import Workspaces

CHECK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class OwnFiles:
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
