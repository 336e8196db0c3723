"""A sweep kills what is judged to be ours, looks again at what is unclear, and says what it could not kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from lm_tools_bridge.machine import process_ending
from lm_tools_bridge.machine.process_ending import (
    Sweep,
    Verdict,
    environment,
    find_all,
    kill_all,
    pids,
    read_variables,
)

ROOT = Path(__file__).parents[3]
MARK = {"LMTB_SWEEP": os.urandom(8).hex()}


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "print(); input()"], stdin=PIPE, stdout=PIPE, env=MARK)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_what_is_ours_is_killed_and_counted_once(child: subprocess.Popen[bytes]) -> None:
    def judge(pid: int) -> Verdict:
        return "ours" if pid == child.pid and child.poll() is None else "not ours"

    assert find_all(judge) == [child.pid]
    assert kill_all(judge) == Sweep(frozenset({child.pid}), ())
    assert child.wait() == -9
    assert kill_all(judge) == Sweep(frozenset(), ())


def test_what_is_unclear_is_looked_at_again_until_it_is_clear(child: subprocess.Popen[bytes]) -> None:
    looks = 0

    def judge(pid: int) -> Verdict:
        nonlocal looks
        if pid != child.pid or child.poll() is not None:
            return "not ours"
        looks += 1
        return "unclear" if looks == 1 else "ours"

    assert kill_all(judge).killed == {child.pid}


def test_what_stays_unclear_is_left_alone_in_the_end(child: subprocess.Popen[bytes]) -> None:
    assert kill_all(lambda pid: "unclear" if pid == child.pid else "not ours", 60) == Sweep(frozenset(), ())
    assert child.poll() is None


def test_what_cannot_be_killed_is_named(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_ending, "kill_if", lambda pid, is_ours: False)
    swept = kill_all(lambda pid: "ours" if pid == child.pid else "not ours", 0)
    assert swept == Sweep(frozenset(), (child.pid,))


def test_environments_are_those_of_the_start_and_empty_without_a_process(
    child: subprocess.Popen[bytes],
) -> None:
    found = environment(child.pid)
    assert found is not None
    assert f"LMTB_SWEEP={MARK['LMTB_SWEEP']}".encode() in found.split(b"\0")
    child.kill()
    child.wait()
    assert environment(child.pid) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what was erased")
def test_variables_behind_an_erased_one_are_read() -> None:
    program = (
        "from lm_tools_bridge.machine.own_process import erase_values\n"
        "erase_values(lambda name: name == 'FIRST')\n"
        "print(flush=True)\ninput()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=PIPE,
        stdout=PIPE,
        cwd=ROOT,
        env={"FIRST": "hunter2", "HOME": "/ada"},
    )
    assert process.stdout is not None
    process.stdout.readline()
    variables = read_variables(process.pid)
    process.communicate(b"\n")
    assert (variables["FIRST"], variables["HOME"]) == ("", "/ada")
    assert read_variables(process.pid) == {}


def test_this_process_is_never_among_them() -> None:
    assert os.getpid() not in pids()
    assert os.getppid() in pids()
