"""Erases values of variables where `/proc/PID/environ` shows them to all programs of the user. Linux only.

The kernel shows the memory in which a process got its variables when it was started. `os.environ` is a copy.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_ENV_START: Final = 47
"""Field 50 of proc_pid_stat(5), counted behind the program's name."""


def erase_values(prefix: str) -> None:
    """Overwrite the values of variables whose names begin so; `os.environ` keeps them."""
    if sys.platform != "linux":
        return
    with suppress(OSError, ValueError, IndexError):
        shown = Path("/proc/self/environ").read_bytes()
        start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[_ENV_START])
        if not start or ctypes.string_at(start, len(shown)) != shown:
            return  # a process may move its variables
        offset = 0
        for entry in shown.split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name.startswith(prefix.encode()):
                ctypes.memset(start + offset + len(name) + 1, 0, len(value))
            offset += len(entry) + 1
