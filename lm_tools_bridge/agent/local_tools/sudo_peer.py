"""Tells whether a descriptor is the pipe from our askpass program to the real sudo. Blocks, on Linux only."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lm_tools_bridge.machine.process_ending import environment

if TYPE_CHECKING:
    import psutil


def asks_for_sudo(pid: int, session: int, program: Sequence[str], output: int) -> bool:
    """Whether what is written to a descriptor goes to the real sudo, which started a process in a session.

    Any process of the command can start the program, or name another program to sudo, which can leave a child
    behind and become ours. So the process alone proves nothing of who reads, only the pipe does.

    Args:
        program: the whole command line of the askpass program.
        output: the descriptor that the process handed over as its standard output.
    """
    import psutil

    try:
        asking = psutil.Process(pid)
        parent = asking.parent()
        return (
            parent is not None
            and os.getsid(pid) == os.getsid(parent.pid) == session
            and _is_sudo(parent)
            and _is_unchanged(asking, program)
            and is_pipe_of_root(output)
            and os.path.samestat(os.fstat(output), Path(f"/proc/{pid}/fd/1").stat())
            and _may_hold(parent, output)
        )
    except (psutil.Error, OSError):
        return False


def is_pipe_of_root(output: int) -> bool:
    """Whether a descriptor is the end for writing of a pipe that root made.

    The maker of a pipe owns its inode, whoever holds its ends. Its mode 0600 also keeps others from opening
    the end for reading by `/proc/PID/fd`. A FIFO in a file system, which may lie about owners, is on another
    device.
    """
    import fcntl  # only Unix has it

    status = os.fstat(output)
    return (
        stat.S_ISFIFO(status.st_mode)
        and fcntl.fcntl(output, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        and status.st_uid == 0
        and status.st_dev == _device_of_pipes()
    )


def _device_of_pipes() -> int:
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for end in ends:
            os.close(end)


def _is_sudo(parent: psutil.Process) -> bool:
    """Whether a process became root by the file that it runs. Where root runs us, root alone says nothing."""
    if parent.uids().effective != 0:
        return False
    try:
        file = Path(f"/proc/{parent.pid}/exe").stat()
    except PermissionError:
        return os.geteuid() != 0  # as of every program that became another user
    return file.st_uid == 0 and bool(file.st_mode & stat.S_ISUID)


def _is_unchanged(asking: psutil.Process, program: Sequence[str]) -> bool:
    """Whether it runs our program with no other code in it."""
    if asking.cmdline() != list(program):
        return False
    variables = environment(asking.pid)
    if variables is None or any(entry.startswith((b"LD_", b"DYLD_")) for entry in variables.split(b"\0")):
        return False
    status = Path(f"/proc/{asking.pid}/status").read_text(encoding="utf-8", errors="replace")
    return any(line.split() == ["TracerPid:", "0"] for line in status.splitlines())


def _may_hold(parent: psutil.Process, output: int) -> bool:
    """Whether a process holds the pipe, too. A user cannot see what sudo holds: there the owner counts."""
    pipe = os.fstat(output)
    folder = Path(f"/proc/{parent.pid}/fd")
    try:
        return any(os.path.samestat(pipe, entry.stat()) for entry in folder.iterdir())
    except PermissionError:
        return os.geteuid() != 0
