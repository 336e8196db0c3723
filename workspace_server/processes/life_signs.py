"""Reads what shows that a family of processes works: its members, processor time, bytes read and written.

Blocks; call it in a thread.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from lm_tools_bridge.machine.processes.process_sweep import pids, read_proc

Signs = tuple[tuple[int, int, int], ...]
"""Of each process its pid, its processor time, and the bytes that it read and wrote."""


def of_session(leader: int) -> Signs:
    """The signs of all processes in the session of `leader`. Equal ones a while later show no life."""
    return tuple(sorted(_in_proc(leader) if sys.platform == "linux" else _by_psutil(leader)))


def _in_proc(leader: int) -> Iterator[tuple[int, int, int]]:
    for pid in pids():
        try:
            fields = read_proc(pid, "stat").rpartition(b")")[2].split()
            if int(fields[3]) == leader:
                yield pid, int(fields[11]) + int(fields[12]), _bytes_moved(pid)
        except (OSError, ValueError, IndexError):
            continue  # it has just ended


def _bytes_moved(pid: int) -> int:
    """Bytes read and written, those of pipes and sockets too; 0 where the system does not tell."""
    try:
        lines = read_proc(pid, "io").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith((b"rchar", b"wchar")))


def _by_psutil(leader: int) -> Iterator[tuple[int, int, int]]:
    import psutil

    try:
        root = psutil.Process(leader)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        yield process.pid, int((times.user + times.system) * 100), 0
