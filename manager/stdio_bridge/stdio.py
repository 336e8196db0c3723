"""Standard input and output as lines, one JSON-RPC message each.

Both are used by threads, because they may be anything: pipes, sockets, files, a terminal. Nothing here knows
what a line means.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import Final

MAX_LINE: Final = 32 * 1024 * 1024
"""Bytes of the longest line that is taken; the manager takes smaller ones by default."""
_READ: Final = 256 * 1024


class ClientGone(Exception):
    """Nobody reads standard output any more."""


class TooLong(Exception):
    """A line was longer than `MAX_LINE`, and has been left out."""


class Splitter:
    """Bytes in, lines out; a line that grows too long is dropped once, whole."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines these bytes complete, without their ends; empty ones are left out."""
        *ends, rest = chunk.split(b"\n")
        found: list[bytes | TooLong] = []
        for end in ends:
            self._add(end, found)
            line = bytes(self._buffer).strip(b" \t\r")
            self._buffer.clear()
            if line and not self._skipping:
                found.append(line)
            self._skipping = False
        self._add(rest, found)
        return found

    def rest(self) -> list[bytes | TooLong]:
        """The last line, where the input ended without ending it."""
        return self.feed(b"\n")

    def _add(self, piece: bytes, found: list[bytes | TooLong]) -> None:
        if self._skipping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit:
            self._buffer.clear()
            self._skipping = True
            found.append(TooLong())


async def read_lines(descriptor: int, take: Callable[[bytes | TooLong], Awaitable[None]]) -> None:
    """Hand over every line, each when the one before it was taken; ends with the input, or its taker.

    What `take` raises otherwise is raised here.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    splitter = Splitter()

    async def hand_over(lines: list[bytes | TooLong]) -> None:
        for line in lines:
            await take(line)

    def end(fault: Exception | None) -> None:
        if over.done():
            return
        if fault is None:
            over.set_result(None)
        else:
            over.set_exception(fault)

    def read() -> None:
        fault = None
        try:
            while chunk := os.read(descriptor, _READ):
                asyncio.run_coroutine_threadsafe(hand_over(splitter.feed(chunk)), loop).result()
            asyncio.run_coroutine_threadsafe(hand_over(splitter.rest()), loop).result()
        except (OSError, CancelledError, ClientGone):
            pass
        except Exception as error:  # noqa: BLE001  a process that hears nothing any more must not go on
            fault = error
        with contextlib.suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(end, fault)

    # no executor: it would be waited for at the end, and a read may last for ever
    threading.Thread(target=read, name="standard input", daemon=True).start()
    await over


class Output:
    """Writes lines whole and in order, even when whoever wrote one is cancelled meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self.gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="standard output", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a message and return when the system has it.

        Args:
            line: JSON on one line, without its end.

        Raises:
            ClientGone: nobody reads any more.
        """
        if self.gone.is_set():
            raise ClientGone
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line, written))
        await written

    def _run(self) -> None:
        while True:
            line, written = self._lines.get()
            problem = self._write(line)
            with contextlib.suppress(RuntimeError):  # the loop may be gone
                self._loop.call_soon_threadsafe(self._settle, written, problem)

    def _write(self, line: bytes) -> ClientGone | None:
        try:
            view = memoryview(line + b"\n")
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return ClientGone()
        return None

    def _settle(self, written: asyncio.Future[None], problem: ClientGone | None) -> None:
        if problem is not None:
            self.gone.set()
        if written.done():
            return
        if problem is None:
            written.set_result(None)
        else:
            written.set_exception(problem)
