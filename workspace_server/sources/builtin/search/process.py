"""Finds a search program outside the workspace, runs it, and always ends it before returning."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from workspace_server.sources.builtin.search.query import EngineUnavailable
from workspace_server.workspace import Workspace


def find_program(name: str, workspace: Workspace, environ: Mapping[str, str], *more: Path) -> str | None:
    """The absolute path of a program on PATH, or in one of `more` folders; None if there is none. Blocks.

    A program inside the workspace is never used, even if it is on PATH, because it is not trusted.
    """
    for place in [*environ.get("PATH", "").split(os.pathsep), *map(str, more)]:
        if not Path(place).is_absolute():
            continue
        program = shutil.which(name, path=place)
        if program and not any(
            workspace.contains(path.resolve()) for path in (Path(program), Path(program).parent)
        ):
            return program
    return None


# The capacity of a pipe on Linux: one read empties it.
CHUNK: Final = 64 * 1024
# Only the first lines say what is wrong; a search of unreadable folders writes a line for each.
MAX_STDERR: Final = 16 * 1024
END_S: Final = 5.0
"""Longest wait in seconds for a killed program; one that hangs in the kernel must not block the caller."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the program ended.

    Attributes:
        code: exit code; None if we killed the program.
        stderr: the first `MAX_STDERR` bytes of standard error.
    """

    code: int | None
    stderr: str


async def run(
    command: Sequence[str],
    cwd: Path,
    consume: Callable[[bytes], bool],
    *,
    stdin: bytes | None = None,
    environ: Mapping[str, str] | None = None,
) -> Exit:
    """Run `command` in `cwd` and hand its output to `consume` until that returns False or the output ends.

    The program runs in its own session. It is killed, with all processes of its group, if `consume` returns
    False, if the task is cancelled, or on any failure. `environ` are its variables, by default our own.

    Raises:
        EngineUnavailable: the program cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        with contextlib.ExitStack() as stack:
            stdin_file = asyncio.subprocess.DEVNULL if stdin is None else stack.enter_context(_file_of(stdin))
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd,
                stdin=stdin_file,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
                env=environ,
            )
    except (OSError, ValueError) as error:
        raise EngineUnavailable(str(error)) from None
    # both are pipes, as requested above, which the types do not express
    stdout, stderr = cast(asyncio.StreamReader, process.stdout), cast(asyncio.StreamReader, process.stderr)
    stderr_task = asyncio.create_task(_read_capped(stderr), name="search-stderr")
    try:
        finished = await _read(stdout, consume)
        code = await process.wait() if finished else None
        return Exit(code, (await stderr_task).decode("utf-8", "replace") if finished else "")
    finally:
        await _end(process, stdout, stderr_task)


def _file_of(data: bytes) -> IO[bytes]:
    """A temporary file for standard input.

    A pipe does not work: under uvloop it is a socket, which a program cannot open as `/dev/stdin`.
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
    """Hand the output to `consume`; returns whether it was read to its end."""
    while chunk := await stream.read(CHUNK):
        if not consume(chunk):
            return False
    return True


async def _read_capped(stream: asyncio.StreamReader) -> bytes:
    text = bytearray()
    while chunk := await stream.read(CHUNK):
        text += chunk[: MAX_STDERR - len(text)]
    return bytes(text)


async def _end(
    process: asyncio.subprocess.Process, stdout: asyncio.StreamReader, stderr_task: asyncio.Task[bytes]
) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            while await stdout.read(
                CHUNK
            ):  # wait() needs the end of the pipe, which a paused one never reports
                pass
            await stderr_task
            await process.wait()
