"""Tests of the unit files, and of the hand-over they describe with a real child process."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import manager
from manager.cli.service.service_manager import SERVICE, SOCKET, shipped_units, systemd_units
from manager.exit_codes import HOPELESS
from support.processes.managers.manager_process import environment

ROOT = Path(manager.__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux")

# Becomes the service as systemd starts it: the sockets are descriptors 3, 4 …, and LISTEN_PID is its own pid.
LAUNCHER = """
import fcntl, os, sys
fds = [int(fd) for fd in sys.argv[1].split(",")]
spare = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in fds]
for number, fd in enumerate(spare, 3):
    os.dup2(fd, number, inheritable=True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[2:]])
"""
SERVER = """
import errno, json, os, sys
from manager.startup.systemd import UnusableSockets, http_socket, notify
taken = http_socket()
left = []
for fd in range(3, 3 + int(sys.argv[1])):
    try:
        os.fstat(fd)
        left.append(fd)
    except OSError as error:
        assert error.errno == errno.EBADF
told = {"left": left, "variables": [name for name in os.environ if name.startswith("LISTEN_")], "again": http_socket()}
if isinstance(taken, UnusableSockets):
    told["reason"] = taken.reason
else:
    told["port"], told["inheritable"] = taken.getsockname()[1], taken.get_inheritable()
notify(READY=1, STATUS=json.dumps(told))
if not isinstance(taken, UnusableSockets):
    connection, _ = taken.accept()
    connection.sendall(b"served")
    connection.close()
notify(STOPPING=1)
"""


def directives(unit: str) -> list[tuple[str, str]]:
    lines = shipped_units()[unit].splitlines()
    pairs = [line.split("=", 1) for line in lines if line and line[0] not in "#[;"]
    return [(key, value) for key, value in pairs]


@pytest.mark.parametrize("name", ["lmtb", "a b", 'q"uote', "per%h cent", "$HOME", "back\\slash", "it's"])
def test_systemd_accepts_the_units_for_any_program(tmp_path: Path, name: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "bin" / name
    program.parent.mkdir()
    shutil.copy(shutil.which("true") or "true", program)
    for unit, text in systemd_units(shipped_units(), [str(program)], 47123).items():
        (tmp_path / unit).write_text(text)
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


def handed_over(folder: Path, sockets: list[socket.socket], names: str | None) -> dict[str, Any]:
    """What a child says that gets these sockets as systemd passes them; it serves one connection."""
    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(folder / "notify"))
        notified.settimeout(20)
        fds = [one.fileno() for one in sockets]
        environ = os.environ | {"LISTEN_FDS": str(len(fds)), "NOTIFY_SOCKET": str(folder / "notify")}
        if names is not None:
            environ["LISTEN_FDNAMES"] = names
        command = [sys.executable, "-c", LAUNCHER, ",".join(map(str, fds)), SERVER, str(len(fds))]
        with subprocess.Popen(command, cwd=ROOT, pass_fds=fds, env=environ) as service:
            try:
                ready, status = notified.recv(4096).decode().split("\n")
                told: dict[str, Any] = json.loads(status.removeprefix("STATUS="))
                if "port" in told:
                    with socket.create_connection(("127.0.0.1", told["port"]), timeout=20) as late:
                        assert late.recv(100) == b"served"
                assert notified.recv(4096) == b"STOPPING=1"
                assert service.wait(20) == 0
            finally:
                service.kill()
    assert ready == "READY=1"
    assert (told["variables"], told["again"]) == ([], None)
    return told


@pytest.fixture
def tcp() -> Iterator[list[socket.socket]]:
    """Two listening TCP sockets."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        yield [one, other]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[socket.socket]:
    """A listening unix socket, which is of the wrong kind."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "u"))
        made.listen()
        yield made


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """A TCP socket that does not listen."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        yield made


def test_child_takes_over_the_first_socket_named_http(tmp_path: Path, tcp: list[socket.socket]) -> None:
    told = handed_over(tmp_path, tcp, "other:http")
    assert (told["port"], told["inheritable"], told["left"]) == (tcp[1].getsockname()[1], False, [4])
    assert handed_over(tmp_path / "again", tcp, "http:http")["port"] == tcp[0].getsockname()[1]


@pytest.mark.parametrize("names", [None, "", "lm-tools-bridge.socket", "unknown:unknown"])
def test_the_only_suitable_socket_needs_no_name(
    tmp_path: Path, tcp: list[socket.socket], local: socket.socket, bound: socket.socket, names: str | None
) -> None:
    port = tcp[0].getsockname()[1]
    assert handed_over(tmp_path, tcp[:1], names)["port"] == port
    told = handed_over(tmp_path / "again", [local, bound, tcp[0]], names)
    assert (told["port"], told["left"]) == (port, [5])


def test_sockets_without_a_clear_choice_are_refused(
    tmp_path: Path, tcp: list[socket.socket], local: socket.socket, bound: socket.socket
) -> None:
    two = handed_over(tmp_path, tcp, None)
    assert two["reason"] == (
        "of the sockets passed to the manager, 2 listen on TCP and none is named http "
        "(LISTEN_FDS=2, no LISTEN_FDNAMES)"
    )
    assert two["left"] == []
    none = handed_over(tmp_path / "again", [local, bound], None)
    assert "none listens on TCP" in none["reason"]
    wrong = handed_over(tmp_path / "third", [local, tcp[0]], "http:other")
    assert wrong["reason"].startswith("the socket passed as http does not listen on TCP")


def test_client_that_connects_before_the_service_exists_is_served(tcp: list[socket.socket]) -> None:
    fd = tcp[0].fileno()
    environ = os.environ | {"LISTEN_FDS": "1"}
    command = [sys.executable, "-c", LAUNCHER, str(fd), SERVER, "1"]
    with (
        socket.create_connection(tcp[0].getsockname(), timeout=20) as early,
        subprocess.Popen(command, cwd=ROOT, pass_fds=[fd], env=environ) as service,
    ):
        try:
            assert early.recv(100) == b"served"
            assert service.wait(20) == 0
        finally:
            service.kill()


def test_manager_refuses_unclear_sockets_before_it_serves(tmp_path: Path, tcp: list[socket.socket]) -> None:
    environ = environment(tmp_path) | {"LISTEN_FDS": "2"}
    fds = [one.fileno() for one in tcp]
    launcher = LAUNCHER.replace('"-c", *sys.argv[2:]', '"-I", "-m", "manager", "serve"')
    done = subprocess.run(
        [sys.executable, "-c", launcher, ",".join(map(str, fds))],
        pass_fds=fds, env=environ, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == HOPELESS
    assert "2 listen on TCP and none is named http" in done.stderr
    assert "FileDescriptorName=http" in done.stderr
