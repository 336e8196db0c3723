"""Describes the machine and the versions of a run, and reads how much processor time was used."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path

LIBRARIES = ("aiohttp", "httptools", "msgspec", "uvloop", "mcp")


def processor() -> str:
    """The model name of the processor."""
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def described() -> dict[str, str]:
    """The machine, the operating system, and the versions of Python and the libraries."""
    versions = {
        "processors": f"{len(os.sched_getaffinity(0))} × {processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }
    return versions | {name: metadata.version(name) for name in LIBRARIES}


def busy_s() -> float:
    """Seconds of processor time that all programs have used since the machine started."""
    times = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = times
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """Seconds of processor time that this run and its children that have ended used."""
    return sum(os.times()[:4])
