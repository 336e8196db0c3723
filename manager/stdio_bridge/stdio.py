"""Reads and writes lines on stdin and stdout, one JSON-RPC message each.

Threads do the I/O, because stdin and stdout can be pipes, sockets, files or a terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import Final

MAX_LINE: Final = 32 * 1024 * 1024
"""Bytes of the longest line that is accepted; the manager's default limit is smaller."""
# Bytes of one read: a usual message at once; a pipe holds 64 KiB by default and 1 MiB at most.
_READ: Final = 256 * 1024


class ClientGone(Exception):
    """The client has closed stdout."""


class LineTooLong(Exception):
    """A line was longer than `MAX_LINE` and was dropped."""


class LineSplitter:
    """Splits a byte stream into lines. A line above the limit is dropped and reported once."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """The lines that these bytes complete, without line ends; empty lines are left out.

        Some programs write a byte order mark first, or before each line.
        """
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes | LineTooLong] = []
        for end in ends:
            self._add(end, lines)
            line = bytes(self._buffer).removeprefix(BOM_UTF8).strip(b" \t\r")
            self._buffer.clear()
            if line and not self._skipping:
                lines.append(line)
            self._skipping = False
        self._add(rest, lines)
        return lines

    def rest(self) -> list[bytes | LineTooLong]:
        """The last line, if the input ended without a line end."""
        return self.feed(b"\n")

    def _add(self, piece: bytes, lines: list[bytes | LineTooLong]) -> None:
        if self._skipping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit:
            self._buffer.clear()
            self._skipping = True
            lines.append(LineTooLong())


async def read_lines(descriptor: int, take: Callable[[bytes | LineTooLong], Awaitable[None]]) -> None:
    """Pass each line to `take`, one after the other, until the input ends or `take` raises `ClientGone`.

    Other exceptions of `take` are raised here.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    splitter = LineSplitter()

    async def hand_over(lines: list[bytes | LineTooLong]) -> None:
        for line in lines:
            await take(line)

    def end(fault: Exception | None) -> None:
        if ended.done():
            return
        if fault is None:
            ended.set_result(None)
        else:
            ended.set_exception(fault)

    def read() -> None:
        fault = None
        try:
            while chunk := os.read(descriptor, _READ):
                asyncio.run_coroutine_threadsafe(hand_over(splitter.feed(chunk)), loop).result()
            asyncio.run_coroutine_threadsafe(hand_over(splitter.rest()), loop).result()
        except (OSError, CancelledError, ClientGone):
            pass
        except Exception as error:  # noqa: BLE001  a bridge that cannot read stdin any more must end
            fault = error
        with contextlib.suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(end, fault)

    # not an executor, which is joined at exit: a read can block without end
    threading.Thread(target=read, name="stdin", daemon=True).start()
    await ended


class Output:
    """Writes whole lines in order, even if the writing task is cancelled."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a message and return when the operating system has it.

        Args:
            line: JSON on one line, without line end.

        Raises:
            ClientGone: the client has closed stdout.
        """
        if self.closed.is_set():
            raise ClientGone
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line, written))
        await written

    def _run(self) -> None:
        while True:
            line, written = self._lines.get()
            problem = self._write_line(line)
            with contextlib.suppress(RuntimeError):  # the loop may be gone
                self._loop.call_soon_threadsafe(self._complete, written, problem)

    def _write_line(self, line: bytes) -> ClientGone | None:
        try:
            view = memoryview(line + b"\n")
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return ClientGone()
        return None

    def _complete(self, written: asyncio.Future[None], problem: ClientGone | None) -> None:
        if problem is not None:
            self.closed.set()
        if written.done():
            return
        if problem is None:
            written.set_result(None)
        else:
            written.set_exception(problem)
