"""One manager for programs that are started with different environments: clients pass HOME and PATH only, or little more."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.processes.managers.manager_process import left_behind

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the variables are those of XDG"),
]

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


class User:
    """A user without variables of ours, whose session has the folders of XDG; `bare` is what clients pass."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.bare = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self.sdk = {**self.bare, "LOGNAME": "ada", "SHELL": "/bin/sh", "TERM": "xterm", "USER": "ada"}
        self.full = dict(self.bare)
        for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            (home / name).mkdir(mode=0o700)
            self.full[name] = str(home / name)
        config = home / "XDG_CONFIG_HOME" / "lm-tools-bridge"
        config.mkdir()
        (config / "config.toml").write_text(f"http_port = {port}\nfork_servers = false\n")
        (home / "proj" / ".git").mkdir(parents=True)

    def lmtb(self, environ: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a verb in the project with this environment."""
        command = [sys.executable, "-I", "-m", "manager", *arguments]
        return subprocess.run(
            command,
            env=dict(environ),
            cwd=self.home / "proj",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def connected(self, environ: Mapping[str, str]) -> dict[str, object]:
        """The first answer that a client with this environment gets from `lmtb connect`."""
        command = [sys.executable, "-I", "-m", "manager", "connect"]
        with subprocess.Popen(
            command, env=dict(environ), cwd=self.home / "proj", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            process.stdin.flush()
            answer: dict[str, object] = json.loads(process.stdout.readline())
            process.stdin.close()
        return answer

    def managers(self) -> set[int]:
        """The process ids of this user's managers."""
        lines = {one.pid: " ".join(one.cmdline()) for one in left_behind(self.bare)}
        return {pid for pid, line in lines.items() if "manager serve" in line}


@pytest.fixture
def user() -> Iterator[User]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with TemporaryDirectory(dir="/tmp", prefix="home-") as home:
        made = User(Path(home), port)
        try:
            yield made
        finally:
            for pid in made.managers():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + 20
            while left_behind(made.bare):
                assert time.monotonic() < deadline
                time.sleep(0.02)


@pytest.mark.parametrize("client", ["bare", "sdk"])
def test_a_client_finds_the_manager_that_a_shell_started(user: User, client: str) -> None:
    assert user.lmtb(user.full, "up").returncode == 0
    managers = user.managers()
    assert "result" in user.connected(getattr(user, client))
    assert user.managers() == managers
    assert len(managers) == 1


@pytest.mark.parametrize("client", ["bare", "sdk"])
def test_a_shell_finds_and_stops_the_manager_that_a_client_started(user: User, client: str) -> None:
    assert user.lmtb(user.full, "up").returncode == 0  # the shell's folders are known from here on
    assert user.lmtb(user.full, "stop").returncode == 0
    assert "result" in user.connected(getattr(user, client))
    (pid,) = user.managers()
    assert json.loads(user.lmtb(user.full, "status", "--json").stdout)["pid"] == pid
    assert "already running" in user.lmtb(user.full, "up").stdout
    doctor = json.loads(user.lmtb(user.full, "doctor", "--json").stdout)
    said = {check["check"]: check for check in doctor["checks"]}
    assert (said["manager"]["level"], said["port"]["level"]) == ("ok", "ok")
    assert not (user.home / ".config" / "lm-tools-bridge").exists()
    assert user.lmtb(user.full, "stop").returncode == 0
    assert user.managers() == set()


def test_verbs_write_where_the_manager_reads_that_a_client_started_first(user: User) -> None:
    """It knows nothing of the folders of shells; the port is that of its own configuration."""
    (user.home / ".config").mkdir()
    (user.home / "XDG_CONFIG_HOME" / "lm-tools-bridge").rename(user.home / ".config" / "lm-tools-bridge")
    assert "result" in user.connected(user.bare)
    doctor = json.loads(user.lmtb(user.full, "doctor", "--json").stdout)
    said = {check["check"]: check["message"] for check in doctor["checks"]}
    assert said["config folder"].startswith(f"{user.home}/.config/lm-tools-bridge")
    assert said["state folder"].startswith(f"{user.home}/.local/state/lm-tools-bridge")
    assert "is not used: the running manager has the default" in said["folders"]
    assert "stopped" in user.lmtb(user.full, "stop").stdout


def test_a_killed_manager_in_a_folder_that_outlives_it_blocks_no_other_start(user: User) -> None:
    assert user.lmtb(user.full, "up").returncode == 0
    for pid in user.managers():
        os.kill(pid, signal.SIGKILL)
    assert (user.home / ".local/state/lm-tools-bridge/run/control.sock").is_socket()
    assert "result" in user.connected(user.bare)
    assert "stopped" in user.lmtb(user.full, "stop").stdout


def test_doctor_names_a_manager_with_another_runtime_folder_and_how_to_end_it(user: User) -> None:
    environ = {**user.full, "LMTB_RUNTIME_DIR": str(user.home / "elsewhere")}
    assert user.lmtb(environ, "up").returncode == 0
    (pid,) = user.managers()
    checks = json.loads(user.lmtb(user.full, "doctor", "--json").stdout)["checks"]
    (port,) = [check for check in checks if check["check"] == "port"]
    assert f"a manager of this program (pid {pid}" in port["message"]
    assert "VS Code" not in port["message"]
    assert port["hint"] == f"to end it: kill {pid}"
