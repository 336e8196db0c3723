"""Tells whether a process is the askpass program that the real sudo started. Blocks."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lm_tools_bridge.machine.processes.process_sweep import environment

if TYPE_CHECKING:
    import psutil


def asks_for_sudo(pid: int, program: Sequence[str]) -> bool:
    """Whether a process is this program, started by the real sudo, and what it prints goes to sudo alone.

    Any process of the command can start the program, or name another one to sudo; neither may read it.

    Args:
        program: the whole command line of the askpass program.
    """
    import psutil

    try:
        asking = psutil.Process(pid)
        parent = asking.parent()
        return parent is not None and _is_sudo(parent) and _is_unchanged(asking, program)
    except (psutil.Error, OSError):
        return False


def _is_sudo(parent: psutil.Process) -> bool:
    """Whether a process became root by the file that it runs. Where root runs us, root alone says nothing."""
    if parent.uids().effective != 0:
        return False
    if sys.platform != "linux":
        return os.geteuid() != 0
    try:
        file = Path(f"/proc/{parent.pid}/exe").stat()
    except PermissionError:
        return os.geteuid() != 0  # as of every program that became another user
    return file.st_uid == 0 and bool(file.st_mode & stat.S_ISUID)


def _is_unchanged(asking: psutil.Process, program: Sequence[str]) -> bool:
    """Whether it runs our program with no other code in it, and prints into a pipe that root made."""
    if asking.cmdline() != list(program):
        return False
    variables = environment(asking.pid)
    if variables is None or any(entry.startswith((b"LD_", b"DYLD_")) for entry in variables.split(b"\0")):
        return False
    if sys.platform != "linux":
        return True
    output = Path(f"/proc/{asking.pid}/fd/1").stat()
    status = Path(f"/proc/{asking.pid}/status").read_text(encoding="utf-8", errors="replace")
    is_traced = not any(line.split() == ["TracerPid:", "0"] for line in status.splitlines())
    return stat.S_ISFIFO(output.st_mode) and output.st_uid == 0 and not is_traced
