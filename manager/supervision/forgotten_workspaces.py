"""Forgets workspaces that were not used for a month and whose folder is gone, with their logs and results.

The user's trust is kept: it is bound to the folder and to the content of its files.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.files.private_folder import remove
from manager.disk.filesystem import FolderExaminer
from manager.disk.folder import CwdProblem, CwdProblemKind
from manager.logs.log import logger
from manager.supervision.workspaces import Workspaces

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


def _remove_unknown(state_dir: Path, known: Collection[str], before: float) -> None:
    for log in (state_dir / "logs").glob("*.log"):
        identity = log.name.partition(".")[0]
        if _ID.match(identity) and identity not in known and _changed_at(log) < before:
            with suppress(OSError):
                log.unlink()
    for folder in (state_dir / "tasks").glob("*"):
        if _ID.match(folder.name) and folder.name not in known and _changed_at(folder) < before:
            remove(folder)


def _changed_at(path: Path) -> float:
    """When a file changed; 0 if there is none."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
