"""Keeps one template process ready, and lets servers be forked from it while there is one.

A template that ends is replaced: it may have died, or have seen that the program it has loaded is no longer
the one on the disk. While there is none, servers are started anew (`process.py`), which takes longer and
gives the same.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from manager.log import logger
from manager.supervision.fork_server import ForkServer
from manager.supervision.process import Process, Start

READY_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 300.0
WORTHY_S: Final = 60.0
"""One that lived so long was sound; its successor is started after the first pause."""
LOG_NAME: Final = "template.log"


POSSIBLE: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")
"""Elsewhere libraries may hold threads that a fork would lose."""


class ForkServerSupervisor:
    """The one owner of template processes.

    Args:
        environ: our environment, of which a template gets named variables and no secrets.
        logs_dir: where its output goes.
        wanted: whether there is to be one at all.
        sleep, now: the clock.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        logs_dir: Path,
        *,
        wanted: bool,
        sleep: Callable[[float], Coroutine[Any, Any, None]],
        now: Callable[[], float],
    ) -> None:
        self._environ = environ
        self._log_file = logs_dir / LOG_NAME
        self._wanted = wanted and POSSIBLE
        self._sleep = sleep
        self._now = now
        self._current: ForkServer | None = None

    @property
    def pid(self) -> int | None:
        """The process servers are forked from now; None while there is none."""
        return self._current.process.pid if self._current is not None else None

    async def run(self) -> None:
        """Have a template until cancelled."""
        pause = FIRST_PAUSE_S
        while self._wanted:
            began = self._now()
            await self._one()
            pause = FIRST_PAUSE_S if self._now() - began > WORTHY_S else min(2 * pause, LONGEST_PAUSE_S)
            await self._sleep(pause)

    async def fork(self, start: Start) -> Process | None:
        """A server forked from the template, None where there is none that can.

        Raises:
            OSError: the working folder cannot be used.
        """
        return None if self._current is None else await self._current.fork(start)

    async def _one(self) -> None:
        """One template from its start to its end; nothing of it is left, whatever happens."""
        try:
            made = ForkServer(self._environ, self._log_file)
        except OSError as error:
            logger().warning("template.failed", why=str(error))
            return
        try:
            if not await made.ready(READY_S):
                logger().warning("template.failed", why="it did not become ready", pid=made.process.pid)
                return
            self._current = made
            logger().info("template.ready", pid=made.process.pid)
            await made.process.wait()
            logger().info("template.ended", pid=made.process.pid, code=made.process.exit_code)
        finally:
            self._current = None
            made.close()
            made.process.kill_group()
            await asyncio.shield(made.process.wait())
