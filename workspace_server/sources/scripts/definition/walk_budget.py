"""Limits how much of a project's tools folders is looked at, over all folders of a source. Pure.

A project that nobody trusted yet can bring any number of folders and files. They are counted before they are
read, so that they cost neither memory nor time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_TOOLS: Final = 2_000
MAX_FOLDERS: Final = 10_000
MAX_FILES: Final = 20_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Size of all files of the tools and libraries together."""
MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024
"""Size of all `tool.toml` together, which are parsed."""


@dataclass(slots=True)
class WalkBudget:
    """What may still be looked at in one check."""

    tools: int = MAX_TOOLS
    folders: int = MAX_FOLDERS
    files: int = MAX_FILES
    bytes: int = MAX_BYTES
    manifest_bytes: int = MAX_MANIFEST_BYTES

    def take_folder(self) -> bool:
        """Count a folder; returns whether it may be listed."""
        self.folders -= 1
        return self.folders >= 0

    def take_tool(self, files: int, size: int, manifest_size: int) -> bool:
        """Count a tool with its files and their bytes; returns whether it may be read."""
        self.tools -= 1
        self.manifest_bytes -= manifest_size
        return self.take_files(files, size) and min(self.tools, self.manifest_bytes) >= 0

    def take_files(self, files: int, size: int) -> bool:
        """Count files and their bytes; returns whether they may be read."""
        self.files -= files
        self.bytes -= size
        return min(self.files, self.bytes) >= 0
