"""Kills the processes that a workspace server left behind when it crashed or was killed.

Every process that a workspace server starts has a mark in its environment. Descendants inherit the mark, even
in another session or process group, or without a parent. The mark begins with the instance id.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Final

from host.pidfd import kill_if
from protocol import names

MAX_SEARCHES: Final = 20
PAUSE_S: Final = 0.02


def kill_leftovers(instance: str) -> int:
    """Kill every process with this instance's mark and return how many there were. Blocks.

    Searches again until none is left, because a process may start another one during a search.
    """
    ended: set[int] = set()
    mark = _mark(instance).encode()

    def carries_mark(pid: int) -> bool:
        return _has_mark(pid, mark)

    for _ in range(MAX_SEARCHES):
        found = find_leftovers(instance)
        if not found:
            break
        ended.update(pid for pid in found if kill_if(pid, carries_mark))
        time.sleep(PAUSE_S)
    return len(ended)


def find_leftovers(instance: str) -> list[int]:
    """The pids of this user's processes with the instance's mark, except this process.

    The manager itself has the mark if a process of a previous workspace server started it.
    """
    mark, own = _mark(instance), os.getpid()
    if sys.platform == "linux":
        return [pid for pid in _pids() if pid != own and _has_mark(pid, mark.encode())]
    return [pid for pid in _find_with_psutil(f"{instance}.") if pid != own]


def _mark(instance: str) -> str:
    return f"{names.CHILD_VARIABLE}={instance}."


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, or another user's process
        return False
    return environ.startswith(mark) or b"\0" + mark in environ


def _find_with_psutil(value: str) -> list[int]:
    import psutil  # noqa: PLC0415  slow to load, and rarely needed

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(names.CHILD_VARIABLE, "").startswith(value):
                found.append(process.pid)
    return found
