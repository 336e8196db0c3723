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

from protocol.internal import launch as orders
from protocol.internal.launch import LaunchInstructions
from workspace_server import log
from workspace_server.assembly import Parts, assemble
from workspace_server.http.routes import make_connections
from workspace_server.lifetime import Life
from workspace_server.version import version

MAX_ORDERS: Final = 1024 * 1024
BAD_ORDERS: Final = 2


def main() -> NoReturn:
    """Run until stopped, then end the process: status 0, or 2 when the orders cannot be followed."""
    log.adopt_libraries()
    launch = _read_orders()
    sock = None if launch is None else _adopt(launch.listen_fd)
    if launch is None or sock is None:
        _leave(BAD_ORDERS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(launch, sock))
        _leave(0)


def _leave(status: int) -> NoReturn:
    """End now: a thread that a cancelled search left behind must not keep the process alive."""
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


def _read_orders() -> LaunchInstructions | None:
    line = sys.stdin.buffer.readline(MAX_ORDERS)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # nothing that is started from here may read the manager's pipe
    os.close(null)
    try:
        return orders.decode(line)
    except msgspec.DecodeError as error:
        log.error("orders_unreadable", cause=str(error))
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
        import uvloop  # noqa: PLC0415  does not exist on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop


async def serve(launch: LaunchInstructions, sock: socket.socket) -> None:
    """Serve on a listening socket until the life ends; afterwards nothing that was started is left."""
    loop = asyncio.get_running_loop()
    async with serving(launch, sock) as (life, parts):
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, life.stop, signal.Signals(number).name)
        parts.start()
        await life.until_stopped()
        log.info("stopping", cause=life.cause)


@asynccontextmanager
async def serving(launch: LaunchInstructions, sock: socket.socket) -> AsyncIterator[tuple[Life, Parts]]:
    """Answer on a listening socket for as long as the block lasts."""
    life = Life(launch.grace_s)
    parts = assemble(launch, os.environ)
    connections = make_connections(launch, version(), parts.calls, life)
    try:
        await connections.listen(sock)
        yield life, parts
        await connections.close()
    finally:
        await parts.close()
