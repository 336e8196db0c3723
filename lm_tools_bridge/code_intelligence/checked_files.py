"""Says by patterns about which files of a project a tool reports. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """The files that a tool's command line checks.

    Attributes:
        root: the folder of its configuration.
        include: patterns of files and folders; empty for all.
        exclude: patterns of those that are left out.
    """

    root: Path
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def has(self, path: Path) -> bool:
        """Whether the tool reports about the file. Files elsewhere are those of another folder."""
        if not path.is_relative_to(self.root):
            return True
        inside = path.relative_to(self.root).as_posix()
        is_included = not self.include or any(_matches(pattern, inside) for pattern in self.include)
        return is_included and not any(_matches(pattern, inside) for pattern in self.exclude)


def _matches(pattern: str, inside: str) -> bool:
    """Whether a path, or a folder that it lies in, has the pattern; both are relative to the same folder."""
    parts = inside.split("/")
    starts = {0}  # how many parts of the path the pattern may have taken so far
    for mark in pattern.split("/"):
        if mark == "**":
            starts = set(range(min(starts), len(parts) + 1))
        elif mark not in {"", "."}:
            plain = mark.replace("[", "[[]")  # brackets mean nothing here
            starts = {at + 1 for at in starts if at < len(parts) and fnmatchcase(parts[at], plain)}
        if not starts:
            return False
    return True
