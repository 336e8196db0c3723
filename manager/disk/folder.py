"""Types for the facts about a folder: marks, problems, identity. No I/O."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from lm_tools_bridge.machine.project_marks import Mark

FolderIdentity = tuple[int, int]
"""(device, inode): equal for all paths of one folder, whatever links, mounts or letter case they use."""


class CwdProblemKind(StrEnum):
    """Why a cwd cannot be used; the values appear as `details.problem` of a refusal."""

    RELATIVE = "relative"
    MISSING = "missing"
    NOT_A_DIRECTORY = "not_a_directory"
    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    TOO_LONG = "too_long"
    SILENT = "no_answer"
    """Nothing is known about this cwd: the disk did not say in time."""
    BUSY = "busy"
    """Nothing is known about this cwd: too many other folders hang."""


class CwdProblem(msgspec.Struct, frozen=True):
    """Why a cwd was refused.

    `folder` is set for `not_a_directory` only: the folder that holds the file.
    """

    kind: CwdProblemKind
    folder: str | None = None


class Ancestor(msgspec.Struct, frozen=True):
    """One step from a cwd up to the root: its real path, its identity on disk, and its marks."""

    path: str
    device: int
    inode: int
    marks: frozenset[Mark] = frozenset()

    @property
    def identity(self) -> FolderIdentity:
        """(device, inode)."""
        return (self.device, self.inode)


class FolderFacts(msgspec.Struct, frozen=True):
    """A cwd that exists and can be read.

    `folder` is its real path. `ancestors` runs from there up to the root of the tree, which is always last.
    If the cwd is a `*.code-workspace` file, `workspace_file` is that file's real path, `folder` its folder,
    and `ancestors` begins with the file itself, so that an instance registered for the file is found.
    """

    folder: str
    ancestors: tuple[Ancestor, ...]
    workspace_file: str | None = None
