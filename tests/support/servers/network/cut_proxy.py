"""A TCP proxy that can cut the line: it then accepts nothing and passes nothing, but says nothing either."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class CutProxy:
    """Forwards connections to a port, unless the line is cut.

    Attributes:
        port: where clients connect.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """From now on bytes stay where they are, as in a partition."""
        self._flows.clear()

    def mend(self) -> None:
        """Bytes flow again."""
        self._flows.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        await self._flows.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(64 * 1024):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def cut_proxy(target: int) -> AsyncIterator[CutProxy]:
    """A proxy to a port for as long as the block lasts."""
    proxy = CutProxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = int(server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
