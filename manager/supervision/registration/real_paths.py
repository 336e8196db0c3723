"""Resolves the symbolic links of folders and keeps the results, because heartbeats name them every second."""

from __future__ import annotations

from typing import Final

from manager.disk.filesystem import FolderExaminer

MAX_REAL_PATHS: Final = 4096
"""Folders whose real path is kept."""


class RealPaths:
    """The real paths of folders."""

    def __init__(self, examiner: FolderExaminer) -> None:
        self._examiner = examiner
        self._known: dict[str, str] = {}

    async def of(self, folder: str) -> str:
        """The folder with symbolic links resolved; as it is if that cannot be done now."""
        known = self._known.get(folder)
        if known is not None:
            return known
        found = await self._examiner.real_path(folder)
        if found is None:
            return folder
        if len(self._known) >= MAX_REAL_PATHS:
            self._known.clear()
        self._known[folder] = found
        return found
