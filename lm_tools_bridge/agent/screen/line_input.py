"""Reads lines from standard input without blocking the loop; output leads nowhere once its reader is gone."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lm_tools_bridge.agent.screen.screen import Interrupted

_GONE: Final = (errno.EPIPE, errno.EIO)


def is_gone(error: OSError) -> bool:
    """Whether an error says that nobody reads what is written: a pipe without a reader, a closed terminal."""
    return error.errno in _GONE


def write_nowhere() -> None:
    """Throw away what is written to standard output from now on, and what waits to be flushed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


LONGEST: Final = 8 * 1024 * 1024
"""Bytes of a line; what is longer comes in pieces."""


class LineInput:
    """The lines of a descriptor: a pipe, a file or a terminal that edits lines itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = bytearray()
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None

    async def line(self, *, fresh: bool = False) -> str | None:
        """The next line without its end; None at the end of input.

        Args:
            fresh: whether what was typed before does not count, because it cannot be an answer.

        Raises:
            Interrupted: `interrupt` was called while it waited.
        """
        if fresh:
            self.forget()
        while True:
            at = self._rest.find(b"\n")
            if at >= 0 or len(self._rest) >= LONGEST:
                return self._taken(at if at >= 0 else LONGEST)
            if self._ended:
                # at a terminal, Ctrl-D ends one answer only; a terminal that is gone ends the next as well
                self._ended = not os.isatty(self._descriptor)
                return self._taken(len(self._rest)) if self._rest else None
            await self._read()

    async def hidden_line(self) -> str | None:
        """A line that the terminal does not show; None without a terminal."""
        if not os.isatty(self._descriptor):
            return None
        with _without_echo(self._descriptor):
            try:
                return await self.line(fresh=True)
            finally:
                sys.stderr.write("\n")

    def interrupt(self) -> bool:
        """Let the line that is waited for end with `Interrupted`; returns whether one is."""
        if self._waiting is None or self._waiting.done():
            return False
        self._waiting.set_exception(Interrupted())
        return True

    def _taken(self, length: int) -> str:
        text = self._rest[:length].decode("utf-8", "replace")
        del self._rest[: length + 1]
        return text.removesuffix("\r")

    def forget(self) -> None:
        """Drop what was typed at a terminal: it cannot be an answer to a question that comes only now."""
        if not os.isatty(self._descriptor):
            return
        import termios

        self._rest.clear()
        termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def _read(self) -> None:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            await self._readable()
        chunk = os.read(self._descriptor, 65536)
        self._rest += chunk
        self._ended = not chunk

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = waiting = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _settle, waiting)
        except PermissionError:  # /dev/null cannot be waited for; it is always readable
            return
        try:
            await waiting
        finally:
            loop.remove_reader(self._descriptor)
            self._waiting = None


def _settle(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


@contextmanager
def _without_echo(descriptor: int) -> Iterator[None]:
    import termios

    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, changed)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
