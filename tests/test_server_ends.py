"""Tests how servers of the tests end."""

from __future__ import annotations

import asyncio
import socket

from aiohttp import web

from support.http.runner_end import end_runner


async def test_a_connection_that_is_being_accepted_is_closed_with_the_server() -> None:
    """It would be left to the garbage collector, and fail whatever test runs then."""
    runner = web.AppRunner(web.Application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with socket.create_connection(runner.addresses[0]) as client:
        client.settimeout(20)
        for _ in range(2):  # it is accepted in the second turn, and gets its transport in the next
            await asyncio.sleep(0)
        await end_runner(runner)
        assert await asyncio.to_thread(client.recv, 1) == b""
