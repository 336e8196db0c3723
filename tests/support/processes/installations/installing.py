"""Installs third-party packages for tests with one of the scripts in `scripts/`."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

import manager

SCRIPTS = Path(manager.__file__).parents[1] / "scripts"
NOT_HERE = 75
"""A script's exit code where Node is missing or a registry cannot be reached."""


def shared_lock(factory: pytest.TempPathFactory, name: str) -> Path:
    """A lock file of all processes of one run: the parent of their folders is the same."""
    return factory.getbasetemp().parent / f"{name}.lock"


def install(
    what: str, script: str, *options: str, seconds: float, lock: Path, is_wanted: bool = True
) -> Path:
    """Install what is not installed yet, and return the folder it is in.

    Args:
        what: its name, for the reason of a skip.
        script: the file in `scripts` that installs it, and says last where.
        seconds: the longest it may take.
        lock: a file that all share who may do so at once.
        is_wanted: whether somebody asked for it; if not, no trouble with it is a failure.

    Raises:
        pytest.skip.Exception: it cannot be done here or now.
    """
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            done = subprocess.run(
                [str(SCRIPTS / script), *options], env={**os.environ, "PYTHON": sys.executable},
                capture_output=True, text=True, check=False, timeout=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip(f"{what} cannot be installed within {seconds:.0f} s")
    if done.returncode == NOT_HERE or (done.returncode and not is_wanted):
        last = done.stderr.splitlines()[-1:] or [f"exit code {done.returncode}"]
        pytest.skip(f"{what} cannot be installed: {last[0]}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1])
