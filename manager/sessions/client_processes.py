"""Finds the processes of clients on this machine, and notices their ends, for the status.

A client that ends says nothing: its connections close, as they do when it is only silent. Its process is
looked for in a thread, soon after the first request on a connection; whether it still runs is looked at when
the status is read. No request waits for either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

from lm_tools_bridge.machine.peer_process import peer_pids
from lm_tools_bridge.machine.process_facts import start_time
from manager.routing.state.clients import ClientProcess, Peer

SETTLE_S: Final = 0.1
"""Pause before a look, so that connections that come together are looked up together."""
REST: Final = 20
"""A look of 10 ms is followed by a rest of 200 ms: at most a twentieth of a processor, whatever comes."""
MAX_SOUGHT: Final = 64
"""Connections of one look; each costs a question to the kernel."""


class ClientProcesses:
    """The processes of all clients that were found."""

    def __init__(self) -> None:
        self._sought: list[Peer] = []
        self._is_due = asyncio.Event()
        self._running: dict[int, ClientProcess] = {}

    def seek(self, peer: Peer) -> None:
        """Look for the process at the other end of a connection soon, unless that was done or is due."""
        if not peer.is_sought and len(self._sought) < MAX_SOUGHT:
            peer.is_sought = True
            self._sought.append(peer)
            self._is_due.set()

    async def run(self) -> None:
        """Look for the processes of new connections until cancelled."""
        while True:
            await self._is_due.wait()
            await asyncio.sleep(SETTLE_S)
            sought, self._sought = self._sought, []
            self._is_due.clear()
            processes, used_s = await asyncio.to_thread(self._find, sought, dict(self._running))
            for peer, process in zip(sought, processes, strict=True):
                peer.process = process and self._add(process, time.monotonic())
            await asyncio.sleep(REST * used_s)

    def notice_ends(self, now: float) -> None:
        """Look which processes have ended by monotonic time `now`. Takes some microseconds for each."""
        for process in list(self._running.values()):
            if start_time(process.pid) != process.started:
                process.ended_at = now
                del self._running[process.pid]

    def _add(self, process: ClientProcess, now: float) -> ClientProcess:
        former = self._running.get(process.pid)
        if former is not None and former.started == process.started:
            return former
        if former is not None:  # its number was given to another process
            former.ended_at = now
        self._running[process.pid] = process
        return process

    @staticmethod
    def _find(
        sought: Sequence[Peer], running: Mapping[int, ClientProcess]
    ) -> tuple[list[ClientProcess | None], float]:
        """The processes, and the processor time that this took. Runs in a thread."""
        began = time.thread_time()
        pids = peer_pids([peer.ends for peer in sought], likely=running)
        starts = [None if pid is None else start_time(pid) for pid in pids]
        pairs = zip(pids, starts, strict=True)
        processes = [ClientProcess(pid, started) if pid and started else None for pid, started in pairs]
        return processes, time.thread_time() - began
