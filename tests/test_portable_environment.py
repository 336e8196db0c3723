"""The interpreter of `scripts/test --portable` hides what only Linux has, also from programs that it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hides Linux")
ROOT = Path(__file__).resolve().parents[1]
LOOKS = """
import os, socket, sys, tempfile
assert sys.platform == "darwin"
assert not {"pidfd_open", "waitid", "memfd_create"} & set(dir(os))
for look in (lambda: open("/proc/self/stat"), lambda: os.listdir("/proc"), lambda: os.readlink("/proc/self/exe")):
    try:
        look()
    except FileNotFoundError:
        continue
    raise AssertionError("it sees /proc")
import psutil
assert psutil.Process().ppid() > 0, "psutil is told by the kernel there"
with socket.socket(socket.AF_UNIX) as sock:
    for name in ("\\0abstract", "/tmp/" + "x" * 99):
        try:
            sock.bind(name)
        except OSError:
            continue
        raise AssertionError("macOS refuses this name")
one, other = socket.socketpair()
from lm_tools_bridge.machine.peer_uid import unix_peer_pid, unix_peer_uid
assert (unix_peer_uid(one), unix_peer_pid(one)) == (os.getuid(), os.getpid())
"""
STARTS = (
    f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', {LOOKS!r}], env={{}}, check=True)"
)


@pytest.fixture(scope="module")
def interpreter() -> Path:
    made = subprocess.run(
        [ROOT / "scripts/portable-environment"], check=True, capture_output=True, text=True, timeout=60
    )
    return ROOT / made.stdout.strip() / "bin/python"


@pytest.mark.parametrize("code", [LOOKS, STARTS], ids=["itself", "what it starts without an environment"])
def test_linux_is_hidden(interpreter: Path, code: str) -> None:
    ended = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_usual_interpreter_sees_linux() -> None:
    ended = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, timeout=60, check=False)
    assert ended.returncode != 0


def test_the_option_is_refused_where_linux_is_in_sight() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--portable", "tests/test_groups.py"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 4
    assert "needs the interpreter of scripts/portable-environment" in ended.stderr
