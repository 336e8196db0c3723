"""Resolves the paths that tools get to real paths inside the workspace, and formats paths for results.

All functions that touch the disk block: call them from a thread.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lm_tools_bridge.machine.git_worktrees import are_siblings
from lm_tools_bridge.machine.marked_folder import marks_of
from lm_tools_bridge.machine.project_marks import STRONG
from lm_tools_bridge.protocol import names
from workspace_server.files.file_gate import OUTSIDE, FileGate
from workspace_server.results import well_formed
from workspace_server.tool import InvalidArguments

POINTER: Final = "/filePath"
NOT_REGULAR: Final = "not a regular file"

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|(?:file|untitled|data):", re.IGNORECASE)
_DRIVE: Final = re.compile(r"[A-Za-z]:/")

Kind = Literal["file", "directory"]


class PathNotFound(InvalidArguments):
    """The path would lie in the workspace, but nothing is there. `cause` is the operating system's word."""

    def __init__(self, cause: str) -> None:
        super().__init__(POINTER, cause)
        self.cause = cause


class OutsideWorkspace(InvalidArguments):
    """The path leads out of the workspace.

    `project` is the root of the project that an absolute path lies in, if it looks like one.
    """

    def __init__(self, message: str = OUTSIDE, project: Path | None = None) -> None:
        super().__init__(POINTER, message)
        self.project = project


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of the workspace: the name people see, and its real (link-free, absolute) path."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace: its root and its folders in order. Folder names are unique."""

    root: Path
    folders: tuple[Folder, ...]

    @classmethod
    def of(cls, root: Path) -> Workspace:
        """The workspace whose only folder is `root`; links in `root` are resolved. Blocks."""
        real = Path(os.path.realpath(root))
        return cls(root=real, folders=(Folder(real.name or str(real), real),))

    def contains(self, real: Path) -> bool:
        """Whether a link-free path lies in one of the folders (compared by components)."""
        return any(real.is_relative_to(folder.path) for folder in self.folders)

    def gate(self) -> FileGate:
        """Opens the files of the workspace, and no others."""
        return FileGate(folder.path for folder in self.folders)

    def workspace_path(self, absolute: Path) -> str | None:
        """`Folder/sub/file` for a path in the workspace, None for others. The deepest folder wins."""
        text, deepest = absolute.as_posix(), -1
        workspace_path: str | None = None
        for folder in self.folders:  # with strings: results name thousands of paths
            base = folder.path.as_posix().rstrip("/")
            if len(base) <= deepest or not text.startswith(base):
                continue
            relative = text[len(base) :]
            if relative.strip("/") and relative[0] != "/":
                continue  # its name only begins like the folder's
            deepest, workspace_path = len(base), f"{folder.name}{relative.rstrip('/')}"
        return None if workspace_path is None else well_formed(workspace_path)

    def resolve_file(self, text: str, *, must_be: Kind = "file") -> Path:
        """The real path that `text` names. Blocks.

        Accepted: `Folder/…`, absolute, or relative when exactly one folder has it; `/` or `\\`.

        Raises:
            PathNotFound: nothing is there.
            InvalidArguments: at `/filePath`.
        """
        if _URI.match(text):
            raise InvalidArguments(POINTER, "URIs are not accepted; use a path in 'filePath'.")
        if "\0" in text:
            raise InvalidArguments(POINTER, NOT_REGULAR)
        try:
            real = self._locate(text.replace("\\", "/"))
            mode = real.stat().st_mode
        except OSError as error:
            raise PathNotFound((error.strerror or str(error)).lower()) from None
        except ValueError:  # a name that the file system cannot encode
            raise InvalidArguments(POINTER, NOT_REGULAR) from None
        if must_be == "file" and not stat.S_ISREG(mode):
            raise InvalidArguments(POINTER, NOT_REGULAR)
        if must_be == "directory" and not stat.S_ISDIR(mode):
            raise InvalidArguments(POINTER, "not a directory")
        return real

    def _locate(self, text: str) -> Path:
        if text.startswith("/") or _DRIVE.match(text):
            real = Path(os.path.realpath(text)) if Path(text).is_absolute() else None
            if real is None or not self.contains(real):
                raise self.refusal_outside(real)
            return real
        return self._locate_relative(text)

    def _locate_relative(self, text: str) -> Path:
        head, _, rest = text.partition("/")
        prefixed = [self._real(folder, rest) for folder in self.folders if folder.name == head]
        plain = {folder.name: self._real(folder, text) for folder in self.folders}
        # `Folder/…` is how paths are printed, so that reading comes first: it must always lead back
        for real in prefixed:
            if real is not None and real.exists():
                return real
        there = {name: real for name, real in plain.items() if real is not None and real.exists()}
        if len(there) > 1:
            choices = ", ".join(f"{name}/{well_formed(text)}" for name in there)
            raise InvalidArguments(POINTER, f"ambiguous; use one of: {choices}")
        if there:
            return next(iter(there.values()))
        readings = prefixed + list(plain.values())
        if None in readings:
            raise OutsideWorkspace
        self._refuse_unknown_folder(head, text)
        return next(real for real in readings if real is not None)

    def refusal_outside(self, real: Path | None) -> OutsideWorkspace:
        """The refusal of a path outside the workspace, with the project that it lies in. Blocks."""
        project = None if real is None else _project_of(real)
        if project is None:
            return OutsideWorkspace()
        is_sibling = are_siblings(project, self.root)
        other = "another worktree of its repository" if is_sibling else "another project"
        return OutsideWorkspace(f"{OUTSIDE} {self.root}: it lies in {elsewhere(project, other)}", project)

    def _real(self, folder: Folder, relative: str) -> Path | None:
        """The link-free path of `relative` below `folder`, None where it leaves the workspace."""
        real = Path(os.path.realpath(folder.path / relative))
        return real if self.contains(real) else None

    def _refuse_unknown_folder(self, head: str, text: str) -> None:
        """`x/y` where no folder is or has an `x` is most likely a wrong folder name."""
        names = {folder.name for folder in self.folders}
        if "/" not in text or head in names | {".", "..", ""}:
            return
        if not any((folder.path / head).exists() for folder in self.folders):
            folder_names = ", ".join(folder.name for folder in self.folders)
            raise InvalidArguments(
                POINTER,
                f"Folder '{well_formed(head)}' is not in this workspace. Folders: {folder_names}. "
                f"None of them has {well_formed(text)}.",
            )


def elsewhere(project: Path, what: str) -> str:
    """Names another project, and says how to call a tool there."""
    root = absolute_text(project)
    return f'{root}, {what}. Call the tool there: {names.CALL_TOOL} with `cwd` "{root}"'


def _project_of(path: Path) -> Path | None:
    """The nearest folder around a path, or itself, that looks like the root of a project."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  never fails where nobody knows the home
    around = (folder for folder in (path, *path.parents[:-1]) if folder != home)
    return next((folder for folder in around if marks_of(folder) & STRONG), None)


def absolute_text(path: Path) -> str:
    """An absolute path as results carry it: `/` everywhere, valid Unicode."""
    return well_formed(path.as_posix())
