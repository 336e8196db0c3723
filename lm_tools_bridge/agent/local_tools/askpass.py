"""Hands a password to sudo once: over a private socket, to an askpass program of ours.

The folder has mode 0700, the socket 0600. Only our program gets the password, in the session of the command
and started by the real sudo, and only once. It is in no argument, variable or file, nor in a core file.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.agent.local_tools.sudo_peer import asks_for_sudo
from lm_tools_bridge.machine.files.private_folder import PrivateFolder, temporary_folder
from lm_tools_bridge.machine.files.private_socket import listening_socket
from lm_tools_bridge.machine.peers.peer_uid import unix_peer_pid, unix_peer_uid

SOCKET: Final = "askpass.sock"
_PROGRAM: Final = "askpass"
_SUDO: Final = "sudo"
_CLIENT: Final = (
    "import resource, socket, sys\n"
    "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    "with socket.socket(socket.AF_UNIX) as peer:\n"
    "    peer.connect(sys.argv[1])\n"
    "    with peer.makefile('rb') as file:\n"
    "        sys.stdout.buffer.write(file.read(65536))\n"
)
_ANSWER_S: Final = 5.0


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

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        del reader
        try:
            if not self.is_used and await self._may_ask(writer):
                self.is_used = True
                writer.write(self._password + b"\n")
                self._password = b""
                async with asyncio.timeout(_ANSWER_S):
                    await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def forget(self) -> None:
        """Drop the password, if nobody asked for it."""
        self._password = b""
        self.session.cancel()

    async def _may_ask(self, writer: asyncio.StreamWriter) -> bool:
        peer = writer.get_extra_info("socket")
        if unix_peer_uid(peer) != os.geteuid():
            return False
        pid = unix_peer_pid(peer)
        if pid is None:
            return False
        async with asyncio.timeout(_ANSWER_S):
            session = await asyncio.shield(self.session)
        try:
            if os.getsid(pid) != session:
                return False
        except OSError:
            return False
        return await asyncio.to_thread(asks_for_sudo, pid, _program(self._folder))


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
        server = await asyncio.start_unix_server(channel.answer, sock=listening)
        try:
            yield channel
        finally:
            server.close()
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
