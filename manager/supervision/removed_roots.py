"""Stops the servers of workspaces whose folder is removed or moved, soon after that happened.

Otherwise they would run on until they are idle, with all processes that they started. A call for a folder
that was made anew at the same path starts a new server.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from lm_tools_bridge.machine.files.git_worktrees import worktree_at
from manager.disk.disk_lookups import DiskLookups, NoAnswer
from manager.logs.log import logger
from manager.routing.state.root_watch import RootSign, RootWatch
from manager.supervision.processes.process import Process
from manager.supervision.server.instance import Instance
from manager.supervision.server.supervisor import Supervisor
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces

LOOK_EVERY_S: Final = 3.0
"""A look costs some 100 µs for each server that runs."""


_WORDS: Final = frozenset(sign.value for sign in RootSign)


class RootOnDisk(NamedTuple):
    """What a path is: whether a folder is there, and whether that has an entry `.git`."""

    is_folder: bool
    has_git: bool


@dataclass(slots=True)
class _Watched:
    """A server as it was at the first look at its folder."""

    instance: Instance
    is_at_root: bool
    is_worktree: bool
    watch: RootWatch = field(default_factory=RootWatch)


class RemovedRoots:
    """Looks at the folders of all running servers.

    Args:
        workspaces: those.
        sleep: waits for seconds.
        lookups: runs look-ups; a disk that hangs costs one thread, and delays no other folder.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        lookups: DiskLookups | None = None,
    ) -> None:
        self._workspaces = workspaces
        self._sleep = sleep
        self._lookups = lookups or DiskLookups()
        self._watched: dict[str, _Watched] = {}

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            await self._sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Look once at every folder, and stop the servers of those that are gone."""
        running = [one for one in self._workspaces if one.supervisor.instance]
        ids = {one.id for one in running}
        self._watched = {key: watched for key, watched in self._watched.items() if key in ids}
        await asyncio.gather(*(self._look_at(one) for one in running))

    async def _look_at(self, workspace: Workspace) -> None:
        supervisor, instance = workspace.supervisor, workspace.supervisor.instance
        if not isinstance(supervisor, Supervisor) or instance is None or instance.process is None:
            return
        watched = self._watched.get(workspace.id)
        if watched is None or watched.instance is not instance:
            if supervisor.figures.last_error in _WORDS:  # the folder is there again
                supervisor.figures.last_error = None
            root = Path(workspace.root)
            is_worktree = await self._lookups.run(("worktree", root), lambda: worktree_at(root) is not None)
            watched = self._watched[workspace.id] = _Watched(
                instance, instance.process.folder == workspace.root, is_worktree is True
            )
        sign = await self._sign(workspace.root, instance.process, watched)
        if watched.watch.saw(sign) and supervisor.instance is instance:
            await _stop(workspace, supervisor, sign)

    async def _sign(self, root: str, process: Process, watched: _Watched) -> RootSign:
        if process.is_folder_deleted(root):
            return RootSign.DELETED
        if watched.is_at_root and process.folder not in {root, None}:
            return RootSign.MOVED
        found = await self._lookups.run(("root", root), lambda: root_on_disk(Path(root)))
        if isinstance(found, NoAnswer) or found is None:
            return RootSign.UNKNOWN
        if not found.is_folder:
            return RootSign.MISSING
        return RootSign.NO_WORKTREE if watched.is_worktree and not found.has_git else RootSign.HERE


async def _stop(workspace: Workspace, supervisor: Supervisor, sign: RootSign) -> None:
    workspace.moved_to = supervisor.moved_to or workspace.moved_to
    logger().warning("workspace.root_gone", workspace=workspace.id, root=workspace.root, why=sign.value)
    supervisor.figures.last_error = sign.value
    await supervisor.stop()


def root_on_disk(root: Path) -> RootOnDisk | None:
    """What is at a path now; None if the disk does not say. Blocks."""
    try:
        is_folder = stat.S_ISDIR(root.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return RootOnDisk(is_folder=False, has_git=False)
    except OSError:
        return None
    try:
        (root / ".git").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return RootOnDisk(is_folder, has_git=False)
    except OSError:
        return None
    return RootOnDisk(is_folder, has_git=True)
