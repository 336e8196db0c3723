"""Reads how long a process ran and waited for a processor: proc_pid_stat(5), and schedstat of Linux."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from manager.routing.state.slowness import ProcessorTime

_NANO: Final = 1e-9


def of_process(pid: int) -> ProcessorTime | None:
    """What the main thread of a process had since its start; None if that is unknown."""
    if sys.platform != "linux":
        return _elsewhere(pid)
    folder = Path(f"/proc/{pid}")
    try:
        ran, waited, _ = (folder / "schedstat").read_bytes().split()
        state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return ProcessorTime(int(ran) * _NANO, int(waited) * _NANO, state == b"D")


def _elsewhere(pid: int) -> ProcessorTime | None:
    import psutil

    try:
        used = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return ProcessorTime(used.user + used.system)
