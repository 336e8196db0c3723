"""Provides the demo with a temporary home, two projects, a manager of its own, and a person at a terminal.

The user's own files are not touched: the manager gets its own environment, with all folders inside the
temporary one, and a port that the system chooses.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from lm_tools_bridge.machine.process_ending import read_variables
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths


def answer_at_terminal(command: list[str], environ: dict[str, str], question: str, answer: str) -> str:
    """Run a program at its own pseudo-terminal, answer its question, and return its output.

    Raises TimeoutError if it does not end within `START_S` seconds.
    """
    ours, theirs = os.openpty()
    program = subprocess.Popen(
        command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        printed, has_answered = b"", False
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            ready, _, _ = select.select([ours], [], [], 0.5)
            chunk = _read_terminal(ours) if ready else None
            if chunk == b"" or (chunk is None and program.poll() is not None):
                program.wait(START_S)
                return printed.decode("utf-8", "replace").replace("\r\n", "\n").strip()
            printed += chunk or b""
            if not has_answered and question.encode() in printed:
                has_answered = True
                os.write(ours, answer.encode())
        raise TimeoutError(f"{Path(command[0]).name} did not end")
    finally:
        program.kill()
        program.wait()
        os.close(ours)


def _read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # EIO: on Linux, the other side of the terminal has been closed
        return b""


START_S: Final = 30.0
"""A manager starts within a second on a quiet machine; a slow one gets much longer, since a failure ends the
demo. A verb may wait as long for a server (`start_timeout_s`)."""
STOP_S: Final = 40.0
"""A manager that stops gives calls in flight 30 s, and then ends its servers."""
_RETRY_S: Final = 0.02
"""Between two attempts to reach the manager that starts: short beside the start, so that the demo does not
wait."""
_INHERITED_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
_PROJECTS: Final[Mapping[str, Mapping[str, str]]] = {
    "harbour": {
        "story.txt": "The lamp of the old lighthouse went out.\n"
        "Nobody noticed but the keeper's cat.\n"
        "It climbed the stairs in the dark.\n"
        "In the morning the ships were all in port.\n",
        "src/lighthouse.py": "LAMPS = 1\n",
    },
    "orchard": {"README.md": "# Orchard\n", "src/apples.py": "APPLES = 12  # per tree\n"},
}


class SandboxError(Exception):
    """The manager did not start or stop."""


class Sandbox:
    """The temporary folder and the processes in it. Call `close` at the end, also after an error."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lmtb-demo-")).resolve()
        self._home = self.folder / "home"
        self._log = self.folder / "manager.log"
        self._environ = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | {
            "HOME": str(self._home),
            "LMTB_CONFIG_DIR": str(self._home / "config"),
            "LMTB_STATE_DIR": str(self._home / "state"),
            "LMTB_RUNTIME_DIR": str(self._home / "run"),
        }
        self._paths = Paths.of_user(self._environ)
        self._control = Control(self._paths.control_socket)
        self._manager: subprocess.Popen[bytes] | None = None
        self._home.mkdir()
        for name, files in _PROJECTS.items():
            (self.project(name) / ".git").mkdir(parents=True)
            for file, text in files.items():
                path = self.project(name) / file
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def project(self, name: str) -> Path:
        """The folder of a sample project."""
        return self.folder / "projects" / name

    @property
    def user_tools(self) -> Path:
        """The folder of the sample user's own script tools."""
        return self._paths.config_dir / "tools"

    def answer_prompt(self, arguments: list[str], question: str, answer: str) -> str:
        """Run `lmtb` with these arguments at a terminal, answer its question, and return its output."""
        command = [sys.executable, "-I", "-m", "manager", *arguments]
        environ = {**self._environ, "NO_COLOR": "1", "TERM": "dumb"}
        return answer_at_terminal(command, environ, question, answer)

    def configure(self, text: str) -> None:
        """Write the sample user's `config.toml`; the running manager does not read it again."""
        self._paths.config_dir.mkdir(parents=True, exist_ok=True)
        self._paths.config_file.write_text(text, encoding="utf-8")

    def run(self, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run `lmtb` with these arguments in a folder, without a terminal, to its end."""
        command = [sys.executable, "-I", "-m", "manager", *arguments]
        return subprocess.run(
            command, env=self._environ, cwd=folder, capture_output=True, text=True, timeout=START_S,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def start(self) -> str:
        """Start the manager, wait until it serves, and return the address of its MCP endpoint."""
        with self._log.open("wb") as log:
            self._manager = subprocess.Popen(
                [sys.executable, "-I", "-m", "manager", "serve", "--http-port", "0"],
                env=self._environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._manager.poll() is None:
            with contextlib.suppress(NoManager, ManagerFault, ControlRefusal):
                return str(self._control.get("/status")["address"])
            time.sleep(_RETRY_S)
        raise SandboxError(f"the manager did not start (exit code {self._manager.poll()})")

    @property
    def manager_pid(self) -> int:
        """The process id of the manager."""
        return self._manager.pid if self._manager else 0

    def status(self) -> dict[str, Any]:
        """The manager's complete status."""
        return self._control.get("/mcp/status")

    def server_pid(self, name: str) -> int:
        """The process id of a project's server; 0 if none runs."""
        root = str(self.project(name))
        servers = self.status()["instanceDetails"]
        return next((int(server["pid"]) for server in servers if server["root"] == root), 0)

    def kill(self, pid: int) -> None:
        """Kill a process with SIGKILL and wait until it is gone, so that the next call does not reach it."""
        process = psutil.Process(pid)
        process.kill()
        process.wait(STOP_S)

    def stop(self) -> int:
        """Ask the manager to stop, wait for its end, and return its exit code."""
        if self._manager is None:
            raise SandboxError("there is no manager to stop")
        self._control.post("/shutdown", {"reason": "end of the demo"})
        try:
            return self._manager.wait(STOP_S)
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"the manager did not stop within {STOP_S:g} s") from error

    def processes(self) -> list[psutil.Process]:
        """Every process of this demo except this one: those with the temporary folder as their HOME."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if read_variables(process.pid).get("HOME") == str(self._home):
                    processes.append(process)
        return processes

    def last_log_lines(self) -> list[str]:
        """The manager's last log lines."""
        if not self._log.exists():
            return []
        return self._log.read_text("utf-8", "replace").splitlines()[-10:]

    def close(self, *, keep_folder: bool) -> None:
        """Kill the remaining processes and remove the folder."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self._manager is not None:
            self._manager.kill()
            self._manager.wait()
        if keep_folder:
            return
        # if the temporary folder's path is too long for a socket, the socket lies elsewhere
        outside = self._paths.control_socket.parent
        if not outside.is_relative_to(self.folder):
            shutil.rmtree(outside, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
