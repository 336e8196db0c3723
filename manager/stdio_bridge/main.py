"""Runs `lmtb connect` until stdin ends, a signal arrives, or the client closes stdout."""

from __future__ import annotations

import asyncio
import signal

from lm_tools_bridge.machine.own_token import own_headers
from manager.client import Control
from manager.configuration.paths import Paths
from manager.stdio_bridge.bridge import Bridge
from manager.stdio_bridge.manager_connection import ManagerConnection, folder_query
from manager.stdio_bridge.manager_start import ManagerStarter
from manager.stdio_bridge.stdio import Output, read_lines

_STDIN, _STDOUT = 0, 1


def run(paths: Paths, folder: str) -> None:
    """Serve the client on stdin and stdout, for the workspace of `folder`, until it disconnects."""
    asyncio.run(_serve(paths, folder))


async def _serve(paths: Paths, folder: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    output = Output(_STDOUT)
    connection = ManagerConnection(
        Control(paths.control_socket),
        ManagerStarter(paths),
        folder_query(folder),
        lambda: own_headers(paths.runtime_dir),
    )
    bridge = Bridge(connection, output.write)
    ends = {
        asyncio.create_task(work, name=name)
        for work, name in (
            (read_lines(_STDIN, bridge.take), "stdin"),
            (output.closed.wait(), "stdout"),
            (stop.wait(), "signals"),
        )
    }
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in ends:
            one.cancel()
        await bridge.finish()
