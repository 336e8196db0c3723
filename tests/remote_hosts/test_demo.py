"""The demonstration, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import manager

ROOT = Path(manager.__file__).parents[1]
pytestmark = pytest.mark.timeout(400)


def demo(folder: Path, *options: str) -> list[str]:
    """The sentences of a demonstration that leaves nothing behind."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.remote_hosts.demo", *options], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": "tests", "TMPDIR": str(folder)}, timeout=350, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    assert not list(folder.iterdir())
    assert not [one for one in psutil.process_iter(["cmdline"]) if str(folder) in str(one.info["cmdline"])]
    return [line[12:] for line in done.stdout.splitlines()]


def test_an_agent_works_in_a_project_on_the_other_host(tmp_path: Path) -> None:
    told = demo(tmp_path)
    assert any("and is refused: the host is not added" in line for line in told)
    assert "It read stock.txt of the other host with lm_readFile, and ran ship there." in told
    assert told[-2].startswith("Managers, servers and sshd have stopped")


def test_the_program_is_really_installed_if_that_is_asked_for(tmp_path: Path) -> None:
    told = demo(tmp_path, "--install")
    assert "lmtb remote status build: not_installed." in told
    assert "lmtb remote remove build --uninstall: the line has ended." in told
