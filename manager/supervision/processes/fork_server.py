"""Starts one fork server and lets it fork workspace servers, which start faster that way. Linux only.

The other end of the socket is `workspace_server/fork_server.py`. `fork_server_supervisor.py` keeps
one running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

from lm_tools_bridge.machine.processes.oom import end_before_others
from lm_tools_bridge.machine.processes.open_files import restore_limit
from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal import fork_server
from lm_tools_bridge.protocol.internal.fork_server import Exited, Forked, ForkRequest, Ready
from manager.supervision.processes import environment
from manager.supervision.processes.process import (
    Process,
    ProcessSpec,
    start_time,
    write_launch_line,
)
from manager.supervision.processes.server_log import open_log

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
            folder = os.open(spec.root, os.O_PATH | os.O_DIRECTORY)
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
                message, descriptors, _, _ = socket.recv_fds(
                    self._socket, fork_server.MESSAGE_LIMIT, 1, socket.MSG_CMSG_CLOEXEC
                )
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
