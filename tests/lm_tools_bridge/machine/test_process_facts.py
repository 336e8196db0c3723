"""What the system tells of a process: by /proc on Linux, elsewhere by psutil."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from lm_tools_bridge.machine.process_facts import start_time, usage_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="compares both ways")


@pytest.fixture(params=["linux", "darwin"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The system that we take this one for."""
    monkeypatch.setattr(sys, "platform", request.param)
    return str(request.param)


@pytest.mark.usefixtures("system")
def test_a_start_is_the_same_each_time_and_another_one_for_another_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        started = start_time(other.pid)
        assert started is not None
        assert start_time(other.pid) == started
        assert start_time(os.getpid()) not in (None, started)
        other.kill()


@pytest.mark.usefixtures("system")
def test_a_zombie_does_not_run() -> None:
    """Else the secret of a server that was killed goes to whoever has its port now."""
    with subprocess.Popen(["sleep", "60"]) as other:
        assert start_time(other.pid) is not None
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(other.pid).status() == psutil.STATUS_ZOMBIE
        assert start_time(other.pid) is None


@pytest.mark.usefixtures("system")
def test_memory_and_processor_time_are_told_while_a_process_runs() -> None:
    usage = usage_of(os.getpid())
    assert usage is not None
    assert usage[0] > 1_000_000
    assert usage[1] > 0
    with subprocess.Popen(["true"]) as other:
        other.wait()
    assert usage_of(other.pid) is None
