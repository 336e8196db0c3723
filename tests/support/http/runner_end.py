"""The end of a server of aiohttp that leaves no connection to the garbage collector."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from socket import socket

from aiohttp.web import AppRunner


async def end_runner(runner: AppRunner) -> None:
    """Close the runner when no connection is being accepted.

    asyncio takes a turn of the loop from the accepting of a connection to its transport. A server that is closed in
    between refuses the transport with an assertion that nobody sees, and the connection stays open (cpython#109564).
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listening in _listening_sockets(runner):
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)  # the transports of accepted connections are made in this turn
    await runner.cleanup()


def _listening_sockets(runner: AppRunner) -> Iterator[socket]:
    for site in runner.sites:
        server = getattr(site, "_server")  # noqa: B009  the site does not tell
        yield from () if server is None else server.sockets
