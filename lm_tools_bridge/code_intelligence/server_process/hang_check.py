"""Notices a language server that hangs: it answers neither a request nor a ping, and computes nothing.

What a process and everything that it started use of memory and of the processor is measured here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut, ServerGone
from lm_tools_bridge.code_intelligence.server_process.launch import Timeouts
from lm_tools_bridge.code_intelligence.wire.connection import Connection

if TYPE_CHECKING:
    import psutil


def memory_use(pid: int) -> int | None:
    """Resident bytes of a process and its descendants; None if it is gone. Blocks for some milliseconds."""
    sizes = _each(pid, lambda process: float(process.memory_info().rss))
    return int(sum(sizes)) if sizes else None


def processor_time(pid: int) -> float:
    """Processor seconds that a process and its living descendants used. Blocks for some milliseconds."""
    return sum(_each(pid, lambda process: sum(process.cpu_times()[:2])))


def _each(pid: int, measure: Callable[[psutil.Process], float]) -> list[float]:
    """What is measured of each; those that have ended meanwhile are left out."""
    import psutil  # most workspaces start no language server

    measures: list[float] = []
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                measures.append(measure(member))
    return measures


PING: Final = "$/lmToolsBridge/ping"
"""Servers do not know it: LSP demands an error as the answer, which is a sign of life like any other."""
BUSY_SHARE: Final = 0.05
"""A server that uses so much of a processor computes; it may be slow, but it does not hang."""


class HangCheck:
    """Watches one server, and ends its connection if it hangs.

    Args:
        connection: its connection.
        pid: of its process.
        timeouts: `ping_s` and `busy_s` of it.
    """

    def __init__(self, connection: Connection, pid: int, timeouts: Timeouts) -> None:
        self._connection = connection
        self._pid = pid
        self._timeouts = timeouts
        self._clock = asyncio.get_running_loop().time
        self._pinging: asyncio.Task[None] | None = None

    def given_up(self, sent_at: float) -> None:
        """A request that was sent at this time got no answer: ping the server if it was silent since."""
        silent = self._connection.heard_at < sent_at
        if silent and self._pinging is None and self._connection.ended is None:
            self._pinging = asyncio.create_task(self._ping(), name="ping")

    def stop(self) -> None:
        """Wait for no answer any more."""
        if self._pinging is not None:
            self._pinging.cancel()

    async def _ping(self) -> None:
        """Ping until there is a sign of life, or the server does nothing, or was busy for too long."""
        began = self._clock()
        ping_s = self._timeouts.ping_s
        try:
            while self._connection.ended is None:
                used = await asyncio.to_thread(processor_time, self._pid)
                with suppress(RequestFailed, RequestTimedOut, ServerGone):
                    await self._connection.request(PING, timeout_s=ping_s)
                if self._connection.heard_at >= began:
                    return
                used = await asyncio.to_thread(processor_time, self._pid) - used
                waited = self._clock() - began
                if used < BUSY_SHARE * ping_s or waited >= self._timeouts.busy_s:
                    self._connection.fail(
                        f"hangs: it answers neither a request nor a ping within {waited:.1f} s"
                    )
        finally:
            self._pinging = None
