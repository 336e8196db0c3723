"""Runs one shell command in a session of its own, keeps its output, and leaves nothing of it running."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.process_ending import Judge, Verdict, environment, kill_all
from lm_tools_bridge.protocol import names
from lm_tools_bridge.text.harmless_variables import is_harmless, without_credentials

_SCRIPT: Final = 'read group || exit; read done || kill -s KILL -- "-$group"'
"""Reads the group, then waits: for a line, or for the end of the pipe, whose other end this program holds."""


@asynccontextmanager
async def watched() -> AsyncGenerator[Callable[[int], None]]:
    """A watch over a process group, which begins when its id is given, and ends with the block.

    Raises:
        OSError: there is no shell.
    """
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", _SCRIPT, stdin=asyncio.subprocess.PIPE, stdout=nowhere, stderr=nowhere,
        start_new_session=True, env={},
    )  # fmt: skip
    pipe = process.stdin
    assert pipe is not None  # noqa: S101  narrows the type

    def watch(group: int) -> None:
        pipe.write(f"{group}\n".encode())

    try:
        yield watch
    finally:
        # killed, not told: it must not act on a group whose id is free again
        with suppress(ProcessLookupError):
            process.kill()
        await _gone(process)


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Wait for the end, which comes at once, also while this task is cancelled."""
    waiting = asyncio.create_task(process.wait(), name="end a watch")
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


MAX_OUTPUT: Final = 1024 * 1024
"""Bytes of output that are kept."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE: Final = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-_])")


class OutputBuffer:
    """The first `MAX_OUTPUT` bytes, and the count of the others."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        room = MAX_OUTPUT - len(self._kept)
        self._kept += chunk[:room]
        self.dropped += max(0, len(chunk) - room)

    def text(self) -> str:
        """The text without control sequences, and how much is missing."""
        text = self._kept.decode("utf-8", "replace").replace("\r\n", "\n")
        text = _CONTROL.sub("", _SEQUENCE.sub("", text))
        if self.dropped:
            return f"{text.rstrip(chr(0xFFFD))}\n[truncated: {self.dropped} bytes dropped]"
        return text.removesuffix("\n")


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended. `code`: exit code, the negative signal number, or None if its time was over."""

    output: str
    code: int | None
    limit_s: float

    @property
    def failed(self) -> bool:
        """Whether it did anything but exit with 0."""
        return self.code != 0

    @property
    def text(self) -> str:
        """The output alone if it succeeded; else the output and how it ended."""
        if not self.failed:
            return self.output
        if self.code is None:
            ending = f"[ended after {self.limit_s:g} s, with everything it had started]"
        elif self.code < 0:
            ending = f"[ended by {_signal_name(-self.code)}]"
        else:
            ending = f"[exit code {self.code}]"
        return f"{self.output}\n{ending}" if self.output else ending


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


TERM_S: Final = 2.0
"""Seconds between SIGTERM and SIGKILL."""
DRAIN_S: Final = 0.25
"""Seconds to read on after the command has ended, if something it started keeps its output open."""
_CHUNK: Final = 64 * 1024  # bytes, as many as a pipe of Linux holds
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


async def run_command(
    command: str, cwd: Path, limit_s: float, extra: Mapping[str, str], started: asyncio.Future[int] | None
) -> CommandEnd:
    """Run a command to its end, for at most `limit_s` seconds. Cancelling the task ends it.

    Args:
        extra: variables beside those of this program that are known to be no secrets.
        started: gets the process id, which is also the id of its session.

    Raises:
        OSError: it cannot be started.
    """
    async with watched() as watch:
        return await _watched_command(command, cwd, limit_s, extra, started=started, watch=watch)


async def _watched_command(
    command: str,
    cwd: Path,
    limit_s: float,
    extra: Mapping[str, str],
    *,
    started: asyncio.Future[int] | None,
    watch: Callable[[int], None],
) -> CommandEnd:
    mark = os.urandom(16).hex()
    process = await asyncio.create_subprocess_exec(
        _shell(),
        "-c",
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=cwd,
        env={**_passed_on(), **extra, names.CHILD_VARIABLE: mark},
        start_new_session=True,
    )
    watch(process.pid)
    if started is not None:
        started.set_result(process.pid)
    output, is_late = OutputBuffer(), False
    reading = asyncio.create_task(_read_output(process, output), name="output of a command")
    try:
        try:
            async with asyncio.timeout(limit_s):
                await process.wait()
        except TimeoutError:
            is_late = True
        else:
            await asyncio.wait({reading}, timeout=DRAIN_S)
    finally:
        await _end(process, mark)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return CommandEnd(output.text(), None if is_late else process.returncode, limit_s)


async def _read_output(process: asyncio.subprocess.Process, output: OutputBuffer) -> None:
    assert process.stdout is not None  # noqa: S101  narrows the type
    while chunk := await process.stdout.read(_CHUNK):
        output.add(chunk)


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """End the group, politely first, then whatever else the command started; not to be cancelled half-way."""
    ending = asyncio.create_task(_end_all(process, mark), name="end a command")
    cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def _end_all(process: asyncio.subprocess.Process, mark: str) -> None:
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), TERM_S)
    _signal_group(process.pid, signal.SIGKILL)
    await process.wait()
    await asyncio.to_thread(kill_all, _judge_of(f"{names.CHILD_VARIABLE}={mark}".encode()))


def _judge_of(mark: bytes) -> Judge:
    def judge(pid: int) -> Verdict:
        return "ours" if mark in (environment(pid) or b"").split(b"\0") else "not ours"

    return judge


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _shell() -> str:
    return next(
        (shell for shell in _SHELLS if Path(shell).exists()), "sh" if sys.platform != "win32" else "cmd"
    )


def _passed_on() -> dict[str, str]:
    """This program's variables that are known to be no secrets: a model reads the output."""
    return {
        name: value
        for name, value in os.environ.items()
        if is_harmless(name) and without_credentials(value) == value
    }
