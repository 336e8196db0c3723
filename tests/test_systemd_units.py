"""Tests of the unit files, and of the hand-over they describe with a real child process."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import manager

ROOT = Path(manager.__file__).parents[1]
UNITS = ROOT / "systemd"
SERVICE, SOCKET = "lm-tools-bridge.service", "lm-tools-bridge.socket"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux")

# Becomes the service as systemd starts it: the sockets are descriptors 3, 4 …, and LISTEN_PID is its own pid.
LAUNCHER = """
import fcntl, os, sys
fds = [int(fd) for fd in sys.argv[1].split(",")]
spare = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in fds]
for number, fd in enumerate(spare, 3):
    os.dup2(fd, number, inheritable=True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-c", sys.argv[2]])
"""
SERVER = """
import json, os, sys
from manager.systemd import listen_fds, notify
sockets = listen_fds()
told = {
    "names": {name: sock.getsockname()[1] for name, sock in sockets.items()},
    "inheritable": [sock.get_inheritable() for sock in sockets.values()],
    "left": [name for name in os.environ if name.startswith("LISTEN_")],
    "again": list(listen_fds()),
}
notify(READY=1, STATUS=json.dumps(told))
connection, _ = sockets["http"].accept()
connection.sendall(b"served")
connection.close()
notify(STOPPING=1)
"""


def directives(unit: str) -> list[tuple[str, str]]:
    lines = (UNITS / unit).read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if line and line[0] not in "#[;"]
    return [(key, value) for key, value in pairs]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        pytest.skip("systemd-analyze is not installed")
    text = (UNITS / SERVICE).read_text()
    command = next(value for key, value in directives(SERVICE) if key == "ExecStart")
    (tmp_path / SERVICE).write_text(text.replace(f"ExecStart={command}", f"ExecStart={shutil.which('true')}"))
    shutil.copy(UNITS / SOCKET, tmp_path)
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        [analyze, "--user", "verify", "--man=no", f"./{SERVICE}", f"./{SOCKET}"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)},
    )  # fmt: skip
    # An unknown directive is only a warning; other units of this machine may be warned about, too.
    assert [line for line in done.stderr.splitlines() if "lm-tools-bridge" in line] == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("unit", "key", "values"),
    [
        (SOCKET, "ListenStream", ["127.0.0.1:47100"]),
        (SOCKET, "FileDescriptorName", ["http"]),
        (SOCKET, "WantedBy", ["sockets.target"]),
        (SERVICE, "Type", ["notify"]),
        (SERVICE, "NotifyAccess", ["main"]),
        (SERVICE, "WatchdogSec", ["30"]),
        (SERVICE, "Restart", ["on-failure"]),
        (SERVICE, "RestartPreventExitStatus", ["0 3"]),
        (SERVICE, "KillMode", ["process"]),
        (SERVICE, "OOMPolicy", ["continue"]),
        (SERVICE, "ExecStart", ["%h/.local/bin/lm-tools-bridge serve"]),
        (SERVICE, "UnsetEnvironment", ["PYTHONPATH PYTHONHOME PYTHONSTARTUP"]),
    ],
)
def test_directive_that_matters_is_set_once(unit: str, key: str, values: list[str]) -> None:
    assert [value for name, value in directives(unit) if name == key] == values


def test_times_leave_room_for_what_the_manager_does() -> None:
    """It waits 75 s for its port. It stops within 40 s."""
    times = dict(directives(SERVICE))
    assert int(times["TimeoutStartSec"]) > 75
    assert int(times["TimeoutStopSec"]) > 40


def test_service_forbids_nothing_that_developer_tools_need() -> None:
    """Workspace servers and the user's tools run inside the unit and inherit its limits."""
    breaking = {
        "MemoryDenyWriteExecute", "RestrictNamespaces", "ProtectHome", "ProtectSystem", "ReadOnlyPaths",
        "PrivateTmp", "PrivateUsers", "PrivateDevices", "IPAddressDeny", "SystemCallFilter", "UMask",
        "SystemCallArchitectures", "LockPersonality", "RestrictSUIDSGID", "ProcSubset",
        "ProtectControlGroups",
    }  # fmt: skip
    assert breaking.isdisjoint(key for key, _ in directives(SERVICE))


def test_child_takes_over_sockets_by_name_and_says_it_is_ready(tmp_path: Path) -> None:
    """A client that connects before the service exists is served."""
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        socket.create_connection(first.getsockname()) as early,
    ):
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(20)
        early.settimeout(20)
        fds = (first.fileno(), second.fileno())
        environ = os.environ | {
            "LISTEN_FDS": "2", "LISTEN_FDNAMES": "http:http", "NOTIFY_SOCKET": str(tmp_path / "notify")
        }  # fmt: skip
        command = [sys.executable, "-c", LAUNCHER, ",".join(map(str, fds)), SERVER]
        with subprocess.Popen(command, cwd=ROOT, pass_fds=fds, env=environ) as service:
            try:
                ready, status = notified.recv(4096).decode().split("\n")
                assert early.recv(100) == b"served"
                assert notified.recv(4096) == b"STOPPING=1"
                assert service.wait(20) == 0
            finally:
                service.kill()
        told = json.loads(status.removeprefix("STATUS="))
        assert ready == "READY=1"
        assert told == {
            "names": {"http": first.getsockname()[1], "http-2": second.getsockname()[1]},
            "inheritable": [False, False], "left": [], "again": [],
        }  # fmt: skip
