"""Refuses commands that may become root, or hands a password to sudo: once, into the pipe that sudo reads.

The askpass folder has mode 0700, its socket 0600. The program never sees the password: it hands over its
standard output, and the agent writes into it once, if it is the pipe of the real sudo in the session of the
command. The password is in no argument, variable, socket or file.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import shlex
import shutil
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lm_tools_bridge.agent.interaction import Box, Interaction, Question
from lm_tools_bridge.agent.shell_commands import Word, parse, programs_in
from lm_tools_bridge.machine.own_process import own_euid
from lm_tools_bridge.machine.peer_uid import unix_peer_pid, unix_peer_uid
from lm_tools_bridge.machine.private_folder import PrivateFolder, temporary_folder
from lm_tools_bridge.machine.process_ending import environment
from lm_tools_bridge.machine.unix_sockets import listening_socket, receive_descriptors
from lm_tools_bridge.text.printable import printable

if TYPE_CHECKING:
    import psutil


# prctl(2), as linux/prctl.h numbers them
_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4


@contextmanager
def undumpable() -> Iterator[None]:
    """Forbid core files and reading of the memory for the time of the block, see prctl(2)."""
    if sys.platform != "linux":
        yield
        return
    libc = ctypes.CDLL(None)
    before = libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_DUMPABLE, max(0, before), 0, 0, 0)


def asks_for_sudo(pid: int, session: int, program: Sequence[str], output: int) -> bool:
    """Whether what is written to a descriptor goes to the real sudo, which started a process in a session.

    Any process of the command can start the program, or name another program to sudo, which can leave a child
    behind and become ours. So the process alone proves nothing of who reads, only the pipe does.

    Args:
        program: the whole command line of the askpass program.
        output: the descriptor that the process handed over as its standard output.
    """
    import psutil

    try:
        asking = psutil.Process(pid)
        parent = asking.parent()
        return (
            parent is not None
            and os.getsid(pid) == os.getsid(parent.pid) == session
            and _is_sudo(parent)
            and _is_unchanged(asking, program)
            and is_pipe_of_root(output)
            and os.path.samestat(os.fstat(output), Path(f"/proc/{pid}/fd/1").stat())
            and _may_hold(parent, output)
        )
    except (psutil.Error, OSError):
        return False


def is_pipe_of_root(output: int) -> bool:
    """Whether a descriptor is the end for writing of a pipe that root made.

    The maker of a pipe owns its inode, whoever holds its ends. Its mode 0600 also keeps others from opening
    the end for reading by `/proc/PID/fd`. A FIFO in a file system, which may lie about owners, is on another
    device.
    """
    import fcntl  # only Unix has it

    status = os.fstat(output)
    return (
        stat.S_ISFIFO(status.st_mode)
        and fcntl.fcntl(output, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        and status.st_uid == 0
        and status.st_dev == _device_of_pipes()
    )


def _device_of_pipes() -> int:
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for end in ends:
            os.close(end)


def _is_sudo(parent: psutil.Process) -> bool:
    """Whether a process became root by the file that it runs. Where root runs us, root alone says nothing."""
    if parent.uids().effective != 0:
        return False
    try:
        file = Path(f"/proc/{parent.pid}/exe").stat()
    except PermissionError:
        return own_euid() != 0  # as of every program that became another user
    return file.st_uid == 0 and bool(file.st_mode & stat.S_ISUID)


def _is_unchanged(asking: psutil.Process, program: Sequence[str]) -> bool:
    """Whether it runs our program with no other code in it."""
    if asking.cmdline() != list(program):
        return False
    variables = environment(asking.pid)
    if variables is None or any(entry.startswith((b"LD_", b"DYLD_")) for entry in variables.split(b"\0")):
        return False
    status = Path(f"/proc/{asking.pid}/status").read_text(encoding="utf-8", errors="replace")
    return any(line.split() == ["TracerPid:", "0"] for line in status.splitlines())


def _may_hold(parent: psutil.Process, output: int) -> bool:
    """Whether a process holds the pipe, too. A user cannot see what sudo holds: there the owner counts."""
    pipe = os.fstat(output)
    folder = Path(f"/proc/{parent.pid}/fd")
    try:
        return any(os.path.samestat(pipe, entry.stat()) for entry in folder.iterdir())
    except PermissionError:
        return own_euid() != 0


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
                if pid is None or unix_peer_uid(connection) != own_euid():
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
    _, descriptors = receive_descriptors(connection, 1, 1)
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


BECOMES_ROOT: Final = frozenset(
    {
        "sudo", "sudo-rs", "sudoedit", "visudo", "doas", "pkexec", "su", "su-rs", "run0", "gksu",
        "gksudo", "kdesu", "kdesudo", "lxsudo", "beesu", "ksu", "sux", "dzdo", "pbrun", "pfexec",
        "please", "runuser", "machinectl", "chroot", "nsenter", "setpriv", "capsh", "unshare", "sg",
        "newgrp", "lxc", "incus", "systemd-run", "systemd-nspawn",
    }
)  # fmt: skip
_WORDS: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?:sudo|sudo-rs|sudoedit|doas|pkexec|su|run0|runuser|machinectl)(?![A-Za-z0-9_-])|\broot@"
)
"""Whatever the words around them: in aliases, options, code and input of other programs they run as well."""
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_OF_MACHINE: Final = re.compile(
    r"(?:-[a-z]*v|--volume|--mount|--privileged|--device|--cap-add|--pid|--userns|--ipc|--security-opt|--volumes-from|-H|--host)(?:[=/.~$].*)?"
)
"""Options by which a container, whose root is often that of the machine, gets at the machine."""
_MOUNTS_PROJECT: Final = re.compile(
    r"""["']?(?:\.|\$PWD|\$\{PWD\}|\$\(pwd\)|`pwd`)(?:/[\w./-]*)?:[\w./-]+(?::[a-z,]+)?["']?"""
)


class Root(Enum):
    """Whether a command becomes root."""

    NO = "no"
    YES = "yes"
    UNCLEAR = "unclear"
    """It cannot be parsed, or names programs that only the shell will know. Counts as yes."""


def becomes_root(command: str) -> Root:
    """Whether a command may start a program that gives it the rights of root, anywhere in it."""
    programs = programs_in(command)
    bare = re.sub(r"\\\n|[\\'\"]", "", command)
    if programs.names & BECOMES_ROOT or _WORDS.search(command) or _WORDS.search(bare):
        return Root.YES
    if any(_is_of_machine(entry.typed) for entry in parse(command).commands):
        return Root.YES
    return Root.NO if programs.is_whole and programs.is_decided else Root.UNCLEAR


def _is_of_machine(words: Sequence[Word]) -> bool:
    """Whether a container gets more of the machine than the project's folder."""
    if not any((word.value or "").rpartition("/")[2] in _CONTAINERS for word in words):
        return False
    for at, word in enumerate(words):
        if _OF_MACHINE.fullmatch(word.text):
            mounted = words[at + 1].text if at + 1 < len(words) else ""
            if (
                word.text not in {"-v", "--volume"}
                or not _MOUNTS_PROJECT.fullmatch(mounted)
                or ".." in mounted
            ):
                return True
    return False


PROMPT: Final = "[sudo] password: "
REFUSED: Final = "root commands are off: {why}. Nothing ran. Next step: " + (
    'run it yourself, or set sudo = "askpass" in [agent]'
)
NO_PASSWORD: Final = "no password was given, so the command was not run"  # noqa: S105  a sentence
_LONGEST: Final = 2_000


class Sudo:
    """What happens to commands with sudo.

    Args:
        interaction: the person who has the password.
        allowed: whether commands with sudo may run at all.
    """

    def __init__(self, interaction: Interaction, *, allowed: bool) -> None:
        self.allowed = allowed
        self._interaction = interaction

    async def password(self, command: str) -> str | None:
        """Show the command and ask for the password, which is not shown; None if none was given."""
        self._interaction.box(Box.SUDO, [f"Command:  {printable(command, width=_LONGEST)}"])
        return await self._interaction.ask(Question(PROMPT, hidden=True)) or None
