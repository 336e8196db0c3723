"""Asks the kernel whether a connection has input that the event loop has not processed yet."""

from __future__ import annotations

import asyncio
import select


class InputCheck:
    """Checks one connection, with one system call."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._poller: select.poll | None = None

    def has_input(self) -> bool:
        """Whether data or the end of the stream can be read."""
        if self._poller is None:
            socket = self._transport.get_extra_info("socket")
            if socket is None:  # on a line to another host, whose input was processed when it arrived
                return False
            descriptor = socket.fileno()
            if not hasattr(select, "poll"):
                return bool(select.select([descriptor], [], [], 0)[0])
            self._poller = select.poll()
            self._poller.register(descriptor, select.POLLIN)
        return bool(self._poller.poll(0))
