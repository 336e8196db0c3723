"""Runs the process of one workspace server: reads its instructions, adopts the socket, serves, closes.

`lifetime.py` decides when it stops.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NoReturn

import msgspec

from lm_tools_bridge.protocol.internal import launch as instructions
from lm_tools_bridge.protocol.internal.launch import LaunchInstructions
from workspace_server import log
from workspace_server.assembly import Parts, assemble, version
from workspace_server.http.routes import make_connections
from workspace_server.lifetime import Lifetime

MAX_INSTRUCTIONS: Final = 1024 * 1024
INVALID_INSTRUCTIONS: Final = 2


def main() -> NoReturn:
    """Run until stopped, then end the process: status 0, or 2 if the launch instructions are invalid."""
    log.adopt_libraries()
    launch = _read_instructions()
    sock = None if launch is None else _adopt(launch.listen_fd)
    if launch is None or sock is None:
        _exit(INVALID_INSTRUCTIONS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(launch, sock))
        _exit(0)


def _exit(status: int) -> NoReturn:
    """Exit without waiting for threads: a cancelled search may have left one behind."""
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


def _read_instructions() -> LaunchInstructions | None:
    line = sys.stdin.buffer.readline(MAX_INSTRUCTIONS)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # no child process may read the manager's pipe
    os.close(null)
    try:
        return instructions.decode(line)
    except msgspec.DecodeError as error:
        log.error("launch_instructions_invalid", cause=str(error))
        return None


def _adopt(descriptor: int) -> socket.socket | None:
    try:
        sock = socket.socket(fileno=descriptor)
        listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        sock.set_inheritable(False)
        sock.setblocking(False)
    except OSError as error:
        log.error("socket_unusable", descriptor=descriptor, cause=error.strerror)
        return None
    if not listening:
        log.error("socket_not_listening", descriptor=descriptor)
        return None
    return sock


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def serve(launch: LaunchInstructions, sock: socket.socket) -> None:
    """Serve on a listening socket until stopped, and end everything that was started."""
    loop = asyncio.get_running_loop()
    async with serving(launch, sock) as (life, parts):
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, life.signal, signal.Signals(number).name)
        parts.start()
        await life.until_stopped()
        log.info("stopping", cause=life.cause)


@asynccontextmanager
async def serving(launch: LaunchInstructions, sock: socket.socket) -> AsyncIterator[tuple[Lifetime, Parts]]:
    """Serve on a listening socket for as long as the block lasts."""
    life = Lifetime(launch.grace_s)
    parts = assemble(launch, {**launch.variables, **os.environ})
    connections = make_connections(launch, version(), parts.calls, life)
    try:
        await connections.listen(sock)
        life.on_stop(connections.stop_listening)
        yield life, parts
        await connections.close()
    finally:
        await life.unless_hurried(parts.close())
