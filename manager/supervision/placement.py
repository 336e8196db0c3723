"""Says where a client's folder lies: in which workspace, and in which folder of it."""

from __future__ import annotations

import os
from typing import NamedTuple

from manager.supervision.workspace import Workspace


class Placement(NamedTuple):
    """A folder in a workspace. `path` is its real path; for one on another host, the root's address."""

    workspace: Workspace
    path: str

    @property
    def folder(self) -> str:
        """The folder relative to the workspace's root, as `folder_in` has it."""
        return folder_in(self.workspace, self.path)


def folder_in(workspace: Workspace, path: str) -> str:
    """A real path relative to the root of its workspace, with `/`; empty for the root itself.

    Also empty where it does not lie below the root: in a further folder of a `.code-workspace` file. The path
    of a project on another host is always its root.
    """
    below = workspace.root.rstrip(os.sep) + os.sep  # not `pathlib`: this is read with every call
    if not path.startswith(below):
        return ""
    return path[len(below) :].replace(os.sep, "/")
