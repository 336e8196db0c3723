"""One random fault after another, chosen by a seed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from manager.client import ControlRefusal, ManagerFault, NoManager
from scripts.reliability.nonce_clients import Record
from support.processes.managers.manager_home import ManagerHome, ManagerProcess
from support.processes.managers.stdio_families import children

PAUSE_S = (0.2, 1.5)
"""Between two faults."""
STILL_S = (0.5, 4.0)
"""How long a process stands still."""
REFUSED_S = 3.0
"""How long no file of the manager can grow."""


class RandomFaults:
    """Does faults to one manager and to the servers of some workspaces.

    Attributes:
        manager: the one that runs now.
        workspaces: the ids of those whose servers get faults.
        counts: how often each fault happened.
    """

    def __init__(
        self,
        home: ManagerHome,
        manager: ManagerProcess,
        settings: Mapping[str, object],
        chance: random.Random,
        record: Record,
    ) -> None:
        self.manager = manager
        self.workspaces: list[str] = []
        self.counts: Counter[str] = Counter()
        self._home = home
        self._settings = dict(settings)
        self._chance = chance
        self._record = record
        of_servers: Mapping[str, Callable[[], Awaitable[bool]]] = {
            "workspace server killed": lambda: self._signal_server(signal.SIGKILL),
            "workspace server told to end": lambda: self._signal_server(signal.SIGTERM),
            "workspace server stands still": lambda: self._signal_server(signal.SIGSTOP),
            "stdio server killed": lambda: self._signal_source(signal.SIGKILL),
            "stdio server stands still": lambda: self._signal_source(signal.SIGSTOP),
        }
        of_manager: Mapping[str, Callable[[], Awaitable[bool]]] = {
            "manager killed and started": self._kill_manager,
            "manager stopped and started": self._restart_manager,
            "manager stands still": self._pause_manager,
            "no file of the manager can grow": self._refuse_writes,
        }
        self._kinds = {**of_servers, **of_manager}
        self._unharmful = {*of_servers, "no file of the manager can grow"}

    async def one(self) -> None:
        """Wait a moment, then do one fault."""
        await asyncio.sleep(self._chance.uniform(*PAUSE_S))
        name = self._chance.choice(sorted(self._kinds))
        self._record.is_timed = name in self._unharmful
        try:
            if await self._kinds[name]():
                self.counts[name] += 1
        finally:
            self._record.is_timed = True

    async def stop_manager(self) -> None:
        """Stop the manager in order."""
        self.manager.send(signal.SIGTERM)
        await self.manager.ended(60)

    async def _server(self) -> int | None:
        """The process id of the server of a random workspace, if it runs."""
        workspace = self._chance.choice(self.workspaces)
        with contextlib.suppress(NoManager, ManagerFault, ControlRefusal):
            return (await self._home.server_pids()).get(workspace)
        return None

    async def _signal_server(self, number: signal.Signals) -> bool:
        pid = await self._server()
        return pid is not None and await self._signal(pid, number)

    async def _signal_source(self, number: signal.Signals) -> bool:
        pid = await self._server()
        found = sorted(await asyncio.to_thread(children, self._home, pid)) if pid else []
        return bool(found) and await self._signal(self._chance.choice(found), number)

    async def _signal(self, pid: int, number: signal.Signals) -> bool:
        """Send a signal; a process that stands still is woken up after some time."""
        try:
            os.kill(pid, number)
            if number == signal.SIGSTOP:
                await asyncio.sleep(self._chance.uniform(*STILL_S))
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return False
        return True

    async def _kill_manager(self) -> bool:
        await self.manager.killed()
        await self._start()
        return True

    async def _restart_manager(self) -> bool:
        await self.stop_manager()
        await self._start()
        return True

    async def _start(self) -> None:
        self.manager = await self._home.start(http_port=self.manager.port, **self._settings)

    async def _pause_manager(self) -> bool:
        return await self._signal(self.manager.pid, signal.SIGSTOP)

    async def _refuse_writes(self) -> bool:
        """The manager cannot write any file, as on a full disk."""
        before = resource.prlimit(self.manager.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.manager.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        await asyncio.sleep(REFUSED_S)
        resource.prlimit(self.manager.pid, resource.RLIMIT_FSIZE, before)
        return True
