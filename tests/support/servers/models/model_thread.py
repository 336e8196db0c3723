"""Runs a scripted model server in a thread of its own, for tests that wait for a terminal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.servers.models.model_server import ModelServer, model_server


@contextmanager
def model_in_thread(*turns: Any, **options: Any) -> Iterator[ModelServer]:
    """The server for the time of the block."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    found: list[ModelServer] = []
    stop = asyncio.Event()

    async def serve() -> None:
        async with model_server(*turns, **options) as server:
            found.append(server)
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=run, name="scripted model")
    thread.start()
    try:
        ready.wait()
        assert found, "the scripted model did not start"
        yield found[0]
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join()
