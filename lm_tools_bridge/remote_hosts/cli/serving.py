"""Serves this user's manager over standard input and output, for a manager elsewhere: `lmtb remote serve`."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import time
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.own_process import own_uid
from lm_tools_bridge.remote_hosts.tunnel.greeting import PROTOCOL, Greeting, encode
from lm_tools_bridge.text.printable import printable
from manager import __version__
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.runtime_tuning import loop_factory
from manager.stdio_bridge.manager_start import ManagerStarter

START_S: Final = 25.0
"""Shorter than the near end waits for the greeting (`GREETING_S`, 30 s), so that this end says why there is
none."""
_PAUSE_S: Final = 0.02
"""Between two attempts to reach a manager that starts: the line is there as soon as that is."""
_NO_PORT: Final = ("--no-tcp",)


class CannotServe(Exception):
    """This user's manager cannot be reached. The message is for people."""


class OwnManager:
    """This user's manager: the running one, or one without a port that is started for the line."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._starter = ManagerStarter(paths, options=_NO_PORT)
        self._socket: Path | None = None
        self._searching: asyncio.Task[Path] | None = None

    async def find_socket(self, target: str, *, again: bool = False) -> Path | None:
        """The socket of a target; None if there is no such target.

        Args:
            again: whether the one that was named last does not answer.

        Raises:
            OSError: the manager cannot be started.
        """
        if target not in {"mcp", "control"}:
            return None
        if self._socket is None or again:
            if self._searching is None:
                self._searching = asyncio.create_task(asyncio.to_thread(self.start), name="find manager")
                self._searching.add_done_callback(self._note_socket)
            try:
                await asyncio.shield(self._searching)
            except CannotServe as error:
                raise ConnectionRefusedError(str(error)) from error
        return self._paths.control_socket if target == "control" else self._socket

    def _note_socket(self, done: asyncio.Task[Path]) -> None:
        self._searching = None
        if not done.cancelled() and done.exception() is None:
            self._socket = done.result()

    def start(self) -> Path:
        """Start the manager unless it runs, and have it listen for lines. Blocks; returns its socket.

        Raises:
            CannotServe: that is impossible.
        """
        deadline = time.monotonic() + START_S
        while True:
            try:
                answer = Control(self._paths.control_socket).post("/tunnel", {})
                self._socket = Path(str(answer["path"]))
            except NoManager:
                problem = self._starter.start(time.monotonic())
            except ControlRefusal as error:
                version = Control.answered_by or "unknown"
                text = (
                    f"the manager there (version {version}) serves no lines: {error}; run lmtb restart there"
                )
                raise CannotServe(text) from error
            except ManagerFault as error:
                problem = str(error) if time.monotonic() > deadline else None
            else:
                return self._socket
            if problem is not None or time.monotonic() > deadline:
                raise CannotServe(problem or "the manager there does not answer")
            time.sleep(_PAUSE_S)


def serve_line() -> int:
    """Serve until the line ends; returns an exit code."""
    from lm_tools_bridge.remote_hosts.tunnel.far_end import private_pipes, serve  # loads h2

    pipes = private_pipes()
    manager = OwnManager(Paths.of_user())
    try:
        manager.start()
    except CannotServe as error:
        os.write(pipes[1], encode(_greeting(str(error))))
        return 1
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(pipes, _greeting(), manager.find_socket))
    return 0


def _greeting(problem: str | None = None) -> Greeting:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(own_uid())
    text = None if problem is None else printable(problem)[:1000]
    return Greeting(PROTOCOL, __version__, socket.gethostname()[:253], user[:64], text)
