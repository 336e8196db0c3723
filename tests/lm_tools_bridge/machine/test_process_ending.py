"""How a process ended is said in words; a kill that the kernel did for want of memory is told from another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_tools_bridge.machine.process_ending import Ending, has_ended, kill_if, memory_kills, open_pidfd


@pytest.fixture
def counters(tmp_path: Path) -> Path:
    """The kernel's counters, as they are when the process starts."""
    file = tmp_path / "vmstat"
    file.write_text("nr_free_pages 7\noom_kill 4\ndrop_pagecache 0\n")
    return file


@pytest.mark.parametrize(("code", "words"), [
    (0, "exited with code 0"),
    (3, "exited with code 3"),
    (-15, "was ended by SIGTERM"),
    (-9, "was ended by SIGKILL"),
    (-99, "was ended by signal 99"),
    (None, "ended, nobody knows with which exit code"),
])  # fmt: skip
def test_an_exit_code_is_said_in_words(counters: Path, code: int | None, words: str) -> None:
    assert Ending(counters).words(code) == words


@pytest.mark.parametrize(
    ("kills", "told"), [(5, "ended a process for that"), (7, "ended 3 processes for that")]
)
def test_a_kill_while_memory_ran_out_names_the_probable_cause(counters: Path, kills: int, told: str) -> None:
    ending = Ending(counters)
    counters.write_text(f"oom_kill {kills}\n")
    words = ending.words(-9)
    assert words.startswith("was ended by SIGKILL, probably because memory ran out: the kernel ")
    assert told in words
    assert ending.words(-15) == "was ended by SIGTERM"
    assert Ending(counters).words(-9) == "was ended by SIGKILL"


@pytest.mark.parametrize("text", [None, "", "oom_kill many\n"])
def test_without_the_counter_no_cause_is_guessed(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "vmstat"
    if text is not None:
        file.write_text(text)
    assert memory_kills(file) is None
    assert Ending(file).words(-9) == "was ended by SIGKILL"


pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no pidfds")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_an_exit_is_seen_before_the_process_is_reaped(child: subprocess.Popen[bytes]) -> None:
    pidfd = open_pidfd(child.pid)
    assert pidfd is not None
    try:
        assert not has_ended(pidfd)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(pidfd)
    finally:
        os.close(pidfd)


def test_a_missing_process_has_no_pidfd(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    assert open_pidfd(child.pid) is None
    assert not kill_if(child.pid, lambda _: True)


def test_a_process_is_killed_only_if_the_check_holds(child: subprocess.Popen[bytes]) -> None:
    assert not kill_if(child.pid, lambda pid: pid != child.pid)
    assert child.poll() is None
    assert kill_if(child.pid, lambda pid: pid == child.pid)
    assert child.wait() == -signal.SIGKILL


def test_without_pidfds_the_signal_goes_to_the_pid(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert open_pidfd(child.pid) is None
    assert kill_if(child.pid, lambda _: False)
    assert child.wait() == -signal.SIGKILL
