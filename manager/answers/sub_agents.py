"""Refuses calls that may be those of a sub-agent in a worktree of its own, unless their paths tell.

Such a sub-agent shares the connection and the roots of its parent: nothing else says whose a request is.
"""

from __future__ import annotations

import os

import msgspec

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.answers.exchange import Exchange, Located
from manager.answers.workspace_lookup import look_up_by_paths
from manager.routing.workspace.resolution import WorkspaceSource
from manager.supervision.workspaces import Workspaces

_ADDRESS = (WorkspaceSource.QUERY, WorkspaceSource.HEADER)


async def tell_callers_apart(
    workspaces: Workspaces, exchange: Exchange, located: Located, arguments: msgspec.Raw
) -> Located | Refusal:
    """The workspace of a tool call whose evidence led to `located`, or a refusal that names both folders.

    Args:
        arguments: those of the tool, an object as JSON text. Absolute paths in them tell.
    """
    if not exchange.has_sub_agents:
        return located
    worktrees = await workspaces.worktrees_of_agents(located.workspace)
    if not worktrees:
        return located
    by_paths = await look_up_by_paths(workspaces, arguments)
    if by_paths is None:
        return _ambiguous_caller(located, worktrees)
    if not any(_lies_in(by_paths.workspace.root, worktree) for worktree in worktrees):
        # an absolute path in a third project says nothing of who calls
        root = located.workspace.root
        return located if _lies_in(by_paths.workspace.root, root) else _ambiguous_caller(located, worktrees)
    address = located.addressed_by or (located.source if located.source in _ADDRESS else None)
    return Located(by_paths.workspace, by_paths.source, addressed_by=address)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _ambiguous_caller(located: Located, worktrees: tuple[str, ...]) -> Refusal:
    root = located.workspace.root
    return Refusal(
        Reason.CONFLICTING_WORKSPACE,
        f"this call could mean two folders: {root}, or the worktree of a sub-agent, {', '.join(worktrees)}",
        f"call {names.CALL_TOOL} with cwd = the absolute path of the folder that you work in, or name files"
        " by absolute paths",
        delivered="no",
        details={"folders": [root, *worktrees]},
    )
