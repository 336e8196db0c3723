"""Replaces the manager's process by the installed program, which takes over the listening socket and lock.

The process id stays, so it does not matter who started the manager: systemd, `lmtb up` or a terminal. Clients
that connect meanwhile wait in the backlog of the socket. Not on Windows.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import MutableMapping, Sequence
from typing import Final, NoReturn

import msgspec

from lm_tools_bridge.machine.own_process import restore_limit
from manager.startup.systemd import HTTP

CHECK_S: Final = 40.0
"""Longest time for loading the installed program, which may have to be compiled first."""
LOCK_VARIABLE: Final = "LM_TOOLS_BRIDGE_LOCK"
"""Names the descriptor of the lock in the environment of the new program, which removes it."""
# SD_LISTEN_FDS_START of sd_listen_fds(3).
_FIRST_FD: Final = 3
# Above all descriptors that are handed on, so that none overwrites one that is still to be copied.
_SPARE_FD: Final = 20
# Characters of the reason: a line of an error, not a flood from a program that fails.
_SHOWN: Final = 400


class Unusable(msgspec.Struct, frozen=True):
    """The installed program cannot take over, with the reason."""

    reason: str


def command(arguments: Sequence[str] = tuple(sys.argv[1:])) -> list[str]:
    """The command that runs the installed program with the options of this process."""
    return [sys.executable, "-I", "-m", "manager", *arguments]


async def check(arguments: Sequence[str] = tuple(sys.argv[1:])) -> str | Unusable:
    """Load the installed program and its configuration in a process of its own; returns its version."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command(arguments), "--check", stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd="/"
        )
    except OSError as error:
        return Unusable(f"{sys.executable}: {error.strerror}")
    try:
        async with asyncio.timeout(CHECK_S):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return Unusable(f"it was not loaded within {CHECK_S:g} s")
    if process.returncode:
        lines = err.decode(errors="replace").strip().splitlines()
        reason = next((line for line in lines if not line.startswith((" ", "Traceback"))), "no reason given")
        return Unusable(reason[:_SHOWN])
    return out.decode(errors="replace").strip()


class Replacement(msgspec.Struct, frozen=True):
    """What the new program takes over: the listening socket, and the descriptor of the held lock.

    Attributes:
        listener: None for a manager without a port.
    """

    listener: socket.socket | None
    lock: int

    def execute(self) -> NoReturn:
        """Become the installed program.

        Raises:
            OSError: it cannot be started.
        """
        import fcntl

        listening = [] if self.listener is None else [self.listener.fileno()]
        handed_over = (*listening, self.lock)
        spare = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _SPARE_FD) for fd in handed_over]
        for number, descriptor in enumerate(spare, _FIRST_FD):
            os.dup2(descriptor, number, inheritable=True)
        variables = {LOCK_VARIABLE: str(_FIRST_FD + len(listening))}
        if listening:
            variables |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": HTTP}
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        line = command()
        restore_limit(os.getpid())  # so that the new program's children get it, too
        os.execve(line[0], line, {**os.environ, **variables})


def taken_over_lock(environ: MutableMapping[str, str] = os.environ) -> int | None:
    """The descriptor of the lock that the process held before it became this program."""
    text = environ.pop(LOCK_VARIABLE, "")
    if not text.isdecimal() or (descriptor := int(text)) < _FIRST_FD:
        return None
    try:
        os.set_inheritable(descriptor, False)
    except OSError:
        return None
    return descriptor
