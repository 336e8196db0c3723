"""Finds the git worktrees inside some folders that are copies of the tree around them. Blocks.

What language servers say about files in such a copy is the main tree's view of them, which is wrong there.
Paths are texts here: a path object for each folder around each file would take several times as long.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from lm_tools_bridge.machine.git_worktrees import is_copy


class ProjectCopies:
    """Looks at each directory once, so make one for each call.

    Args:
        folders: absolute and link-free. They are no copies themselves.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        texts = [folder.as_posix() for folder in folders]
        self._known: dict[str, Path | None] = dict.fromkeys(texts)
        self._begins = tuple(f"{text.rstrip('/')}/" for text in texts)

    def around(self, path: Path) -> Path | None:
        """The root of the innermost copy that a file lies in; None for the files of the project itself."""
        text = path.as_posix()
        if not text.startswith(self._begins):
            return None
        folder, below = text.rpartition("/")[0], []
        while folder and folder not in self._known:
            below.append(folder)
            folder = folder.rpartition("/")[0]
        copies_folder = self._known.get(folder)
        for place in reversed(below):
            if os.path.isfile(f"{place}/.git") and is_copy(Path(place)):
                copies_folder = Path(place)
            self._known[place] = copies_folder
        return copies_folder

    def without(self, paths: Iterable[Path]) -> set[Path]:
        """Those paths that lie in no copy."""
        return {path for path in paths if self.around(path) is None}
