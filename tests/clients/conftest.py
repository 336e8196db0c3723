"""Clients that others wrote; tested only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

import manager
from support.clients import Installed

HERE = Path(__file__).parent
SCRIPT = Path(manager.__file__).parents[1] / "scripts" / "clients"
NOT_HERE = 75
"""The script's exit code where Node is missing or a registry cannot be reached."""
INSTALL_S = 240.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those out that run a client, or give them time: the first one installs the clients."""
    ours = [item for item in items if "clients" in getattr(item, "fixturenames", ())]
    if not config.getoption("--clients"):
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]
    for item in ours:
        item.add_marker(pytest.mark.timeout(INSTALL_S + 120))


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The clients, installed."""
    # the parent is the same folder for all processes of one run
    with (tmp_path_factory.getbasetemp().parent / "clients.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            [str(SCRIPT)], env={**os.environ, "PYTHON": sys.executable},
            capture_output=True, text=True, check=False, timeout=INSTALL_S,
        )  # fmt: skip
    if done.returncode == NOT_HERE:
        pytest.skip(f"clients of others cannot be installed: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return Installed(Path(done.stdout.splitlines()[-1]))
