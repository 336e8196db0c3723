"""Reads start time, memory and processor time of a process; the start time tells it from a later one."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def start_time(pid: int) -> str | None:
    """A text that is unique for each process with this pid (its start time); None if no process runs."""
    if sys.platform != "linux":
        return _start_time_elsewhere(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else f"{boot}:{int(fields[19])}"


def _start_time_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.Error:
        return None


def usage_of(pid: int) -> tuple[int, float] | None:
    """Resident memory in bytes and CPU time in seconds of a process; None if the system does not tell."""
    if sys.platform == "linux":  # a page asks for every server each second
        return _usage_in_proc(pid)
    import psutil

    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return process.memory_info().rss, times.user + times.system
    except psutil.Error:
        return None


def _usage_in_proc(pid: int) -> tuple[int, float] | None:
    """As proc_pid_stat(5) tells it: the fields utime, stime and rss."""
    try:
        _, _, stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")
        fields = stat.split(maxsplit=22)
        ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")
