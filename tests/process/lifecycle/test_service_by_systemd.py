"""Tests of the installed service with a real systemd, where one can be started for the test."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import manager
from manager.cli.service.service_manager import SERVICE, shipped_units

ROOT = Path(manager.__file__).parents[1]
IN_NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
SCRIPT = ROOT / "tests" / "support" / "processes" / "installations" / "user_systemd.sh"
NOT_HERE = 75
NEEDED = ("unshare", "systemctl", "dbus-daemon")

# Prints what each step says, as one line of JSON.
STEPS = """
import json, subprocess, sys
def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.strip(), done.stderr.strip()
def lmtb(*words):
    return run(sys.executable, "-I", "-m", "manager", *words)
def unit(name):
    return run("systemctl", "--user", "show", "--value", "-p", name, "lm-tools-bridge.service")[1]
said = {"install": lmtb("service", "install", "--yes")}
said["first"] = lmtb("call", "calculator", '{"expression": "6*7"}', "--cwd", sys.argv[1])
said["before"] = unit("MainPID"), unit("ActiveState")
said["restart"] = lmtb("restart", "--json")
said["second"] = lmtb("call", "calculator", '{"expression": "6*7"}', "--cwd", sys.argv[1])
said["after"] = unit("MainPID"), unit("ActiveState")
said["restarts"] = unit("NRestarts")
said["status"] = lmtb("service", "status", "--json")
said["uninstall"] = lmtb("service", "uninstall", "--yes")
said["gone"] = lmtb("status")
print(json.dumps(said))
"""


@pytest.fixture
def cgroup() -> Iterator[str]:
    """The name of a cgroup for the test, which is removed afterwards."""
    name = f"lmtb-test-{os.getpid()}"
    yield name
    clean = f"umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; find /sys/fs/cgroup/{name} -depth -type d -exec rmdir {{}} +"
    subprocess.run([*IN_NAMESPACE, "sh", "-c", clean], capture_output=True, check=False, timeout=20)


@pytest.mark.timeout(120)
def test_service_is_installed_restarted_and_removed(tmp_path: Path, cgroup: str) -> None:
    missing = [one for one in NEEDED if shutil.which(one) is None]
    if missing or not Path("/lib/systemd/systemd").exists():
        pytest.skip(f"not installed: {', '.join(missing) or 'systemd'}")
    if os.geteuid() != 0:
        pytest.skip("only root can mount a cgroup file system for systemd")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / ".config" / "lm-tools-bridge"
    config.mkdir(parents=True, mode=0o700)
    (config / "config.toml").write_text(f"http_port = {port}\ngrace_s = 2\n")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    command = [*IN_NAMESPACE, str(SCRIPT), cgroup, sys.executable, "-c", STEPS, str(tmp_path / "project")]
    log = tmp_path / "out"
    with log.open("wb") as output:
        done = subprocess.run(
            command, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, check=False, timeout=100,
        )  # fmt: skip
    if done.returncode == NOT_HERE or "permission denied" in log.read_text():
        pytest.skip(f"systemd cannot run here: {log.read_text().strip()}")
    assert done.returncode == 0, log.read_text()
    said = json.loads(log.read_text().splitlines()[-1])
    assert said["install"][0] == 0, said["install"]
    assert said["first"][:2] == said["second"][:2] == [0, "42"], said
    pid, state = said["before"]
    assert (state, said["after"], said["restarts"]) == ("active", [pid, "active"], "0"), "the process stays"
    restarted = json.loads(said["restart"][1])
    assert (restarted["pid"], restarted["servers"]) == (int(pid), 1)
    status = json.loads(said["status"][1])
    assert {status[name] for name in ("installed", "current", "enabled", "active", "sameVersion")} == {True}
    assert status["manager"]["startedBy"] == "service"
    assert (said["uninstall"][0], said["gone"][0]) == (0, 5)


def documented_drop_in() -> str:
    page = (ROOT / "docs" / "operations.md").read_text()
    found = re.search(r"```ini\n(\[Service\]\n.*?)```", page, re.DOTALL)
    assert found
    return found.group(1)


@pytest.mark.parametrize(
    ("with_drop_in", "most"), [(False, 9.6), (True, 1.5)], ids=["as installed", "with the drop-in"]
)
def test_exposure_of_the_unit_is_the_documented_one(tmp_path: Path, with_drop_in: bool, most: float) -> None:
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        pytest.skip("systemd-analyze is not installed")
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    text = re.sub("(?m)^ExecStart=.*", f"ExecStart={shutil.which('true')}", shipped_units()[SERVICE])
    (tmp_path / SERVICE).write_text(text + (documented_drop_in() if with_drop_in else ""))
    done = subprocess.run(
        [analyze, "--user", "security", "--offline=true", f"--threshold={most * 10:.0f}", f"./{SERVICE}"],
        cwd=tmp_path, env={"XDG_RUNTIME_DIR": str(runtime), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Unknown" not in done.stderr
