"""Finds the git worktrees that a glob names. A walk leaves them out, so each is searched as its own tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lm_tools_bridge.machine.files.git_worktrees import is_copy
from workspace_server.sources.builtin.files.patterns import PathFilter, compile_filter, fixed_parts
from workspace_server.workspace import Folder


def by_worktree(folder: Folder, wanted: PathFilter) -> Iterator[tuple[Folder, PathFilter]]:
    """The trees to search for a filter, each with its own filter: the folder, and worktrees that it names.

    Blocks.
    """
    names_by_folder: dict[Path, list[str]] = {}
    for glob in wanted.globs:
        root, rest = _innermost(folder.path, glob)
        if rest:  # the root itself is no file
            names_by_folder.setdefault(root, []).append(rest)
    for root, globs in names_by_folder.items():
        if root == folder.path:
            yield folder, wanted if len(globs) == len(wanted.globs) else compile_filter(globs)
        else:
            yield Folder(root.name, root), compile_filter(globs)


def _innermost(folder: Path, glob: str) -> tuple[Path, str]:
    """The innermost worktree that the fixed part of a glob leads into, and the rest of the glob in it.

    The folder itself and the whole glob if there is none.
    """
    parts, fixed = glob.split("/"), fixed_parts(glob)
    for count in range(len(fixed), 0, -1):
        place = folder.joinpath(*fixed[:count])
        is_candidate = os.path.isfile(place / ".git")  # noqa: PTH113  the path's method fails for long names
        if is_candidate and is_copy(place):
            return Path(os.path.realpath(place)), "/".join(parts[count:])
    return folder, glob
