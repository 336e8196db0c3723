"""Processes that play a part: started on their processors, watched, ended with all they started."""

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
"""Longest anything may take until it answers."""
END_S = 12.0
"""From TERM to KILL: a manager gives its servers 9 s."""
T = TypeVar("T")


@dataclass(frozen=True)
class Cores:
    """Who runs where. With two processors, load and backend share the one that is not measured."""

    measured: frozenset[int]
    load: frozenset[int]
    backend: frozenset[int]

    @classmethod
    def of(cls, available: Iterable[int]) -> Cores:
        """Shared out among these processors."""
        first, *others = sorted(available)
        rest = others or [first]
        return cls(
            frozenset({first}), frozenset({rest[0]}), frozenset({rest[1] if len(rest) > 1 else rest[0]})
        )


def cores() -> Cores:
    """Those this run may use."""
    return Cores.of(os.sched_getaffinity(os.getpid()))


def start(
    *command: str,
    on: frozenset[int],
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A process on these processors, and with it all that it will start."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, on)  # inherited, so that no thread is early
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
    """A process for as long as the block lasts; whatever it started is ended with it."""
    one = start(*command, on=on, log=log, cwd=cwd, env=env)
    try:
        yield one
    finally:
        end(one)


def end(one: subprocess.Popen[bytes]) -> None:
    """TERM, patience, KILL; then its descendants."""
    family = descendants(one.pid)
    if one.poll() is None:
        one.terminate()
    try:
        one.wait(END_S)
    except subprocess.TimeoutExpired:
        one.kill()
        one.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(one.pid, signal.SIGKILL)
    for each in family:
        with contextlib.suppress(psutil.Error):  # it knows whether the pid is still the same process
            each.kill()


def descendants(pid: int) -> list[psutil.Process]:
    """All that a process started, and they."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    return [pid, *(one.pid for one in descendants(pid))]


def cpu_ns(pids: Iterable[int]) -> int:
    """The processor time that processes have used, all their threads together."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(task.read_text().split()[0])
    return total


def rss_mb(pids: Iterable[int]) -> float:
    """The memory that processes have now, each counted in full."""
    return sum(_kib(Path(f"/proc/{pid}/status"), "VmRSS") for pid in pids) / 1024


def _kib(file: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        if found := re.search(rf"^{name}:\s+(\d+) kB", file.read_text(), re.MULTILINE):
            return int(found[1])
    return 0


def patiently(ask: Callable[[], T | None], *expected: type[Exception], what: str) -> T:
    """What `ask` gives as soon as it gives something; those exceptions mean: not yet."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, *expected):
            if found := ask():
                return found
        time.sleep(0.01)
    raise TimeoutError(f"{what} was not there after {READY_S:.0f} s")
