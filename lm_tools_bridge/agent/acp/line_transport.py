"""Carries messages as lines, in the place of the library's own transport, which ends at a line like `[]`."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

from lm_tools_bridge.agent.acp.message_lines import LARGEST, TOO_LARGE, answer_to, read_message
from lm_tools_bridge.protocol.jsonrpc import Malformed

_LAST_LINES_S: Final = 1.0


class LineTransport:
    """A transport of the library `acp`: one JSON object a line.

    Lines that are no message are answered with an error, and reading goes on.

    Args:
        reader: with `LARGEST` as its limit.
        writer: where lines are written.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; waits while the other side does not read.

        Raises:
            ConnectionError: the stream is closed.
        """
        if self._writer.is_closing():
            raise ConnectionError("Connection closed")
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of the stream."""
        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            message = read_message(line) if len(line) <= LARGEST else TOO_LARGE
            if not isinstance(message, Malformed):
                return message
            with suppress(ConnectionError):
                await self.send(answer_to(message))
        return None

    async def close(self) -> None:
        """Write what is left, for a moment, and close."""
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_LAST_LINES_S):
                await self._writer.drain()
        self._writer.transport.abort()

    async def _line(self) -> bytes | None:
        """The next line; of one that is too long only a part, which is longer than `LARGEST`, too."""
        passed = b""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                passed = await self._reader.readexactly(error.consumed)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None  # a message ends with its line
            else:
                return passed or line
