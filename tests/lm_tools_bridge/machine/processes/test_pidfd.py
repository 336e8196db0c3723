"""Tests of pid file descriptors: exits are seen, and a reused pid is not killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lm_tools_bridge.machine.processes.pidfd import has_ended, kill_if, open_pidfd

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
