"""Tests of the sweep that kills marked processes which left the process group of their server."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lm_tools_bridge.protocol import names
from manager.supervision.processes import leftovers
from support.processes.timeouts import within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and signals of POSIX")

DETACHED = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()}\\n")
{then}
"""
"""Leaves group, session and parent; then writes its pid to a file."""
FORK_LOOP = """
while True:
    if os.fork():
        time.sleep(0.002)
    else:
        os.setsid()
        time.sleep(60)
        os._exit(0)
"""


@pytest.fixture
def instance() -> str:
    """A unique instance id, so that no other test has processes with its mark."""
    return f"i-{secrets.token_hex(4)}"


class MarkedProcesses:
    """Starts detached processes, and kills those that still run on close."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[psutil.Process] = []

    def start_detached(self, environ: dict[str, str], then: str = "time.sleep(60)") -> psutil.Process:
        """A process that has left its parent, group and session."""
        pid_file = self._folder / f"pid-{len(self._started)}"
        code = DETACHED.replace("{then}", then)
        subprocess.run([sys.executable, "-I", "-c", code, str(pid_file)], env=environ, check=True)
        deadline = time.monotonic() + within(5)
        while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        self._started.append(psutil.Process(int(pid_file.read_text())))
        return self._started[-1]

    def close(self) -> None:
        for process in self._started:
            if process.is_running():
                process.kill()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[MarkedProcesses]:
    made = MarkedProcesses(tmp_path)
    yield made
    made.close()


def mark(instance: str, rest: str = "x1") -> dict[str, str]:
    return {names.CHILD_VARIABLE: f"{instance}.{rest}"}


def is_running(process: psutil.Process) -> bool:
    """Whether it runs; a killed one may stay a zombie for a moment."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_all_marked_processes_are_killed(instance: str, processes: MarkedProcesses) -> None:
    """The mark may be the first or last variable, with any suffix."""
    some = [
        processes.start_detached(mark(instance)),
        processes.start_detached({"A": "1", **mark(instance, "other")}),
        processes.start_detached({**mark(instance), "Z": "1"}),
    ]
    assert sorted(leftovers.find_leftovers(instance)) == sorted(one.pid for one in some)
    assert leftovers.kill_leftovers(instance) >= len(some)
    assert not any(map(is_running, some))
    assert leftovers.kill_leftovers(instance) == 0


def test_processes_without_exactly_this_mark_are_left_alone(
    instance: str, processes: MarkedProcesses
) -> None:
    """Another instance, a longer id, no mark, and the mark in another variable or in a value."""
    value = mark(instance)[names.CHILD_VARIABLE]
    others = [
        processes.start_detached(mark("i-00000000")),
        processes.start_detached(mark(f"{instance}1")),
        processes.start_detached({names.CHILD_VARIABLE: instance}),
        processes.start_detached({}),
        processes.start_detached({f"X{names.CHILD_VARIABLE}": value}),
        processes.start_detached({"TEXT": f"{names.CHILD_VARIABLE}={value}"}),
        processes.start_detached({names.INSTANCE_VARIABLE: instance}),
    ]
    ours = processes.start_detached(mark(instance))
    assert leftovers.kill_leftovers(instance) >= 1
    assert not is_running(ours)
    assert all(map(is_running, others))


def test_a_process_that_keeps_forking_is_killed_with_its_children(
    instance: str, processes: MarkedProcesses
) -> None:
    parent = processes.start_detached(mark(instance), FORK_LOOP)
    leftovers.kill_leftovers(instance)
    assert not is_running(parent)
    assert leftovers.find_leftovers(instance) == []


def test_nothing_is_found_where_nothing_was_started(instance: str) -> None:
    assert leftovers.find_leftovers(instance) == []
    assert os.getpid() not in leftovers.find_leftovers("")
