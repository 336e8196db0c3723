"""Footprints of real processes: who started whom, and what memory is theirs alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lm_tools_bridge.machine.process_trees import children, family, footprint, proportional_memory

_PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)\n"
    "held = bytearray(b'x') * 30_000_000\n"
    "print(child.pid, flush=True)\n"
    "sys.stdin.read()\n"
    "child.stdin.close(); child.wait()\n"
)


@pytest.fixture
def parent() -> Iterator[tuple[int, int]]:
    """The pids of a process that holds 30 MB, and of its child."""
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.communicate()


def test_a_family_is_a_process_with_all_that_it_started(parent: tuple[int, int]) -> None:
    pid, child = parent
    assert children(pid) == [child]
    assert family(pid) == {pid, child}
    assert family(os.getpid()) >= {os.getpid(), pid, child}


def test_memory_that_only_a_process_holds_is_less_than_all_that_it_has(parent: tuple[int, int]) -> None:
    both = footprint(parent)
    assert both.processes == 2
    assert 30_000_000 < both.own < proportional_memory(parent)


def test_processes_that_have_ended_count_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert footprint([process.pid]) == (0, 0)
    assert proportional_memory([process.pid]) == 0
    assert children(process.pid) == []
    assert family(process.pid) == {process.pid}
