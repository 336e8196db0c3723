"""Tests of `lmtb up` where the service is installed, with a `systemctl` that acts as it or fails."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes.managers.manager_process import left_after_stop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux")
STARTS = 'case "$*" in *start*) "{python}" -I -m manager serve --http-port 0 </dev/null >/dev/null 2>&1 & ;; esac\n'
FAILS = 'case "$*" in *is-active*) echo failed; exit 3 ;; esac\n'


class User:
    """A user without variables of ours, since those keep systemd out."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        (folder / "run").mkdir(mode=0o700)
        (self.programs / "sh").symlink_to(shutil.which("sh") or "sh")
        self.environ = {
            "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder / "run"), "PATH": str(self.programs)
        }  # fmt: skip

    def systemctl(self, script: str) -> None:
        program = self.programs / "systemctl"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self.programs}/calls\n{script}')
        program.chmod(0o755)

    def lmtb(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", "-m", "manager", *arguments], env=self.environ,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    made = User(tmp_path)
    yield made
    made.lmtb("stop")
    assert not left_after_stop(made.environ)


def test_installed_service_is_started_by_systemd(user: User) -> None:
    user.systemctl(STARTS.format(python=sys.executable))
    done = user.lmtb("up")
    assert done.returncode == 0, done.stderr
    calls = (user.programs / "calls").read_text().splitlines()
    assert "--user --no-block start lm-tools-bridge.service" in calls
    assert "Log: journalctl --user -u lm-tools-bridge.service" in done.stdout
    assert json.loads(user.lmtb("status", "--json").stdout)["ok"] is True


def test_failed_service_is_reported_with_its_journal(user: User) -> None:
    user.systemctl(FAILS)
    done = user.lmtb("up")
    assert done.returncode == 1
    assert "systemd could not start lm-tools-bridge.service" in done.stderr
    assert "Next step: read why with: journalctl --user -u lm-tools-bridge.service -n 20" in done.stderr
