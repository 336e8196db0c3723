"""Reads and writes a child's pipes: plain descriptors that the loop watches only while a task waits.

There are no transports and no buffers: unread output stays in the kernel, so the child blocks after 64 KiB.
They are real pipes, because a child may open `/dev/stdin` or `/dev/stderr`, which fails for socket pairs.
The end of standard error is kept, and its lines go to a log at a bounded rate. Of what a program wrote, the
line that tells why it ended is chosen: npm, Node.js and docker write something after it that helps nobody.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from workspace_server.results import clean_text

# What a person reads of a failed start; it is kept for each child as long as the child lives.
CAPACITY: Final = 64 * 1024
MAX_LINE: Final = 2000
LINES_PER_S: Final = 100
_MAX_LINE_BYTES: Final = 4 * MAX_LINE
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class StderrTail:
    """The last 64 KiB of standard error.

    Attributes:
        received: how many bytes came in all.
    """

    def __init__(self) -> None:
        self.received = 0
        self._data = bytearray()
        self._cut = False

    def feed(self, chunk: bytes) -> None:
        """Add bytes; the oldest are dropped."""
        self.received += len(chunk)
        self._data += chunk
        surplus = len(self._data) - CAPACITY
        if surplus > 0:
            del self._data[:surplus]
            self._cut = True

    def lines(self, n: int = 20) -> list[str]:
        """The last `n` non-blank lines: cleaned, each at most 2,000 characters."""
        raw = _LINE_END.split(bytes(self._data))
        if self._cut:  # the first line lacks its beginning; it is kept only if there is no other
            raw[0] = raw[0][-MAX_LINE:] if len(raw) == 1 else b""
        lines: list[str] = []
        for piece in reversed(raw):
            if len(lines) >= n:
                break
            line = _clean(piece)
            if line:
                lines.append(line)
        return lines[::-1]

    def text(self, limit: int) -> str:
        """All kept lines, cut to the last `limit` characters."""
        text = "\n".join(self.lines(CAPACITY))
        return text[-limit:] if limit > 0 else ""


class LineLimiter:
    """Passes whole lines to `listener`, at most 100 per second, and reports how many were left out."""

    def __init__(self, listener: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._clock = clock
        self._partial = bytearray()
        self._window = clock()
        self._given = 0
        self._dropped = 0

    def feed(self, chunk: bytes) -> None:
        """Add bytes; lines are cut after 2,000 characters."""
        self._renew()
        start = 0
        while self._given < LINES_PER_S:
            end = chunk.find(b"\n", start)
            if end < 0:
                self._extend(chunk[start:])
                return
            self._extend(chunk[start:end])
            self._give()
            start = end + 1
        self._drop(chunk[start:])

    def end(self) -> None:
        """Pass on the last, unterminated line, and the number of lines left out."""
        if self._partial and self._given < LINES_PER_S:
            self._give()
        self._report()

    def _renew(self) -> None:
        now = self._clock()
        if now - self._window >= 1:
            self._window, self._given = now, 0
            self._report()

    def _report(self) -> None:
        if self._dropped:
            self._given += 1
            dropped, self._dropped = self._dropped, 0
            self._listener(f"[{dropped} lines left out]")

    def _extend(self, piece: bytes) -> None:
        self._partial += piece[: max(0, _MAX_LINE_BYTES - len(self._partial))]

    def _drop(self, chunk: bytes) -> None:
        ends = chunk.count(b"\n")
        if ends:
            self._dropped += ends
            self._partial.clear()
        self._extend(chunk[chunk.rfind(b"\n") + 1 :])

    def _give(self) -> None:
        self._given += 1  # blank lines count, too: they cost as much
        line = _clean(bytes(self._partial))
        self._partial.clear()
        if line:
            self._listener(line)


def _clean(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return clean_text(text.replace("\r", " ")).rstrip()[:MAX_LINE]


# The capacity of a pipe on Linux: one read empties it.
CHUNK: Final = 64 * 1024
_REST_S: Final = 0.002


class PipeWriteError(Exception):
    """The child closed its standard input or did not read it in time; no further write can succeed."""


class PipeEnd:
    """Our end of one pipe, and the task that waits for it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def has_waiter(self) -> bool:
        """Whether a task is waiting for this pipe."""
        return self._waiter is not None

    def close(self) -> None:
        """Close the descriptor and wake the waiting task. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        self._unwatch(descriptor)
        os.close(descriptor)
        self._wake()

    def _watch(self, descriptor: int) -> None:
        raise NotImplementedError

    def _unwatch(self, descriptor: int) -> None:
        raise NotImplementedError

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _ready(self) -> None:
        """Wait until the descriptor is ready or closed. One task at a time."""
        if self._descriptor is None:
            return
        if self._waiter is not None:
            raise RuntimeError("another task is already waiting for this pipe")
        self._waiter = self._loop.create_future()
        self._watch(self._descriptor)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._descriptor is not None:
                self._unwatch(self._descriptor)


class ReadEnd(PipeEnd):
    """The reading end of a pipe."""

    def _watch(self, descriptor: int) -> None:
        self._loop.add_reader(descriptor, self._wake)

    def _unwatch(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)

    async def read(self, n: int) -> bytes:
        """Up to `n` bytes as soon as there are any; empty at the end, or after `close`.

        A cancelled call loses no data: bytes are returned in the step that reads them.
        """
        await asyncio.sleep(0)  # a fast writer must not starve the loop
        while (chunk := self.read_now(n)) is None:
            await self._ready()
        return chunk

    def read_now(self, n: int) -> bytes | None:
        """Read without waiting: None if there is nothing yet, empty at the end."""
        if self._descriptor is None:
            return b""
        try:
            return os.read(self._descriptor, n)
        except BlockingIOError:
            return None

    async def drain(self, take: Callable[[bytes], None]) -> None:
        """Read to the end and pass everything to `take`, in order even if `read_now` is called, too."""
        while chunk := await self.read(CHUNK):
            take(chunk)
            await asyncio.sleep(_REST_S)  # a child that writes without end must not keep a core busy


class WriteEnd(PipeEnd):
    """The writing end of a pipe. Messages of concurrent writers never interleave."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._turn = asyncio.Lock()
        self._failure: str | None = None
        self._rest: asyncio.Task[None] | None = None

    def _watch(self, descriptor: int) -> None:
        self._loop.add_writer(descriptor, self._wake)

    def _unwatch(self, descriptor: int) -> None:
        self._loop.remove_writer(descriptor)

    async def write(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data` or fail; a message once begun is finished even if the caller is cancelled.

        Raises:
            PipeWriteError: the child did not read it within `timeout_s` seconds, or the pipe is broken. Part
                of the message may have been written, so every later write fails, too.
        """
        deadline = self._loop.time() + timeout_s
        if self._turn.locked():
            await self._wait_for_turn(deadline)
        else:
            await self._turn.acquire()  # does not wait
        try:
            left = self._put(memoryview(data))
        except BaseException:
            self._turn.release()
            raise
        if not left:
            self._turn.release()
            return
        self._rest = asyncio.create_task(self._finish(left, deadline), name="write to child")
        self._rest.add_done_callback(self._finished)
        await asyncio.shield(self._rest)

    async def _wait_for_turn(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._turn.acquire()
        except TimeoutError:
            raise PipeWriteError("it does not read its standard input") from None

    async def _finish(self, left: memoryview, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while left:
                    await self._ready()
                    left = self._put(left)
        except TimeoutError:
            self._failure = "it does not read its standard input"
            raise PipeWriteError(self._failure) from None
        except asyncio.CancelledError:
            self._failure = "an earlier message was interrupted"
            raise

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._turn.release()
        if not task.cancelled():
            task.exception()  # retrieved: the caller may have been cancelled

    def _put(self, data: memoryview) -> memoryview:
        if self._descriptor is None:
            raise PipeWriteError("its standard input is closed")
        if self._failure is not None:
            raise PipeWriteError(self._failure)
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._failure = error.strerror or "broken"
            raise PipeWriteError(self._failure) from None
        return data

    @property
    def unfinished(self) -> asyncio.Task[None] | None:
        """The task that writes the rest of a message; `close` ends it."""
        return self._rest


LOOKED_AT: Final = 20
"""Lines from the end: npm writes about ten after the cause, Node.js as many, with the places of the call."""
_NPM: Final = re.compile(r"npm (?:error|ERR!) ?(.*)")
_NPM_FACT: Final = re.compile(
    r"(?:code|syscall|errno|path|dest|type|cwd|file|signal|command|sh -c|A complete log|Note that|If you)\b"
    r"|\d+$|$"
)
"""Lines of npm that are no sentence about the cause."""
_ERROR: Final = re.compile(r"(?:Uncaught |\[)?\w*(?:Error|Exception)\b[^:]{0,40}: ")
_AFTER: Final = re.compile(r"Node\.js v\d|See '|Run '|For more (?:help|information)|at \S|[{}\]]")
"""How lines begin that come after the cause: versions, advice, places of a call, members of an error."""


def cause_line(lines: Sequence[str]) -> str:
    """The line that tells the cause; the last one if no other is known to be better, "" if there is none."""
    texts = [line.strip() for line in lines[-LOOKED_AT:] if line.strip()]
    if not texts:
        return ""
    if _NPM.match(texts[-1]):
        return _cause_of_npm(texts)
    if not _AFTER.match(texts[-1]):
        return texts[-1]
    errors = [text for text in texts if _ERROR.match(text)]
    others = [text for text in texts if not _AFTER.match(text)]
    return (errors or others or texts)[-1]


def _cause_of_npm(texts: Sequence[str]) -> str:
    for text in texts:
        words = _NPM.match(text)
        if words is not None and not _NPM_FACT.match(words[1].removeprefix("404").strip()):
            return text
    return texts[-1]
