"""Offers the manager's tools to programs and web pages over WebSockets, until a signal ends it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence

from lm_tools_bridge.agent.tool_service.endpoint import Serving
from lm_tools_bridge.agent.tool_service.serve import serve_source
from lm_tools_bridge.agent.tool_source import ToolSource


async def offer(
    source: ToolSource, *, port: int, origins: Sequence[str], allowed: Sequence[str], as_json: bool
) -> int:
    """Serve until SIGINT or SIGTERM; the exit code. Prints address and token once clients can connect."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def announce(served: Serving) -> None:
        members = {"ok": True, "address": served.address, "token": served.token}
        text = json.dumps(members) if as_json else f"address: {served.address}\ntoken:   {served.token}"
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    try:
        await serve_source(source, announce, port=port, origins=origins, allowed=allowed or None, stop=stop)
    except OSError as error:
        sys.stderr.write(f"port {port} cannot be used: {error.strerror or error}\n")
        return 1
    return 0
