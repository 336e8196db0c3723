"""Runs managers as real processes (`python -m manager serve`), for tests of signals and crashes.

Everything that a manager starts inherits HOME, here a folder of the test. So the process table itself tells which
processes are left (`ManagerHome.processes`), whatever the manager believes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from lm_tools_bridge.machine.process_ending import read_variables
from lm_tools_bridge.protocol.names import FORK_SERVER_INSTANCE
from manager.client import Control, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.supervision.fork_server import IS_SUPPORTED

QUICK: dict[str, object] = {"match_wait_s": 0, "announce_hold_s": 0.05, "grace_s": 5}
"""Settings that keep tests short. Each can be overridden."""
BOTH_WAYS = pytest.mark.parametrize("home", [False, True], indirect=True, ids=["started", "forked"])
"""Marks tests whose `home` makes managers that start servers anew, and managers that fork them."""
START_S = 20.0
STOP_S = 20.0
VERB_S = 90.0
"""Longer than a verb waits by itself: trust waits a minute for servers to list their tools."""


@dataclass(slots=True)
class ManagerProcess:
    """One manager. `log` holds its standard error; `address` is empty until it is ready."""

    process: asyncio.subprocess.Process
    log: Path
    address: str = ""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def port(self) -> int:
        """The port of its endpoint."""
        return int(self.address.removesuffix("/mcp").rpartition(":")[2])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def ended(self, within_s: float = STOP_S) -> int:
        """Its exit code, once it has ended by itself."""
        return await asyncio.wait_for(self.process.wait(), within_s)

    async def killed(self) -> None:
        """Kill it, and only it, without a word."""
        self.send(signal.SIGKILL)
        await self.ended()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a verb of the command line ended with and printed."""

    code: int
    out: str
    err: str


class ManagerHome:
    """One user's folders, on which managers are started; `forks` is whether their servers may be forked.

    `environ` comes on top of the environment of everything.

    Attributes:
        python: the interpreter that runs another installation of the program.
    """

    def __init__(
        self, folder: Path, *, forks: bool = False, environ: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.python: str | None = None
        self._forks = forks
        self._environ = {
            **{name: os.environ[name] for name in ("PATH", "SSL_CERT_FILE") if name in os.environ},
            "HOME": str(folder / "home"),
            "LMTB_CONFIG_DIR": str(folder / "config"),
            "LMTB_STATE_DIR": str(folder / "state"),
            "LMTB_RUNTIME_DIR": str(folder / "run"),
            "LMTB_FORK_SERVERS": str(forks),
            **(environ or {}),
        }
        (folder / "home").mkdir(parents=True)
        self.paths = Paths.of_user(self._environ)
        self.control = Control(self.paths.control_socket)
        self._managers: list[ManagerProcess] = []

    @property
    def environ(self) -> dict[str, str]:
        """What programs of this user run with."""
        return dict(self._environ)

    async def launch(
        self, *, cwd: Path | None = None, prefix: Sequence[str] = (), **settings: object
    ) -> ManagerProcess:
        """Start a manager and do not wait for it. `prefix` is a program that is to start it."""
        log = self.folder / f"manager-{len(self._managers)}.log"
        flags = [
            text
            for name, value in {"http_port": 0, **QUICK, **settings}.items()
            for text in (f"--{name.replace('_', '-')}", str(value))
        ]
        with log.open("wb") as stream:
            process = await asyncio.create_subprocess_exec(
                *prefix, self.python or sys.executable, "-I", "-m", "manager", "serve", *flags,
                stdin=asyncio.subprocess.DEVNULL, stdout=stream, stderr=stream,
                cwd=cwd or self.folder, env=self._environ,
            )  # fmt: skip
        self._managers.append(ManagerProcess(process, log))
        return self._managers[-1]

    async def start(self, **options: Any) -> ManagerProcess:
        """Start a manager and wait until it answers on its control socket, and can fork if it may."""
        manager = await self.launch(**options)
        await self.ready(manager)
        if self._forks and IS_SUPPORTED:
            await until(
                lambda: "fork_server.ready" in manager.log.read_text(), START_S, manager.log.read_text
            )
        return manager

    async def ready(self, manager: ManagerProcess) -> None:
        """Wait until this manager, and no other one, answers on the control socket."""
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(NoManager, ManagerFault):
                status = await asyncio.to_thread(self.control.get, "/status")
                if status["pid"] == manager.pid:
                    manager.address = status["address"]
                    return
            assert manager.process.returncode is None, manager.log.read_text()
            assert time.monotonic() < deadline, manager.log.read_text()
            await asyncio.sleep(0.02)

    async def lmtb(
        self, *arguments: str, cwd: Path | None = None, prefix: Sequence[str] = (), given: str = ""
    ) -> CommandResult:
        """Run a verb of the command line as this user. `prefix` is a program that is to start it."""
        process = await asyncio.create_subprocess_exec(
            *prefix, self.python or sys.executable, "-I", "-m", "manager", *arguments,
            stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd or self.folder, env=self._environ,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(given.encode()), VERB_S)
        assert process.returncode is not None
        return CommandResult(process.returncode, out.decode(), err.decode())

    async def status(self) -> dict[str, Any]:
        """The running manager's whole status."""
        return await asyncio.to_thread(self.control.get, "/mcp/status")

    async def server_pids(self) -> dict[str, int]:
        """Workspace id -> process id of its server, as the running manager says."""
        return {one["workspace"]: one["pid"] for one in (await self.status())["instanceDetails"]}

    def processes(self, word: str = "") -> dict[int, str]:
        """Process id -> command line of everything that lives on these folders; `word` is part of it."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if read_variables(process.pid).get("HOME") == self._environ["HOME"]:
                    found[process.pid] = " ".join(process.cmdline())
        return {pid: line for pid, line in found.items() if word in line}

    def servers(self) -> set[int]:
        """Process ids of all workspace servers, known to a manager or not; not the template they are forked from.

        One look at the process table tells both apart: a template that ended between two would count as a server.
        """
        lines = self.processes("workspace_server")
        return {pid for pid, line in lines.items() if f"workspace_server {FORK_SERVER_INSTANCE}" not in line}

    async def emptied(self, within_s: float) -> None:
        """Wait until nothing is left of these folders.

        Raises:
            AssertionError: something still lives after so many seconds.
        """
        await until(lambda: not self.processes(), within_s, self.processes)

    async def close(self) -> None:
        """Stop what still runs, in order; then nothing may be left, whatever the test did."""
        for pid in self.processes("manager serve"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            await self.emptied(STOP_S)
        finally:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for manager in self._managers:
                await manager.ended()
            await asyncio.sleep(0)  # the loop lets go of an ended process one turn later


@contextlib.asynccontextmanager
async def manager_home(folder: Path, **options: Any) -> AsyncIterator[ManagerHome]:
    """Folders for managers. At the end all of them are stopped, and none may have left a process behind."""
    home = ManagerHome(folder, **options)
    try:
        yield home
    finally:
        await home.close()


async def until(
    holds: Callable[[], object], within_s: float = 10.0, explain: Callable[[], object] = lambda: ""
) -> None:
    """Wait until it holds.

    Raises:
        AssertionError: it still does not after so many seconds; with the explanation.
    """
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, explain()
        await asyncio.sleep(0.02)
