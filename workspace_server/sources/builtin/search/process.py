"""Runs a search program, reads its output in chunks, and always ends it before returning."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from workspace_server.sources.builtin.search.query import EngineUnavailable

CHUNK: Final = 64 * 1024
MAX_STDERR: Final = 16 * 1024
END_S: Final = 5.0
"""How long a killed program is waited for; one that hangs in the kernel must not hold up its caller."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the program ended: its code, None when we ended it; the first `MAX_STDERR` bytes it complained."""

    code: int | None
    stderr: str


async def run(
    command: Sequence[str],
    cwd: Path,
    consume: Callable[[bytes], bool],
    *,
    stdin: bytes | None = None,
) -> Exit:
    """Run `command` in `cwd` and hand its output to `consume` until that returns False or the output ends.

    The program has its own session and is killed with everything it started: when `consume` has enough, when
    the task is cancelled, when anything fails.

    Raises:
        EngineUnavailable: the program cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        with contextlib.ExitStack() as stack:
            fed = asyncio.subprocess.DEVNULL if stdin is None else stack.enter_context(_file_of(stdin))
            process = await asyncio.create_subprocess_exec(
                *command, cwd=cwd, stdin=fed, stdout=pipe, stderr=pipe, start_new_session=True
            )
    except (OSError, ValueError) as error:
        raise EngineUnavailable(str(error)) from None
    # both are pipes, as asked for above; the types cannot say so
    stdout, stderr = cast(asyncio.StreamReader, process.stdout), cast(asyncio.StreamReader, process.stderr)
    complaints = asyncio.create_task(_read_capped(stderr), name="search-stderr")
    try:
        finished = await _read(stdout, consume)
        code = await process.wait() if finished else None
        return Exit(code, (await complaints).decode("utf-8", "replace") if finished else "")
    finally:
        await _end(process, stdout, complaints)


def _file_of(data: bytes) -> IO[bytes]:
    """A nameless file to be read as standard input.

    Not a pipe: under uvloop that is a socket, which a program cannot open as `/dev/stdin`.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    try:
        file.write(data)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


async def _read(stream: asyncio.StreamReader, consume: Callable[[bytes], bool]) -> bool:
    """Whether the output was read to its end."""
    while chunk := await stream.read(CHUNK):
        if not consume(chunk):
            return False
    return True


async def _read_capped(stream: asyncio.StreamReader) -> bytes:
    kept = bytearray()
    while chunk := await stream.read(CHUNK):
        kept += chunk[: MAX_STDERR - len(kept)]
    return bytes(kept)


async def _end(
    process: asyncio.subprocess.Process, stdout: asyncio.StreamReader, complaints: asyncio.Task[bytes]
) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            while await stdout.read(CHUNK):  # a paused pipe never reports its end, and wait() needs that
                pass
            await complaints
            await process.wait()
