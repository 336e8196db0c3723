"""Finds the git worktrees inside some folders that are copies of the tree around them. Blocks.

What language servers say about files in such a copy is the main tree's view of them, which is wrong there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from host.files.git_worktrees import is_copy


class ProjectCopies:
    """Looks at each directory once, so make one for each call.

    Args:
        folders: absolute and link-free. They are no copies themselves.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._known: dict[Path, Path | None] = dict.fromkeys(folders)
        self._folders = tuple(folders)

    def around(self, path: Path) -> Path | None:
        """The root of the innermost copy that a file lies in; None for the files of the project itself."""
        if not any(path.is_relative_to(folder) for folder in self._folders):
            return None
        folder, below = path.parent, []
        while folder not in self._known and folder != folder.parent:
            below.append(folder)
            folder = folder.parent
        found = self._known.get(folder)
        for place in reversed(below):
            if (place / ".git").is_file() and is_copy(place):
                found = place
            self._known[place] = found
        return found

    def without(self, paths: Iterable[Path]) -> set[Path]:
        """Those paths that lie in no copy."""
        return {path for path in paths if self.around(path) is None}
