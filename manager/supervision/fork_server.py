"""Keeps one fork server running and lets it fork workspace servers, which start faster that way. Linux only.

The other end of the socket is `workspace_server/fork_server.py`. A fork server that exits is replaced: it
crashed, or noticed that the installed program changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from lm_tools_bridge.backoff import backoff
from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.own_process import end_before_others, restore_limit
from lm_tools_bridge.machine.process_facts import start_time
from lm_tools_bridge.machine.unix_sockets import receive_descriptors
from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal import fork_server
from lm_tools_bridge.protocol.internal.fork_server import Exited, Forked, ForkRequest, Ready
from manager.log import logger
from manager.supervision import environment
from manager.supervision.process import Process, ProcessSpec, open_log, write_launch_line

FORK_S: Final = 5.0
"""Longest time for a fork. A server that is forked later gets no launch instructions and exits."""


class ForkServer:
    """A fork server process. It exits when this end of its socket is closed; forked servers keep running.

    Raises:
        OSError: the process could not be started.
    """

    def __init__(self, environ: Mapping[str, str], log: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output = open_log(log)
        try:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-m", "workspace_server", names.FORK_SERVER_INSTANCE],
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
                env=_environment(environ),
            )
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
            os.close(output)
        restore_limit(popen.pid)
        end_before_others(popen.pid)
        self.process = Process(popen.pid, start_time(popen.pid) or "", popen)
        self._forks: dict[str, asyncio.Future[tuple[int, int] | None]] = {}
        self._exits: dict[str, asyncio.Future[int | None]] = {}
        self._ready: asyncio.Future[bool] = self._loop.create_future()
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    async def ready(self, seconds: float) -> bool:
        """Wait until the process can fork. Returns False if it exited or took longer than `seconds`."""
        await asyncio.wait({self._ready}, timeout=seconds)
        return self._ready.done() and self._ready.result()

    async def fork(self, spec: ProcessSpec) -> Process | None:
        """Fork a workspace server. Returns None if no server was forked; the caller spawns one then.

        Raises:
            OSError: the working folder cannot be used.
        """
        pipe = self._request_fork(spec)
        if pipe is None:
            return None
        with pipe:
            forked = self._forks[spec.instance] = self._loop.create_future()
            exited = self._exits[spec.instance] = self._loop.create_future()
            try:
                await asyncio.wait({forked}, timeout=FORK_S)
            finally:
                del self._forks[spec.instance]
            if not forked.done():
                self.process.kill_group()  # it hangs; its supervisor starts another one
                return None
            if (answer := forked.result()) is None:
                return None
            write_launch_line(pipe, spec.launch_line)
        pid, pidfd = answer
        return Process(pid, start_time(pid) or "", pidfd=pidfd, exited=exited)

    def _request_fork(self, spec: ProcessSpec) -> IO[bytes] | None:
        """Send the fork request. Returns the pipe for the launch instructions; None if sending failed."""
        block = b"".join(b"%b=%b\0" % (os.fsencode(k), os.fsencode(v)) for k, v in spec.environment.items())
        message = fork_server.encode(ForkRequest(spec.instance, spec.listener.fileno(), block))
        with contextlib.ExitStack() as theirs:
            folder = os.open(spec.root, file_calls.NAME_ONLY | file_calls.FOLDER)
            theirs.callback(os.close, folder)
            output = open_log(spec.log)
            theirs.callback(os.close, output)
            read, write = os.pipe()
            theirs.callback(os.close, read)
            pipe = os.fdopen(write, "wb", buffering=0)
            try:
                socket.send_fds(self._socket, [message], [spec.listener.fileno(), read, output, folder])
            except OSError:  # the fork server exited, or does not read
                pipe.close()
                return None
            return pipe

    def _on_readable(self) -> None:
        while True:
            try:
                message, descriptors = receive_descriptors(self._socket, fork_server.MESSAGE_LIMIT, 1)
            except BlockingIOError:
                return
            except OSError:
                message, descriptors = b"", []
            if not message:
                self.close()
                return
            with contextlib.suppress(msgspec.DecodeError):
                self._handle_report(fork_server.decode_report(message), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _handle_report(self, report: fork_server.Report, descriptors: list[int]) -> None:
        """Handle one report. A descriptor that is kept is removed from `descriptors`."""
        match report:
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(True)
            case Forked(instance, pid):
                forked = self._forks.get(instance)
                if forked is not None and not forked.done() and descriptors:
                    forked.set_result((pid, descriptors.pop()))
            case Exited(instance, code):
                forked = self._forks.get(instance)
                if forked is not None and not forked.done():  # the server exited before it reported
                    forked.set_result(None)
                exited = self._exits.pop(instance, None)
                if exited is not None and not exited.done():
                    exited.set_result(code)

    def close(self) -> None:
        """Close the socket, so that the process exits. Forked servers keep running."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        if not self._ready.done():
            self._ready.set_result(False)
        for fork in self._forks.values():
            if not fork.done():
                fork.set_result(None)
        for exited in self._exits.values():
            if not exited.done():
                exited.set_result(None)
        self._exits.clear()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the fork server; `/proc` shows it for all forked servers."""
    return {**environment.inherited(environ), names.INSTANCE_VARIABLE: names.FORK_SERVER_INSTANCE}


# Long enough for a cold start from a slow disk under load; until it is ready, servers are spawned.
READY_S: Final = 60.0
# A fork server that ended by an upgrade is back at once, and one that crashes does not spin.
FIRST_PAUSE_S: Final = 0.5
# A fork server that crashes at each start must not keep a processor busy.
LONGEST_PAUSE_S: Final = 300.0
STABLE_AFTER_S: Final = 60.0
"""A fork server that ran this long was healthy: its successor is started after the shortest pause."""
LOG_NAME: Final = "template.log"


IS_SUPPORTED: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")
"""On other systems, libraries may run threads, which a fork would lose."""


class ForkServerSupervisor:
    """Owns the fork server process.

    Args:
        environ: the manager's environment, of which the fork server inherits an allow-list without secrets.
        logs_dir: folder for its log file.
        is_enabled: False disables the fork server.
        sleep, now: the clock.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        logs_dir: Path,
        *,
        is_enabled: bool,
        sleep: Callable[[float], Coroutine[Any, Any, None]],
        now: Callable[[], float],
    ) -> None:
        self._environ = environ
        self._log_file = logs_dir / LOG_NAME
        self._is_enabled = is_enabled and IS_SUPPORTED
        self._sleep = sleep
        self._now = now
        self._current: ForkServer | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the fork server; None while none is ready."""
        return self._current.process.pid if self._current is not None else None

    async def run(self) -> None:
        """Keep a fork server running until cancelled."""
        early_exits = 0
        while self._is_enabled:
            began = self._now()
            await self._run_fork_server()
            early_exits = 0 if self._now() - began > STABLE_AFTER_S else early_exits + 1
            # One process of this manager alone: there is nothing to spread.
            await self._sleep(backoff(early_exits + 1, 0.5, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S))

    async def fork(self, spec: ProcessSpec) -> Process | None:
        """Fork a workspace server. Returns None if there is no fork server or it cannot fork.

        Raises:
            OSError: the working folder cannot be used.
        """
        return None if self._current is None else await self._current.fork(spec)

    async def _run_fork_server(self) -> None:
        """Run one fork server from start to exit. Its whole process group is killed in the end."""
        try:
            fork_server = ForkServer(self._environ, self._log_file)
        except OSError as error:
            logger().warning("fork_server.failed", why=str(error))
            return
        try:
            if not await fork_server.ready(READY_S):
                logger().warning("fork_server.failed", why="not ready in time", pid=fork_server.process.pid)
                return
            self._current = fork_server
            logger().info("fork_server.ready", pid=fork_server.process.pid)
            await fork_server.process.wait()
            logger().info(
                "fork_server.exited", pid=fork_server.process.pid, code=fork_server.process.exit_code
            )
        finally:
            self._current = None
            fork_server.close()
            fork_server.process.kill_group()
            await asyncio.shield(fork_server.process.wait())
