"""Sends and receives JSON-RPC messages as lines on a process's standard input and output."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from lm_tools_bridge.protocol.names import Era
from workspace_server.processes.child_process import (
    ChildProcess,
    PipeWriteError,
    exit_reason,
    kill_after_exit,
    reason_of_end,
)
from workspace_server.sources.mcp.failures import TransportEnded

# A server that reads nothing leaves its pipe full: waiting longer would not end.
WRITE_S: Final = 10.0
LAST_WORDS_S: Final = 0.1
"""What a process wrote before it ended is still read, unless something it left behind goes on for longer."""


class StdioTransport:
    """The connection to a child. Owns it: `close` leaves nothing of it behind.

    Args:
        child: the process.
        write_s: how long a message may take to be taken. polite_s, term_s: see `ChildProcess.stop`.
        hidden: values that stand in no text about how it ended.

    Attributes:
        received: how many bytes of output came.
    """

    def __init__(
        self,
        child: ChildProcess,
        *,
        write_s: float = WRITE_S,
        polite_s: float = 2.0,
        term_s: float = 5.0,
        hidden: Iterable[str] = (),
    ) -> None:
        self._child = child
        self._hidden = tuple(hidden)
        self._write_s = write_s
        self._polite_s = polite_s
        self._term_s = term_s
        self.received = 0
        self._lines = Lines()
        self._ready: deque[bytes] = deque()
        self._watch = asyncio.create_task(kill_after_exit(self._child), name=f"watch-{child.pid}")

    @property
    def unfinished(self) -> bytes:
        """The output after the last line end."""
        return self._lines.unfinished

    async def send(self, message: bytes) -> None:
        """As `Transport.send`; a process that does not read ends the connection after 10 s."""
        try:
            await self._child.write(one_line(message), self._write_s)
        except PipeWriteError as failure:
            raise TransportEnded(exit_reason(self._child, self._hidden) or str(failure)) from None

    async def receive(self) -> bytes:
        """The next line, whatever it is."""
        while not self._ready:
            if self._lines.overflowed:
                raise TransportEnded(f"sent a message of more than {MAX_LINE // 2**20} MiB", too_large=True)
            chunk = await self._child.read()
            if not chunk:
                raise TransportEnded(await reason_of_end(self._child, self._hidden))
            self.received += len(chunk)
            self._ready.extend(self._lines.feed(chunk))
        return self._ready.popleft()

    def negotiated(self, era: Era, revision: str) -> None:
        """Lines are the same in every revision."""

    async def close(self) -> None:
        """End the process and everything it started; at once if the caller is cancelled."""
        self._watch.cancel()
        try:
            await self._child.stop(polite_s=self._polite_s, term_s=self._term_s)
        finally:
            await asyncio.gather(self._watch, return_exceptions=True)


MAX_LINE: Final = 32 * 1024 * 1024
"""Bytes of one message: a result with pictures has some megabytes; a server in error must not fill the
memory."""


class Lines:
    """Collects the bytes of one stream.

    `overflowed`: a line went over the cap; its bytes are forgotten, and nothing after it is taken.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self.overflowed = False
        self._max_line = max_line
        self._partial = bytearray()

    @property
    def unfinished(self) -> bytes:
        """What came after the last line end."""
        return bytes(self._partial)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends (`\\n` or `\\r\\n`)."""
        if self.overflowed:
            return []
        *whole, rest = chunk.split(b"\n")
        if whole:
            self._partial += whole[0]
            whole[0] = bytes(self._partial)
            self._partial.clear()
        self._partial += rest
        lines = []
        for line in whole:
            if len(line) > self._max_line:
                self.overflowed = True
                break
            lines.append(line.removesuffix(b"\r"))
        if len(self._partial) > self._max_line:
            self.overflowed = True
        if self.overflowed:
            self._partial = bytearray()
        return lines


def one_line(message: bytes) -> bytes:
    """A JSON message as a line. Raw line ends can only be white space in it: in strings they are escaped."""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    return message + b"\n"
