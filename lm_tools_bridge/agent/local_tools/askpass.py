"""Hands a password to sudo once: into the pipe that an askpass program of ours passes over a private socket.

The folder has mode 0700, the socket 0600. The program never sees the password: it hands over its standard
output, and the agent writes into it once, if it is the pipe of the real sudo in the session of the command.
The password is in no argument, variable, socket or file.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.agent.local_tools.sudo_peer import asks_for_sudo
from lm_tools_bridge.machine.peer_uid import unix_peer_pid, unix_peer_uid
from lm_tools_bridge.machine.private_folder import PrivateFolder, temporary_folder
from lm_tools_bridge.machine.unix_sockets import listening_socket

SOCKET: Final = "askpass.sock"
_PROGRAM: Final = "askpass"
_SUDO: Final = "sudo"
_CLIENT: Final = (
    "import socket, sys\n"
    "with socket.socket(socket.AF_UNIX) as peer:\n"
    "    peer.connect(sys.argv[1])\n"
    "    socket.send_fds(peer, [b'1'], [1])\n"
    # the agent closes the connection when it has written; sudo must not see the end of our output before
    "    peer.recv(1)\n"
)
_ANSWER_S: Final = 5.0
"""How long one connection may take. Ours takes milliseconds; one that hands over nothing is closed then."""


class AskpassChannel:
    """Serves a password once while a command runs.

    Attributes:
        variables: what the command gets in its environment, so that its sudo asks our program.
        session: set to the id of the command's session as soon as it runs; nobody else is answered.
        is_used: whether the password was handed over.
    """

    def __init__(self, folder: Path, password: bytes) -> None:
        self.session: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.is_used = False
        self._folder = folder
        self._password = password

    @property
    def variables(self) -> dict[str, str]:
        """A PATH on which `sudo` means `sudo -A` with our program, which nothing else is told."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": f"{self._folder}{os.pathsep}{path}"}

    async def serve(self, listening: socket.socket) -> None:
        """Answer connections until cancelled, or until the system accepts no more: sudo then gets nothing."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as connections:
            with suppress(OSError):
                while True:
                    connection, _ = await loop.sock_accept(listening)
                    connections.create_task(self._answer(connection))

    def forget(self) -> None:
        """Drop the password, if nobody asked for it."""
        self._password = b""
        self.session.cancel()

    async def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                pid = unix_peer_pid(connection)
                if pid is None or unix_peer_uid(connection) != os.geteuid():
                    return
                output = await _receive_descriptor(connection)
                if output is None:
                    return
                try:
                    await self._write_password(pid, output)
                finally:
                    os.close(output)

    async def _write_password(self, pid: int, output: int) -> None:
        """Write the password to a descriptor, if it is the pipe from our program to sudo."""
        session = await asyncio.shield(self.session)
        may_ask = await asyncio.to_thread(asks_for_sudo, pid, session, _program(self._folder), output)
        if self.is_used or not may_ask:
            return
        self.is_used = True
        password, self._password = self._password, b""
        # another process that holds the pipe may have filled it: the agent must not wait for that
        os.set_blocking(output, False)
        os.write(output, password + b"\n")


async def _receive_descriptor(connection: socket.socket) -> int | None:
    """The descriptor that the other end sends with its first bytes; None if there is none."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    connection.setblocking(False)
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    # the kernel closes what is sent beyond the first descriptor
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
    return descriptors[0] if descriptors else None


@asynccontextmanager
async def askpass_channel(password: str) -> AsyncIterator[AskpassChannel]:
    """A channel for one command; removed with its folder at the end.

    Raises:
        OSError: the folder or the socket cannot be made.
    """
    private = temporary_folder()
    await asyncio.to_thread(_prepare, private)
    channel = AskpassChannel(private.path, password.encode("utf-8", "surrogateescape"))
    path = private.path / SOCKET
    try:
        listening = listening_socket(path, 4)
        server = asyncio.create_task(channel.serve(listening))
        try:
            yield channel
        finally:
            server.cancel()
            await asyncio.wait([server])
            listening.close()
            channel.forget()
    finally:
        await asyncio.to_thread(private.close)


def _prepare(private: PrivateFolder) -> None:
    """Write the two programs: ours that asks the socket, and a `sudo` that asks ours."""
    private.open()
    _write_line(private.path / _PROGRAM, f"exec {shlex.join(_program(private.path))}")
    real = shutil.which(_SUDO)
    if real is not None:
        asks = shlex.quote(str(private.path / _PROGRAM))
        _write_line(private.path / _SUDO, f'SUDO_ASKPASS={asks} exec {shlex.quote(real)} -A "$@"')


def _program(folder: Path) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _CLIENT, str(folder / SOCKET)]


def _write_line(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"#!/bin/sh\n{line}\n")
