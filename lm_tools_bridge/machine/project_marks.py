"""Defines the marks that make a folder look like the root of a project. Pure."""

from __future__ import annotations

from typing import Final, Literal

Mark = Literal["lm-tools-bridge", "code-workspace", "vcs", "vscode"]
"""What makes a folder look like a workspace root.

`lm-tools-bridge` and `vscode`: a folder `.lm-tools-bridge/` or `.vscode/`; `code-workspace`: a file
`*.code-workspace`; `vcs`: `.git/`, `.hg/`, `.svn/`, `.jj/` or a `.git` file (worktree, submodule).
"""
STRONG: Final[frozenset[Mark]] = frozenset({"lm-tools-bridge", "code-workspace", "vcs"})
"""Marks of roots; `.vscode` alone may also lie in a folder of a larger project."""
WORKSPACE_FILE: Final = ".code-workspace"
"""How the name of a workspace file ends."""
_FOLDER_MARKS: Final[dict[str, Mark]] = {
    ".lm-tools-bridge": "lm-tools-bridge",
    ".vscode": "vscode",
    ".git": "vcs",
    ".hg": "vcs",
    ".svn": "vcs",
    ".jj": "vcs",
}


def mark_of(name: str, *, is_folder: bool, is_file: bool) -> Mark | None:
    """The mark that an entry of a folder is; None if it is none."""
    if is_folder:
        return _FOLDER_MARKS.get(name)
    if not is_file:
        return None
    return "vcs" if name == ".git" else "code-workspace" if name.endswith(WORKSPACE_FILE) else None


def may_be_mark(name: str) -> bool:
    """Whether an entry with this name can be a mark, so that it is worth a look."""
    return name in _FOLDER_MARKS or name.endswith(WORKSPACE_FILE)
