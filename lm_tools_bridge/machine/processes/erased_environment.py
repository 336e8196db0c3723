"""Erases values of variables where `/proc/PID/environ` shows them to all programs of the user. Linux only.

The kernel shows the memory in which a process got its variables when it was started. `os.environ` is a copy,
and the variables that C code and programs started without an environment of their own see become one.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_ENV_START: Final = 47
"""Field 50 of proc_pid_stat(5), counted behind the program's name."""


def erase_values(is_secret: Callable[[str], bool]) -> None:
    """Overwrite the values of variables with such names; this process and its children keep them."""
    if sys.platform != "linux":
        return
    with suppress(OSError, ValueError, IndexError):
        block = Path("/proc/self/environ").read_bytes()
        start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[_ENV_START])
        if not start or ctypes.string_at(start, len(block)) != block:
            return  # a process may move its variables
        offset = 0
        for entry in block.split(b"\0"):
            name, _, value = entry.partition(b"=")
            if value and is_secret(os.fsdecode(name)):
                os.putenv(name, value)  # a copy elsewhere, which nothing shows
                ctypes.memset(start + offset + len(name) + 1, 0, len(value))
            offset += len(entry) + 1
