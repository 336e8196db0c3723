"""Measures the machine with psutil and words what it finds. Blocks: call it from a thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.text.harmless_variables import is_harmless, is_hidden_name, without_credentials
from lm_tools_bridge.text.printable import printable

REDACTED: Final = "[redacted]"
NOT_SHOWN: Final = "[not shown]"
"""In the place of a value of which nothing is known."""
_SAMPLE_S: Final = 0.2
"""Long enough for twenty ticks of the processor's clock (100 a second), and short for who waits."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONGEST_NAME: Final = 40  # characters: with it, a row of the table has 80


class NotMeasured(Exception):
    """Something cannot be measured; the message says why."""


def cpu_usage(_: Mapping[str, Any], __: Path) -> str:
    """`CPU: 23.4%`, over a fifth of a second."""
    import psutil

    each = psutil.cpu_percent(_SAMPLE_S, percpu=True)
    return f"CPU: {sum(each) / max(1, len(each)):.1f}% of {len(each)} processors"


def memory_usage(_: Mapping[str, Any], __: Path) -> str:
    """Memory and swap in use."""
    import psutil

    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    used = memory.total - memory.available
    return (
        f"Memory: {_size(used)} of {_size(memory.total)} ({memory.percent:.1f}%), "
        f"available {_size(memory.available)}\n"
        f"Swap: {_size(swap.used)} of {_size(swap.total)} ({swap.percent:.1f}%)"
    )


def disk_usage(arguments: Mapping[str, Any], workspace: Path) -> str:
    """How full the disk of a folder is."""
    import psutil

    path = workspace / str(arguments.get("path", ""))
    try:
        usage = psutil.disk_usage(str(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotMeasured(f"{printable(path)}: {reason}") from None
    used, total, free = _size(usage.used), _size(usage.total), _size(usage.free)
    return f"{printable(path)}: {used} of {total} ({usage.percent:.1f}%), free {free}"


def uptime(_: Mapping[str, Any], __: Path) -> str:
    """How long the machine runs, and its load."""
    import psutil

    minutes = int(time.time() - psutil.boot_time()) // 60
    days, hours = divmod(minutes // 60, 24)
    load = ", ".join(f"{average:.2f}" for average in psutil.getloadavg())
    return f"Up {days} days, {hours} hours, {minutes % 60} minutes; load {load}"


def process_list(arguments: Mapping[str, Any], _: Path) -> str:
    """The processes that use most, without their arguments, which may hold secrets."""
    import psutil

    processes = list(psutil.process_iter(["pid", "username", "name", "memory_info"]))
    for process in processes:
        with suppress(psutil.Error):
            process.cpu_percent()
    time.sleep(_SAMPLE_S)
    rows = []
    for process in processes:
        with suppress(psutil.Error):
            memory = process.info["memory_info"]
            rows.append((process.cpu_percent(), memory.rss if memory else 0, process.info))
    by_memory = arguments.get("sort_by") == "memory"
    rows.sort(key=lambda row: float(row[1] if by_memory else row[0]), reverse=True)
    lines = [f"{'PID':>8} {'CPU %':>6} {'MEMORY':>10} {'USER':<12} NAME"]
    for cpu, memory, info in rows[: int(arguments.get("count", 15))]:
        user, name = (
            printable(info["username"] or "?", width=12),
            printable(info["name"], width=_LONGEST_NAME),
        )
        lines.append(f"{info['pid']:>8} {cpu:>6.1f} {_size(memory):>10} {user:<12} {name}")
    return "\n".join(lines)


def environment(arguments: Mapping[str, Any], _: Path) -> str:
    """The variables of this program; values only of those that are known to be no secrets."""
    requested_name = arguments.get("name")
    names = sorted(os.environ) if requested_name is None else [str(requested_name)]
    if requested_name is not None and requested_name not in os.environ:
        raise NotMeasured(f"there is no variable {printable(requested_name, width=100)}")
    return "\n".join(f"{name}={_shown_value(name)}" for name in names)


MEASUREMENTS: Final[Mapping[str, Callable[[Mapping[str, Any], Path], str]]] = {
    "cpu_usage": cpu_usage,
    "memory_usage": memory_usage,
    "disk_usage": disk_usage,
    "uptime": uptime,
    "process_list": process_list,
    "environment": environment,
}
"""By the tool's name without its prefix; each takes the arguments and the project's folder."""


def _shown_value(name: str) -> str:
    if is_harmless(name):
        return without_credentials(os.environ[name])
    return REDACTED if is_hidden_name(name) else NOT_SHOWN


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"
