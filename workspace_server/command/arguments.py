"""Defines the folders that every verb gets, and checks a workspace's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lm_tools_bridge.terminal.command_line import Failure


@dataclass(frozen=True, slots=True)
class UserFolders:
    """The user's folders, and the manager's PATH, if known."""

    config_dir: Path
    state_dir: Path
    path: str | None = None


def real_folder(root: Path) -> Path:
    """The real path of an existing folder.

    Raises:
        Failure: the folder does not exist.
    """
    try:
        real = root.resolve(strict=True)
        if real.is_dir():
            return real
    except (OSError, RuntimeError):
        pass
    raise Failure(f"{root} is not a folder", "name the folder of a project", reason="no_folder")
