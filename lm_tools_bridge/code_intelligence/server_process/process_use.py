"""Measures what a process and everything it started use: memory and processor time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def memory_use(pid: int) -> int | None:
    """Resident bytes of a process and its descendants; None if it is gone. Blocks for some milliseconds."""
    sizes = _each(pid, lambda process: float(process.memory_info().rss))
    return int(sum(sizes)) if sizes else None


def processor_time(pid: int) -> float:
    """Processor seconds that a process and its living descendants used. Blocks for some milliseconds."""
    return sum(_each(pid, lambda process: sum(process.cpu_times()[:2])))


def _each(pid: int, measure: Callable[[psutil.Process], float]) -> list[float]:
    """What is measured of each; those that have ended meanwhile are left out."""
    import psutil  # most workspaces start no language server

    measures: list[float] = []
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                measures.append(measure(member))
    return measures
