"""The life of `lmtb connect`: it ends with its input, with a signal, or when nobody reads its output."""

from __future__ import annotations

import asyncio
import signal

from manager.client import Control
from manager.paths import Paths
from manager.stdio_bridge.bridge import Bridge
from manager.stdio_bridge.manager_connection import ManagerConnection, folder_query
from manager.stdio_bridge.manager_start import Starter
from manager.stdio_bridge.stdio import Output, read_lines

_STDIN, _STDOUT = 0, 1


def run(paths: Paths, folder: str) -> None:
    """Serve the client at standard input and output, on behalf of a folder, until it is gone."""
    asyncio.run(_serve(paths, folder))


async def _serve(paths: Paths, folder: str) -> None:
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    output = Output(_STDOUT)
    link = ManagerConnection(Control(paths.control_socket), Starter(paths), folder_query(folder))
    shim = Bridge(link, output.write)
    ends = {
        asyncio.create_task(work, name=name)
        for work, name in (
            (read_lines(_STDIN, shim.take), "standard input"),
            (output.gone.wait(), "standard output"),
            (asked_to_stop.wait(), "signals"),
        )
    }
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in ends:
            one.cancel()
        await shim.finish()
