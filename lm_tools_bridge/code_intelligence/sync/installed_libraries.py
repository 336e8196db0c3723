"""Notices that libraries of a project were installed or removed; their folders are too large to watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.server import ServerOutdated
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from workspace_server.files.single_flight import LocalFiles

State = Mapping[str, tuple[int, int]]
YOUNG_S: Final = 5.0
"""A server that is younger is not replaced: an installation takes a while, and changes the folder often."""


class InstalledLibraries:
    """What a server read of libraries at its start, as far as times of folders and files tell.

    Args:
        specification: its kind, with the patterns of these paths.
        folders: of the workspace, absolute and link-free.
        now: monotonic seconds, as everywhere here.
    """

    def __init__(self, specification: ServerSpecification, folders: Sequence[Path], now: float) -> None:
        self._name = specification.name
        self._patterns = specification.libraries
        self._folders = folders
        self._files = LocalFiles(folders)
        self._began = now
        self._state: State | None = None

    async def look(self, now: float) -> float:
        """Look; the first time, take what is there for what the server reads.

        Returns:
            For how many seconds the server is too young to be replaced; 0 if it need not be.

        Raises:
            ServerOutdated: libraries changed since, and the server is to be replaced.
        """
        if not self._patterns:
            return 0.0
        state = await self._files.run(self._folders, _state, self._folders, self._patterns)
        if self._state is None:
            self._state = state
        if state == self._state:
            return 0.0
        if now - self._began < YOUNG_S:
            return YOUNG_S - (now - self._began)
        raise ServerOutdated(f"{self._name} is started again, because libraries of the project changed")


def _state(folders: Sequence[Path], patterns: Sequence[str]) -> State:
    """Times and inodes of what is there. Blocks."""
    states = {}
    for folder in folders:
        for pattern in patterns:
            for path in folder.glob(pattern) if "*" in pattern else (folder / pattern,):
                try:
                    status = path.stat()
                except OSError:
                    continue
                states[str(path)] = (status.st_mtime_ns, status.st_ino)
    return states
