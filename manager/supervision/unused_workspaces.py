"""Stops servers that nobody uses or whose folder is gone, and forgets workspaces that are long gone.

A workspace is forgotten a month after its last use, with its logs and results. The user's trust is kept: it
is bound to the folder and to the content of its files. Servers of removed folders are stopped soon, after
repeated looks; otherwise they would run on until they are idle, with all processes behind them.
"""

from __future__ import annotations

import asyncio
import re
import stat
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from lm_tools_bridge.machine.git_worktrees import proven_repository, worktree_at
from lm_tools_bridge.machine.private_folder import remove
from manager.disk.disk_lookups import DiskLookups, NoAnswer
from manager.disk.filesystem import FolderExaminer
from manager.disk.folder import CwdProblem, CwdProblemKind
from manager.log import logger
from manager.supervision.instance import Instance
from manager.supervision.process import Process
from manager.supervision.supervisor import Supervisor
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces


class RootSign(Enum):
    """What one look at the folder of a running server found; the value says what happened, for users."""

    HERE = ""
    UNKNOWN = "the disk does not answer"
    DELETED = "its folder was removed"
    """The system says that the server's working folder no longer exists, even if there is a new one."""
    MOVED = "its folder was moved"
    MISSING = "its folder is missing"
    """The path leads nowhere, but the folder may still exist, e.g. because a disk was unmounted."""
    NO_WORKTREE = "its folder is no git worktree any more"


LOOKS: Final[Mapping[RootSign, int]] = {
    RootSign.DELETED: 1,
    RootSign.MOVED: 2,  # a folder that is replaced by renaming is back at once
    RootSign.NO_WORKTREE: 2,  # git writes its file `.git` anew
    RootSign.MISSING: 10,  # a network disk may be away for some seconds
}
"""After how many equal looks in a row the server stops. With any other sign it never does."""


class RootWatch(msgspec.Struct):
    """The last sign, and how often in a row it was seen."""

    sign: RootSign = RootSign.HERE
    count: int = 0

    def saw(self, sign: RootSign) -> bool:
        """Record a look; returns whether the server has to stop now."""
        self.count = self.count + 1 if sign is self.sign else 1
        self.sign = sign
        return sign in LOOKS and self.count >= LOOKS[sign]


LOOK_EVERY_S: Final = 3.0
"""A look costs some 100 µs for each server that runs."""


_WORDS: Final = frozenset(sign.value for sign in RootSign)


class RootOnDisk(NamedTuple):
    """What a path is: whether a folder is there, and whether that has an entry `.git`."""

    is_folder: bool
    has_git: bool


class _Watched(msgspec.Struct):
    """A server as it was at the first look at its folder."""

    instance: Instance
    is_at_root: bool
    is_worktree: bool
    watch: RootWatch = msgspec.field(default_factory=RootWatch)


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
        running = [workspace for workspace in self._workspaces if workspace.supervisor.instance]
        ids = {workspace.id for workspace in running}
        self._watched = {key: watched for key, watched in self._watched.items() if key in ids}
        await asyncio.gather(*(self._look_at(workspace) for workspace in running))

    async def _look_at(self, workspace: Workspace) -> None:
        supervisor, instance = workspace.supervisor, workspace.supervisor.instance
        if not isinstance(supervisor, Supervisor) or instance is None or instance.process is None:
            return
        watched = self._watched.get(workspace.id)
        if watched is None or watched.instance is not instance:
            if supervisor.figures.last_error in _WORDS:  # the folder is there again
                supervisor.figures.last_error = None
            root = Path(workspace.root)
            is_worktree, workspace.repository = await self._place_in_git(root)
            watched = self._watched[workspace.id] = _Watched(
                instance, instance.process.folder == workspace.root, is_worktree
            )
        sign = await self._sign(workspace.root, instance.process, watched)
        if watched.watch.saw(sign) and supervisor.instance is instance:
            await _stop(workspace, supervisor, sign)

    async def _place_in_git(self, root: Path) -> tuple[bool, str | None]:
        """Whether a folder is a worktree beside the main one, and of which repository it is a tree."""
        place = await self._lookups.run(
            ("worktree", root), lambda: (worktree_at(root) is not None, proven_repository(root))
        )
        if isinstance(place, NoAnswer):
            return False, None
        is_worktree, repository = place
        return is_worktree, None if repository is None else str(repository)

    async def _sign(self, root: str, process: Process, watched: _Watched) -> RootSign:
        if process.is_folder_deleted(root):
            return RootSign.DELETED
        if watched.is_at_root and process.folder not in {root, None}:
            return RootSign.MOVED
        on_disk = await self._lookups.run(("root", root), lambda: root_on_disk(Path(root)))
        if isinstance(on_disk, NoAnswer) or on_disk is None:
            return RootSign.UNKNOWN
        if not on_disk.is_folder:
            return RootSign.MISSING
        return RootSign.NO_WORKTREE if watched.is_worktree and not on_disk.has_git else RootSign.HERE


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


async def stop_idle(workspaces: Workspaces, busy: Collection[str], limit_s: float, now: float) -> None:
    """Stop servers that had no call, no task and no active session for a while.

    Args:
        busy: ids of workspaces with an active session or an open listen stream, which do not keep servers of
            another version running.
        limit_s: how long; 0 means for ever.
        now: monotonic seconds.
    """
    idle = []
    for workspace in workspaces:
        supervisor = workspace.supervisor
        figures, instance = supervisor.figures, supervisor.instance
        is_used = workspace.id in busy or figures.streams
        if figures.in_flight or figures.tasks or (is_used and not (instance and instance.is_outdated)):
            workspace.used_at = now
        elif limit_s and supervisor.is_held and now - workspace.used_at >= limit_s:
            logger().info("workspace.idle", workspace=workspace.id)
            idle.append(supervisor)
    # concurrently: ten servers that ignore SIGTERM must not delay the watchdog
    await asyncio.gather(*(supervisor.stop() for supervisor in idle))
    if limit_s:
        await workspaces.remote_hosts.disconnect_idle(limit_s, now)


# A month: a folder on a disk that is unplugged over a holiday keeps its logs and results.
AFTER_S: Final = 30 * 24 * 3600.0
_ID: Final = re.compile(r"[a-z0-9-]+-[0-9a-f]{12}\Z")
_GONE: Final = (CwdProblemKind.MISSING, CwdProblemKind.NOT_A_DIRECTORY)


async def forget_gone_workspaces(
    workspaces: Workspaces, examiner: FolderExaminer, state_dir: Path, now: float | None = None
) -> None:
    """Forget those workspaces, and remove old logs and results of unknown ones.

    Args:
        now: seconds since 1970.
    """
    before = (time.time() if now is None else now) - AFTER_S
    for workspace in list(workspaces):
        if workspace.identity is not None or workspace.supervisor.instance or workspace.remote is not None:
            continue
        if await asyncio.to_thread(_is_old, state_dir, workspace.id, before):
            facts = await examiner.examine((workspace.root,))
            if isinstance(facts, CwdProblem) and facts.kind in _GONE:
                await workspaces.forget(workspace)
                logger().info("workspace.forgotten", workspace=workspace.id, root=workspace.root)
    await asyncio.to_thread(_remove_unknown, state_dir, {one.id for one in workspaces}, before)


def _is_old(state_dir: Path, workspace: str, before: float) -> bool:
    """Whether no server of this workspace wrote a line since then."""
    return all(_changed_at(state_dir / "logs" / f"{workspace}{end}") < before for end in (".log", ".old.log"))


def _remove_unknown(state_dir: Path, ids: Collection[str], before: float) -> None:
    for log in (state_dir / "logs").glob("*.log"):
        identity = log.name.partition(".")[0]
        if _ID.match(identity) and identity not in ids and _changed_at(log) < before:
            with suppress(OSError):
                log.unlink()
    for folder in (state_dir / "tasks").glob("*"):
        if _ID.match(folder.name) and folder.name not in ids and _changed_at(folder) < before:
            remove(folder)


def _changed_at(path: Path) -> float:
    """When a file changed; 0 if there is none."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
