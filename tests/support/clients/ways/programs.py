"""Starts agent programs, with or without a terminal, and ends all that they left."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.clients.agents import end_group

TAIL = 1500
COLUMNS, ROWS = 120, 40
QUERIES = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;c",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
    b"\x1b[?u": b"\x1b[?0u",
}
"""What programs ask a terminal before they draw, and what it answers."""


@dataclass
class Program:
    """A started program.

    Attributes:
        log: all that it prints.
        began: the monotonic clock when it was started.
        ended: completes with an explanation when it ends.
    """

    process: Process
    log: Path
    began: float
    ended: asyncio.Future[str]
    terminal: int | None = None

    @property
    def tail(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-TAIL:]

    def press(self, keys: str) -> None:
        """Type at its terminal."""
        assert self.terminal is not None
        os.write(self.terminal, keys.encode())


@contextlib.asynccontextmanager
async def program(
    command: Sequence[str], environ: Mapping[str, str], cwd: Path, log: Path, *, has_terminal: bool = False
) -> AsyncIterator[Program]:
    """Run a program for the time of the block; its process group does not outlive it."""
    ours, theirs = _terminal() if has_terminal else (None, None)
    began = time.monotonic()
    with log.open("wb") as stream:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=cwd, env=environ,
            stdin=DEVNULL if theirs is None else theirs,
            stdout=stream if theirs is None else theirs, stderr=stream if theirs is None else theirs,
            start_new_session=True,
        )  # fmt: skip
    if theirs is not None:
        os.close(theirs)
    running = Program(process, log, began, asyncio.get_running_loop().create_future(), ours)
    watching = asyncio.create_task(_watch(running))
    try:
        if ours is not None:
            asyncio.get_running_loop().add_reader(ours, _read, ours, log)
        yield running
    finally:
        if ours is not None:
            asyncio.get_running_loop().remove_reader(ours)
            os.close(ours)
        end_group(process.pid)
        await watching


async def _watch(running: Program) -> None:
    code = await running.process.wait()
    running.ended.set_result(f"it ended with exit code {code}: {running.tail}")


def _terminal() -> tuple[int, int]:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return ours, theirs


def _read(terminal: int, log: Path) -> None:
    try:
        printed = os.read(terminal, 65536)
    except OSError:  # EIO: the other side is closed
        asyncio.get_running_loop().remove_reader(terminal)
        return
    with log.open("ab") as stream:
        stream.write(printed)
    for question, answer in QUERIES.items():
        if question in printed:
            os.write(terminal, answer)
