"""Keeps one fork server running, and forks workspace servers from it while it runs.

A fork server that exits is replaced: it crashed, or noticed that the installed program has changed. While
none runs, `process.py` spawns servers, which takes longer and has the same result.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from manager.logs.log import logger
from manager.supervision.processes.fork_server import ForkServer
from manager.supervision.processes.process import Process, ProcessSpec

READY_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 300.0
STABLE_AFTER_S: Final = 60.0
"""A fork server that ran this long was healthy: its successor is started after the shortest pause."""
LOG_NAME: Final = "template.log"


IS_SUPPORTED: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")
"""On other systems, libraries may run threads, which a fork would lose."""


class ForkServerSupervisor:
    """Owns the fork server process.

    Args:
        environ: the manager's environment, of which the fork server inherits an allow-list without secrets.
        logs_dir: folder for its log file.
        wanted: False disables the fork server.
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
        self._wanted = wanted and IS_SUPPORTED
        self._sleep = sleep
        self._now = now
        self._current: ForkServer | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the fork server; None while none is ready."""
        return self._current.process.pid if self._current is not None else None

    async def run(self) -> None:
        """Keep a fork server running until cancelled."""
        pause = FIRST_PAUSE_S
        while self._wanted:
            began = self._now()
            await self._run_one()
            pause = FIRST_PAUSE_S if self._now() - began > STABLE_AFTER_S else min(2 * pause, LONGEST_PAUSE_S)
            await self._sleep(pause)

    async def fork(self, spec: ProcessSpec) -> Process | None:
        """Fork a workspace server. Returns None if there is no fork server or it cannot fork.

        Raises:
            OSError: the working folder cannot be used.
        """
        return None if self._current is None else await self._current.fork(spec)

    async def _run_one(self) -> None:
        """Run one fork server from start to exit. Its whole process group is killed in the end."""
        try:
            fork_server = ForkServer(self._environ, self._log_file)
        except OSError as error:
            logger().warning("fork_server.failed", why=str(error))
            return
        try:
            if not await fork_server.ready(READY_S):
                logger().warning("fork_server.failed", why="not ready in time", pid=fork_server.process.pid)
                return
            self._current = fork_server
            logger().info("fork_server.ready", pid=fork_server.process.pid)
            await fork_server.process.wait()
            logger().info(
                "fork_server.exited", pid=fork_server.process.pid, code=fork_server.process.exit_code
            )
        finally:
            self._current = None
            fork_server.close()
            fork_server.process.kill_group()
            await asyncio.shield(fork_server.process.wait())
