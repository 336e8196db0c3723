"""Processes with a mark are found and killed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.processes.child_processes import ENV, alive
from support.processes.timeouts import within
from workspace_server.processes import marked_processes

_NAME = "LMTB_SWEEP_TEST"


@contextmanager
def _sleeper(script: str = "echo; exec sleep 60", **env: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = ["/bin/sh", "-c", script]
    with subprocess.Popen(
        argv, env={**ENV, **env}, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_mark_is_the_whole_variable() -> None:
    value = os.urandom(8).hex()
    with (
        _sleeper(**{_NAME: value}) as ours,
        _sleeper(**{_NAME: value + "0"}),
        _sleeper(**{"X" + _NAME: value}),
        _sleeper(OTHER=f"{_NAME}={value}"),
    ):
        assert marked_processes.find_marked(_NAME, value) == [ours.pid]
        assert marked_processes.kill_marked(_NAME, value) == []
        assert ours.wait() == -9
        assert marked_processes.find_marked(_NAME, value) == []


def test_the_own_process_is_never_found() -> None:
    assert os.getpid() not in marked_processes.find_marked("PATH", os.environ["PATH"])


def test_processes_that_keep_forking_are_killed() -> None:
    value = os.urandom(8).hex()
    script = "echo; while :; do setsid sleep 60 & sleep 0.002; done"
    with _sleeper(script, **{_NAME: value}) as parent:
        assert marked_processes.kill_marked(_NAME, value) == []
        assert not alive(parent.pid)
        assert marked_processes.find_marked(_NAME, value) == []


def test_processes_without_environment_take_little_time() -> None:
    """They might be about to become another program; but some stay as they are."""
    with _sleeper("echo; exec env -i sleep 60") as bare:
        while Path(f"/proc/{bare.pid}/comm").read_text() != "sleep\n":
            time.sleep(0.002)
        assert Path(f"/proc/{bare.pid}/environ").read_bytes() == b""
        begun = time.monotonic()
        assert marked_processes.kill_marked(_NAME, "nobody") == []
        assert time.monotonic() - begun < within(1)


def test_processes_of_a_given_session_are_killed() -> None:
    with _sleeper("env -i sleep 60 & echo; wait") as leader:
        assert len(marked_processes.find_group(leader.pid)) == 2
        assert marked_processes.kill_marked(_NAME, "nobody", session=leader.pid) == []
        assert marked_processes.find_group(leader.pid) == []
