"""Starts processes on chosen processors, reads their time and memory, and ends them with their children."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

READY_S = 30.0
"""The longest time to wait until a started program answers."""
END_S = 12.0
"""Seconds from SIGTERM to SIGKILL; a manager gives its servers 9 s to stop."""
T = TypeVar("T")


@dataclass(frozen=True)
class Cores:
    """The processors of each part. With two processors, load and backend share the second one."""

    measured: frozenset[int]
    load: frozenset[int]
    backend: frozenset[int]

    @classmethod
    def of(cls, available: Iterable[int]) -> Cores:
        """Divide the available processors among the parts."""
        first, *others = sorted(available)
        rest = others or [first]
        return cls(
            frozenset({first}), frozenset({rest[0]}), frozenset({rest[1] if len(rest) > 1 else rest[0]})
        )


def cores() -> Cores:
    """The division of the processors that this run may use."""
    return Cores.of(os.sched_getaffinity(os.getpid()))


def start(
    *command: str,
    on: frozenset[int],
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process on these processors; its children inherit them."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, on)  # inherited, so that it applies to the first thread, too
    try:
        with log.open("wb") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def running(
    *command: str,
    on: frozenset[int],
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the block ends; then end it and its descendants."""
    one = start(*command, on=on, log=log, cwd=cwd, env=env)
    try:
        yield one
    finally:
        end(one)


def end(one: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, after `END_S` SIGKILL, and kill the descendants."""
    children = descendants(one.pid)
    if one.poll() is None:
        one.terminate()
    try:
        one.wait(END_S)
    except subprocess.TimeoutExpired:
        one.kill()
        one.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(one.pid, signal.SIGKILL)
    for each in children:
        with contextlib.suppress(psutil.Error):  # psutil checks that the pid was not reused
            each.kill()


def descendants(pid: int) -> list[psutil.Process]:
    """All direct and indirect children of a process."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def process_tree(pid: int) -> list[int]:
    """The pids of a process and all its descendants."""
    return [pid, *(one.pid for one in descendants(pid))]


def cpu_ns(pids: Iterable[int]) -> int:
    """The processor time that all threads of the processes have used, in nanoseconds."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(task.read_text().split()[0])
    return total


def processor_s(pids: Iterable[int]) -> float:
    """The processor time of those of the processes that are there, with that of ended threads, in seconds."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            total += time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3)
    return total


def rss_mb(pids: Iterable[int]) -> float:
    """The sum of the resident memory (RSS) of the processes, in MiB."""
    return sum(_kib(Path(f"/proc/{pid}/status"), "VmRSS") for pid in pids) / 1024


def _kib(file: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        if found := re.search(rf"^{name}:\s+(\d+) kB", file.read_text(), re.MULTILINE):
            return int(found[1])
    return 0


def wait_for(ask: Callable[[], T | None], *expected: type[Exception], what: str) -> T:
    """Poll `ask` until it returns a true value, and return that.

    Raises:
        TimeoutError: there was none within `READY_S`; OSError and `expected` exceptions do not end the wait.
    """
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, *expected):
            if found := ask():
                return found
        time.sleep(0.01)
    raise TimeoutError(f"{what} was not there after {READY_S:.0f} s")
