"""Runs short file operations at once on local disks, else in threads.

Network and FUSE file systems may hang for minutes and are read in threads, although handing work to a thread
costs several times as much as a local read. They may also answer from caches, and change without a new time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from lm_tools_bridge.machine.files.local_disk import are_local

LOOK_AGAIN_S: Final = 10.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


class LocalFiles:
    """Runs short file operations at once where that cannot hang, else in a thread.

    Args:
        folders: absolute and link-free.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._begins = tuple(f"{str(folder).rstrip('/')}/" for folder in folders)
        self._are_local = False
        self._look_at = 0.0

    async def run(
        self, paths: Iterable[Path], function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs
    ) -> _T:
        """The result of a function that looks at these paths; they have no links."""
        now = asyncio.get_running_loop().time()
        if now >= self._look_at:
            # the look itself may hang
            self._are_local, self._look_at = (
                await asyncio.to_thread(are_local, self._folders),
                now + LOOK_AGAIN_S,
            )
        if self._are_local and all(str(path).startswith(self._begins) for path in paths):
            return function(*args, **named)
        return await asyncio.to_thread(function, *args, **named)
