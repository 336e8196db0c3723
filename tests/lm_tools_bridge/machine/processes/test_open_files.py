"""Tests of the limit of open files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lm_tools_bridge.machine.processes.open_files import connections_within


@pytest.mark.parametrize(
    ("limit", "wanted", "expected"),
    [(None, 2048, 2048), (1_048_576, 2048, 2048), (1024, 2048, 298), (64, 2048, 10), (10, 2048, 8)],
)
def test_connections_leave_room_for_other_files(limit: int | None, wanted: int, expected: int) -> None:
    assert connections_within(limit, wanted) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
def test_the_limit_is_raised_and_children_get_the_former_one() -> None:
    program = (
        "import resource, subprocess, sys\nfrom lm_tools_bridge.machine.processes.open_files import raise_limit, restore_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 100))\nassert raise_limit() == 100\n"
        "with subprocess.Popen(['sleep', '60']) as child:\n"
        "    restore_limit(child.pid)\n"
        "    print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.prlimit(child.pid, resource.RLIMIT_NOFILE))\n"
        "    child.kill()\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert said.stdout.strip() == "(100, 100) (64, 100)"
