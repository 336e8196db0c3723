"""Extends the time limit of a start while the process shows signs of life.

The first start of `npx` and `uvx` downloads for minutes; a process that hangs shows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from workspace_server.processes import life_signs
from workspace_server.processes.child_process import ChildProcess

LOOK_S: Final = 3.0
"""Seconds between two looks at the processes; each reads a small file of every process of the machine."""


class StartWatch:
    """The start of one process.

    Args:
        child: the process.
        output: how much came on its standard output so far.
        silent_s: how long it may go on without a sign of life.
        longest_s: how long it may take in all.
        look_s: seconds between two looks.
    """

    def __init__(
        self,
        child: ChildProcess,
        output: Callable[[], int],
        *,
        silent_s: float,
        longest_s: float,
        look_s: float = LOOK_S,
    ) -> None:
        self._child = child
        self._output = output
        self._silent_s = silent_s
        self._longest_s = longest_s
        self._look_s = min(look_s, silent_s / 3)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._alive_at = self._began

    @property
    def seconds(self) -> float:
        """How long the start takes so far."""
        return self._loop.time() - self._began

    @property
    def silent_for_s(self) -> float:
        """Seconds since the last sign of life."""
        return self._loop.time() - self._alive_at

    async def extend(self, limit: asyncio.Timeout) -> None:
        """Move the limit whenever there is a sign of life, until cancelled."""
        before = await self._signs()
        while True:
            await asyncio.sleep(self._look_s)
            signs = await self._signs()
            if signs != before:
                before, self._alive_at = signs, self._loop.time()
                limit.reschedule(min(self._alive_at + self._silent_s, self._began + self._longest_s))

    async def _signs(self) -> object:
        family = await asyncio.to_thread(life_signs.of_session, self._child.pid)
        return family, self._child.stderr.received, self._output()
