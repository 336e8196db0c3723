"""Tests the daemon's start: refusals, and the file mask during the start."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from manager import exit_codes
from manager.configuration.settings import Settings
from manager.daemon import Daemon
from manager.startup import acquisition
from support.processes.managers.manager_in_process import manager_paths, running_manager
from support.processes.timeouts import GUARD_S


async def test_a_port_that_may_not_be_bound_is_a_refusal_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(acquisition, "bind_fixed", forbidden)
    with capture_logs() as lines:
        code = await Daemon(Settings(http_port=80), manager_paths(tmp_path)).serve()
    assert code == exit_codes.HOPELESS
    (line,) = [one for one in lines if one["event"] == "start.refused"]
    assert "127.0.0.1:80" in line["why"]
    assert "http_port" in line["hint"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the mask from /proc")
async def test_the_umask_is_restored_before_another_task_runs(tmp_path: Path) -> None:
    """A workspace server that starts in that moment would keep it for its life."""

    def mask() -> str:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(line for line in lines if line.startswith("Umask:"))

    seen = {mask()}

    async def watch() -> None:
        while True:
            seen.add(mask())
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    async with running_manager(tmp_path) as manager:
        watching.cancel()
        assert manager.paths.control_socket.stat().st_mode & 0o777 == 0o600
    assert len(seen) == 1


async def test_the_log_tells_what_blocks_the_event_loop_of_a_manager(tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with running_manager(tmp_path):
            deadline = time.monotonic() + GUARD_S
            while not any(line["event"] == "event_loop.blocked" for line in lines):
                assert time.monotonic() < deadline
                time.sleep(0.01)
    (line,) = [line for line in lines if line["event"] == "event_loop.blocked"]
    assert "in test_the_log_tells_what_blocks" in line["stack"]
