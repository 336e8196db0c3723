"""Runs a real manager process in temporary folders on a free port, and checks that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lm_tools_bridge.machine.process_ending import read_variables
from manager.client import Control, ManagerFault, NoManager
from manager.configuration.paths import Paths
from support.processes.timeouts import within

READY_S = 30.0
STOP_S = 45.0
RETRY_S = 0.02


def environment(folder: Path) -> dict[str, str]:
    """The environment of a user whose home and folders all lie in `folder`."""
    names = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE")
    passed_on = {name: os.environ[name] for name in names if name in os.environ}
    places = {f"LMTB_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "STATE", "RUNTIME")}
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    quiet = {"LMTB_APPROVAL_WAIT_S": "0", "LMTB_DESKTOP_NOTIFICATIONS": "false"}  # nobody is there
    ours = {"HOME": str(home), "LMTB_HTTP_PORT": "0", "LMTB_FORK_SERVERS": "false"}
    return {**passed_on, **places, **ours, **quiet}


@dataclass(slots=True)
class ManagerProcess:
    """One running manager.

    Attributes:
        process: the daemon.
        environ: what a command of the same user runs with.
        address: its MCP endpoint.
        control: its control socket.
        log: what it wrote to standard output and error.
        python: the interpreter of its installation.
    """

    process: subprocess.Popen[bytes]
    environ: dict[str, str]
    address: str
    control: Control
    log: Path
    python: str = sys.executable

    def status(self) -> dict[str, Any]:
        """The whole status."""
        return self.control.get("/mcp/status")

    def lmtb(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a verb as this user."""
        return lmtb(self.environ, *arguments, python=self.python, **options)

    def kill(self) -> None:
        """End the daemon as `kill -9` does; its workspace servers go on."""
        self.process.kill()
        self.process.wait(STOP_S)

    def stop(self) -> int:
        """End it in order (SIGTERM) and return the exit code."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)


def lmtb(
    environ: Mapping[str, str], *arguments: str, python: str = sys.executable, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    options = {"capture_output": True, "text": True, "timeout": 60, **options}
    command = [python, "-I", "-m", "manager", *arguments]
    return subprocess.run(command, env=environ, check=False, **options)


@contextmanager
def running_manager(
    folder: Path, *options: str, env: Mapping[str, str] | None = None, python: str = sys.executable
) -> Iterator[ManagerProcess]:
    """Start a manager, wait until it serves, and stop it at the end: no process of it may then be left.

    Args:
        folder: where its folders and its home are made; starting again in the same one is a restart.
        options: further options of `serve`.
        env: what comes on top of its environment.
        python: the interpreter of the installation.
    """
    environ = {**environment(folder), **(env or {})}
    paths = Paths.of_user(environ)
    control = Control(paths.control_socket)
    log = folder / "manager.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [python, "-I", "-m", "manager", "serve", *options],
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        address = _wait_until_ready(process, control, log)
        yield ManagerProcess(process, environ, address, control, log, python)
        killed = process.poll() == -signal.SIGKILL
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_S) == 0, log.read_text()
        assert killed or not left_behind(environ), log.read_text()
    finally:
        for one in left_behind(environ):
            with suppress(psutil.Error):
                one.kill()
        process.kill()
        process.wait()


def left_behind(environ: Mapping[str, str]) -> list[psutil.Process]:
    """Living processes that belong to the home of this environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if (
                read_variables(process.pid).get("HOME") == environ["HOME"]
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def left_after_stop(environ: Mapping[str, str]) -> list[psutil.Process]:
    """Those that still live a moment after `lmtb stop`.

    The program that started a manager in the background notices the manager's end, and then ends, too.
    """
    deadline = time.monotonic() + within(2)
    while (left := left_behind(environ)) and time.monotonic() < deadline:
        time.sleep(RETRY_S)
    return left


def _wait_until_ready(process: subprocess.Popen[bytes], control: Control, log: Path) -> str:
    """The address, as soon as the very process that was started says it."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(NoManager, ManagerFault):
            status = control.get("/status")
            if status["pid"] == process.pid:
                return str(status["address"])
        time.sleep(RETRY_S)
    raise AssertionError(f"the manager did not start (exit code {process.poll()}):\n{log.read_text()}")
