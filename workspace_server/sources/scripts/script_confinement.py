"""Defines where scripts of a workspace may write, in case the user trusted a script by mistake.

Scripts may read what the user can read, and write to the workspace, temporary folders and caches of their
own, but not to the rest of the home folder: keys, start-up files, folders on the PATH, our own state, nor the
caches of the user's tools, from which later programs run (`npx`, `uvx`, builds). In the project's `.git`,
what git runs or believes is read-only. Scripts of the user are not confined. `processes/confinement.py`
enforces the limits.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import project_file
from lm_tools_bridge.machine.own_children import MAX_FILE_BYTES
from lm_tools_bridge.machine.private_files import UnsafePathError
from workspace_server.processes import tool_caches
from workspace_server.processes.confinement import Confinement

_SHARED: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  allowed, not used
_GIT_SETTINGS: Final[Mapping[str, str]] = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "branch.autoSetupMerge",
    "GIT_CONFIG_VALUE_0": "false",
}
"""Else `git checkout -b x origin/x` fails, as it writes to git's configuration which branch is followed."""
_GIT: Final = ".git"
_OF_GIT: Final = ("config", "config.worktree", "hooks", "info", "modules", "worktrees", "commondir")
"""What of a git folder names programs, or leads to other configurations: `info` has attributes."""
_MADE: Final = ("hooks", "info")
"""Folders that are made if they are missing: what is not there cannot be made read-only."""
_PLANTED: Final = ("config.worktree", "commondir")
"""Files that cannot be prevented while they are missing; see `remove_planted`."""


def cache_folder(root: Path, environment: Mapping[str, str]) -> Path | None:
    """The folder with the caches of a workspace's scripts; None without a home folder."""
    return tool_caches.cache_folder("scripts", os.fspath(root), environment)


def script_variables(folder: Path | None) -> dict[str, str]:
    """The variables by which tools work within the limits: they lead to caches in this folder."""
    return {**_GIT_SETTINGS, **({} if folder is None else tool_caches.cache_variables(folder))}


def script_confinement(root: Path, call_folder: Path, environment: Mapping[str, str]) -> Confinement:
    """The limits of one call. Makes the folder of its caches. Blocks.

    Args:
        root: the workspace.
        call_folder: the private folder of the call.
        environment: the user's environment, of which TMPDIR and HOME are read.

    Raises:
        OSError: the folder of its caches cannot be made.
    """
    places = [root, call_folder, Path(environment.get("TMPDIR") or tempfile.gettempdir())]
    places += map(Path, _SHARED)
    caches = cache_folder(root, environment)
    if caches is not None:
        tool_caches.make_cache(caches)
        places.append(caches)
    pinned, fixed = _git_places(root / _GIT)
    return Confinement(read_write=tuple(places), max_file_bytes=MAX_FILE_BYTES, pinned=pinned, fixed=fixed)


def planted_files(root: Path) -> frozenset[str]:
    """The files in the project's git folder by which git would believe another configuration. Blocks."""
    git = root / _GIT
    return frozenset(name for name in _PLANTED if git.is_dir() and os.path.lexists(git / name))


def remove_planted(root: Path, before: frozenset[str]) -> frozenset[str]:
    """Remove those of `planted_files` that came since; returns them. Blocks.

    They are missing in nearly every repository, so nothing can be mounted over them.
    """
    new = planted_files(root) - before
    for name in new:
        with suppress(OSError, UnsafePathError), project_file.held(root / _GIT) as folder:
            folder.remove(name)
    return new


def _git_places(git: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """What cannot be moved, and what is read-only, of a project's `.git`.

    All of it, if git is led on by a link in it: a link cannot be made read-only.
    """
    status = _status(git)
    if status is None or stat.S_ISLNK(status.st_mode):
        return (), ()
    if not stat.S_ISDIR(status.st_mode):
        return (), (git,)
    with suppress(OSError, UnsafePathError), project_file.held(git) as folder:
        for name in _MADE:
            folder.make_folder(name)
    entries = {git / name: _status(git / name) for name in _OF_GIT}
    present = {place: status.st_mode for place, status in entries.items() if status is not None}
    if any(map(stat.S_ISLNK, present.values())):
        return (), (git,)
    return (git,), tuple(present)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
