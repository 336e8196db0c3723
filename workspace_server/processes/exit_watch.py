"""Notices the exit of a child at once, on any event loop, without reaping it.

An unreaped child keeps its pid, so signals to its group cannot hit other processes; `child_process.py` reaps.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lm_tools_bridge.machine.processes.pidfd import open_pidfd

_POLL_S: Final = 0.02


class ExitWatch:
    """Calls `ended(exit code)` once; a negative code is the signal that ended the process."""

    def __init__(self, popen: subprocess.Popen[bytes], ended: Callable[[int], None]) -> None:
        self._popen = popen
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._descriptor = open_pidfd(popen.pid)
        self._timer: asyncio.TimerHandle | None = None
        if self._descriptor is None:
            self._poll()
        else:
            self._loop.add_reader(self._descriptor, self._look)

    def close(self) -> None:
        """Watch no longer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def _poll(self) -> None:
        if not self._look():
            self._timer = self._loop.call_later(_POLL_S, self._poll)

    def _look(self) -> bool:
        code = exit_code(self._popen)
        if code is None:
            return False
        self.close()
        self._ended(code)
        return True


def exit_code(popen: subprocess.Popen[bytes]) -> int | None:
    """How the process ended, or None while it runs. It stays unreaped where the system can do that."""
    if popen.returncode is None and hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            end = os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is None:
                return None
            return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
    return popen.poll()
