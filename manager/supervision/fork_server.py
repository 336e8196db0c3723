"""One template process, from which workspace servers are forked: started, asked, heard, ended. Linux only.

What it is from within is `workspace_server/fork_server.py`; when there is one, and which, is
`fork_server_supervisor.py`.
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

from manager.supervision.process import (
    SECRETS,
    Process,
    Start,
    child_environment,
    give_orders,
    open_log,
    start_time,
)
from protocol import names
from protocol.internal import fork_server
from protocol.internal.fork_server import Exited, Forked, ForkRequest, Ready

FORK_S: Final = 5.0
"""How long a fork may take; then the server is started anew, and one that comes too late gets no orders."""


class ForkServer:
    """A template process. It ends when this end of its socket is closed; its servers go on.

    Raises:
        OSError: it could not be started.
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
        self.process = Process(popen.pid, start_time(popen.pid) or "", popen)
        self._forks: dict[str, asyncio.Future[tuple[int, int] | None]] = {}
        self._exits: dict[str, asyncio.Future[int | None]] = {}
        self._ready: asyncio.Future[bool] = self._loop.create_future()
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._hear)

    async def ready(self, seconds: float) -> bool:
        """Wait until servers can be forked; False where that took too long, or it ended."""
        await asyncio.wait({self._ready}, timeout=seconds)
        return self._ready.done() and self._ready.result()

    async def fork(self, start: Start) -> Process | None:
        """A workspace server; None where this process could not make one, and has not.

        Raises:
            OSError: the working folder cannot be used.
        """
        pipe = self._order(start)
        if pipe is None:
            return None
        with pipe:
            forked = self._forks[start.instance] = self._loop.create_future()
            exited = self._exits[start.instance] = self._loop.create_future()
            try:
                await asyncio.wait({forked}, timeout=FORK_S)
            finally:
                del self._forks[start.instance]
            if not forked.done():
                self.process.kill_group()  # it hangs; there will be another one
                return None
            if (answer := forked.result()) is None:
                return None
            give_orders(pipe, start.orders)
        pid, pidfd = answer
        return Process(pid, start_time(pid) or "", pidfd=pidfd, exited=exited)

    def _order(self, start: Start) -> IO[bytes] | None:
        """Send the order; the pipe for the orders of the server itself, None where nobody hears."""
        block = b"".join(b"%b=%b\0" % (os.fsencode(k), os.fsencode(v)) for k, v in start.environment.items())
        message = fork_server.encode(ForkRequest(start.instance, start.listener.fileno(), block))
        with contextlib.ExitStack() as theirs:
            folder = os.open(start.root, os.O_PATH | os.O_DIRECTORY)
            theirs.callback(os.close, folder)
            output = open_log(start.log)
            theirs.callback(os.close, output)
            read, write = os.pipe()
            theirs.callback(os.close, read)
            pipe = os.fdopen(write, "wb", buffering=0)
            try:
                socket.send_fds(self._socket, [message], [start.listener.fileno(), read, output, folder])
            except OSError:  # it has ended, or is too slow
                pipe.close()
                return None
            return pipe

    def _hear(self) -> None:
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
                self._understand(fork_server.decode_report(message), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _understand(self, report: fork_server.Report, descriptors: list[int]) -> None:
        """Act on what the template or a server says; a descriptor that is kept is taken out of the list."""
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
                if forked is not None and not forked.done():  # before it could say anything
                    forked.set_result(None)
                exited = self._exits.pop(instance, None)
                if exited is not None and not exited.done():
                    exited.set_result(code)

    def close(self) -> None:
        """Let it end, and its servers without it."""
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
    """What the system will show of every server forked from it; secrets come with the order only."""
    named = child_environment(environ).items()
    shown = {name: value for name, value in named if not name.startswith(SECRETS)}
    return {**shown, names.INSTANCE_VARIABLE: names.FORK_SERVER_INSTANCE}
