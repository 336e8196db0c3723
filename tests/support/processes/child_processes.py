"""Commands for child processes, waiting for a condition, and liveness checks."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from support.processes.timeouts import within
from workspace_server.processes.child_process import ChildProcess, Command
from workspace_server.processes.confinement import Confinement
from workspace_server.sources.scripts.script_confinement import script_confinement

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def sh(script: str, cwd: str = "/", confinement: Confinement | None = None, **env: str) -> Command:
    """A small shell script."""
    return Command(("/bin/sh", "-c", script), {**ENV, **env}, cwd, confinement)


def python(script: str, *arguments: str, cwd: str = "/", confinement: Confinement | None = None) -> Command:
    """A small Python program that imports nothing by itself."""
    return Command((sys.executable, "-I", "-S", "-c", script, *arguments), ENV, cwd, confinement)


async def everything(child: ChildProcess) -> bytes:
    """All of its standard output."""
    parts = []
    while part := await child.read():
        parts.append(part)
    return b"".join(parts)


async def output(command: Command, stdin: bool | bytes = False) -> bytes:
    """All that a command prints, once nothing of it is left."""
    child = await ChildProcess.start(command, stdin=stdin)
    try:
        return await everything(child)
    finally:
        await child.kill()


_EXCHANGE = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
try:
    sock.sendall(sys.argv[2].encode())
    while piece := sock.recv(65536):
        sys.stdout.buffer.write(piece)
except OSError:
    pass
"""


async def answer_to_script(socket: Path, request: str, folder: Path) -> bytes:
    """What a confined script of the project `folder` gets at a unix socket until that is closed."""
    fence = script_confinement(folder, folder, {})
    return await output(python(_EXCHANGE, str(socket), request, confinement=fence))


async def until(fact: Callable[[], object], seconds: float = 2) -> None:
    """Wait for a fact that no event tells of."""
    deadline = time.monotonic() + within(seconds)
    while not fact():
        assert time.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def zombies() -> list[int]:
    """Our own children that nobody reaped."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state == "Z" and int(parent) == os.getpid():
                found.append(int(folder.name))
    return found
